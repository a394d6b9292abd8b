"""M29: PostgreSQL's own logical replication, with two_phase, reads the tables that are published here.

It follows our branches: what is prepared at the Publisher is prepared at its subscriber too, under a name of its own,
and ends as ours does. It is another's, so our recovery leaves it alone; and our log reader needs nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import psycopg
import pytest

from tests.grid.cells import Kind, Seen
from tests.grid.process import CoordinatorProcess
from tests.grid.rig import LOG, PUBLISHER, Rig
from twopc.server.polling import wait_for

NATIVE = "native"
_PREPARED = (
    "select gid from pg_prepared_xacts where database = current_database() and gid like 'pg_gid_%'"
)


class Native:
    """A database that subscribes to the Publisher's accounts in PostgreSQL's way."""

    def __init__(self, rig: Rig) -> None:
        self._server = rig.servers[LOG]
        self._server.create_database(NATIVE)
        self.dsn = self._server.superuser_dsn(NATIVE)
        rig.fetch(PUBLISHER, "create publication native for table account")
        self._do("create table account (id int primary key, balance int, msrepl_tran_version uuid)")
        there = rig.servers[PUBLISHER].superuser_dsn(PUBLISHER).replace("'", "''")
        self._do(
            f"create subscription native connection '{there}' publication native with (two_phase = true)"
        )
        # Once the rows are copied, what is prepared is sent as such.
        query = "select 1 from pg_subscription where subtwophasestate = 'e'"
        wait_for(lambda: self._do(query), what="two_phase to be in use", timeout_s=60)

    def _do(self, text: str) -> list[tuple[object, ...]]:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(text.encode())
            return cursor.fetchall() if cursor.description else []

    def prepared(self) -> list[tuple[object, ...]]:
        """What it has prepared, by its own names."""
        return self._do(_PREPARED)

    def balance(self, row: int) -> object:
        """Of an account."""
        return self._do(f"select balance from account where id = {row}")[0][0]

    def end(self) -> None:
        """Its slot goes with it."""
        self._do("drop subscription native")
        self._server.drop_database(NATIVE)


@pytest.fixture(scope="module")
def alone() -> Iterator[Rig]:
    """Nobody has anything prepared there: no slot can be made beside that."""
    with Rig(planted=False) as made:
        yield made


@pytest.fixture(scope="module")
def native(alone: Rig) -> Iterator[Native]:
    made = Native(alone)
    yield made
    made.end()


@pytest.mark.parametrize(
    ("point", "balance"),
    [("coordinator.before_decision", 100), ("coordinator.decision_logged", 101)],
)
def test_it_follows_our_branches(alone: Rig, native: Native, point: str, balance: int) -> None:
    """The coordinator is killed while its branches are prepared; another recovers."""
    seen = Seen.begin(alone, Kind())
    task = alone.task(seen.name, row=seen.row, warm_row=alone.fresh_row(), halt=point)
    with CoordinatorProcess(task) as process:
        assert process.halted()
        wait_for(native.prepared, what="the native subscriber to prepare", timeout_s=20)
        assert native.balance(seen.row) == 100
        process.kill()
    with CoordinatorProcess(alone.task(seen.name)) as process:
        alone.nothing_prepared(seen.name)
        process.end()
    wait_for(partial(_over, native), what="the native subscriber to finish", timeout_s=20)
    assert native.balance(seen.row) == balance
    assert {held.row[0] for held in seen.look(alone).sites.values()} == {balance}


def _over(native: Native) -> bool:
    return not native.prepared()
