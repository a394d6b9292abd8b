"""The yardstick of `benchmarks.distribution`: PostgreSQL's own logical replication, on the same servers.

One publication, a subscription per Subscriber, defaults throughout (``streaming = parallel``, apply with
``synchronous_commit = off``), tables with default replica identity. It is paused by stopping its processes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence

import psycopg
from psycopg import sql
from psycopg.rows import dict_row

_WORKERS = """
select pid from pg_stat_activity
where backend_type in ('logical replication apply worker', 'logical replication parallel worker')
union all
select pid from pg_stat_replication where application_name like 'native%'
"""


def wait(done: object, what: str, timeout_s: float = 300.0, *, pause_s: float = 0.002) -> None:
    """Poll until a condition holds."""
    assert callable(done)
    end = time.monotonic() + timeout_s
    while not done():
        if time.monotonic() > end:
            raise SystemExit(f"VOID: waited {timeout_s:.0f} s for {what}")
        time.sleep(pause_s)


class Native:
    """Logical replication of some tables from one database to others."""

    def __init__(self, publisher_dsn: str, subscriber_dsns: Sequence[str]) -> None:
        self.publisher = psycopg.connect(publisher_dsn, autocommit=True)
        self.publisher_dsn = publisher_dsn
        self.subscribers = [psycopg.connect(dsn, autocommit=True) for dsn in subscriber_dsns]

    def replicate(self, tables: dict[str, str]) -> None:
        """Publish tables (name to column definitions), which exist at the Publisher, and subscribe."""
        for subscriber in self.subscribers:
            for name, columns in tables.items():
                subscriber.execute(f"create table {name} ({columns})".encode())
        self.publisher.execute(f"create publication native for table {', '.join(tables)}".encode())
        for number, subscriber in enumerate(self.subscribers, 1):
            subscriber.execute(
                sql.SQL("create subscription {} connection {} publication native").format(
                    sql.Identifier(f"native{number}"), sql.Literal(self.publisher_dsn)
                )
            )

    def copied(self) -> bool:
        """Return whether the initial copies are complete."""
        query = "select count(*) from pg_subscription_rel where srsubstate <> 'r'"
        return all(s.execute(query).fetchone() == (0,) for s in self.subscribers)

    def settings(self) -> dict[str, object]:
        """Return how the first subscription applies, from the catalog."""
        query = """select subsynccommit as synchronous_commit, substream as streaming, subbinary as "binary",
            subdisableonerr as disable_on_error from pg_subscription limit 1"""
        with self.subscribers[0].cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query).fetchone() or {}

    def hold(self) -> None:
        """Stop the processes where they are."""
        self._signal(signal.SIGSTOP)

    def let_go(self) -> None:
        """Let the processes continue."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        for connection in (self.publisher, *self.subscribers):
            for (pid,) in connection.execute(_WORKERS):
                os.kill(pid, number)

    def close(self) -> None:
        """Drop subscriptions and publication."""
        self.let_go()
        for number, subscriber in enumerate(self.subscribers, 1):
            subscriber.execute(f"drop subscription native{number}".encode())
            subscriber.close()
        self.publisher.execute("drop publication native")
        self.publisher.close()
