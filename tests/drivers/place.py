"""Participants and a decision log for tests of recovery, which prepare, decide and commit branches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg import sql

from tests.fix_server import Database, MakeDatabase
from twopc.drivers import heuristics
from twopc.drivers.database import Database as Connection
from twopc.drivers.install import install_decision_log, install_participant
from twopc.drivers.participant import ParticipantAddress, ServerParticipant
from twopc.drivers.points import Points
from twopc.drivers.recorded_decisions import DecisionReader
from twopc.drivers.recovery import Recovery, SettledBranch
from twopc.names import SCHEMA
from twopc.sql.render import render

NAMES = ("pub", "sub1", "sub2")


class Place:
    """Three participants and a decision log of coordinator ``c``, whose process does not run."""

    def __init__(self, databases: dict[str, Database]) -> None:
        self.databases = databases
        self.points = Points()

    def fetch(self, node: str, query: str, params: Any = None) -> list[tuple[Any, ...]]:
        with closing(self.databases[node].connect()) as connection:
            cursor = connection.execute(query.encode(), params)
            return cursor.fetchall() if cursor.description else []

    def epoch(self, variant: str = "presumed_abort", *, coordinator: str = "c") -> int:
        """Create an epoch whose process is dead, and return its number."""
        query = "insert into msrepl.coordinator_epoch (coordinator, variant) values (%s, %s) returning epoch"
        return int(self.fetch("log", query, (coordinator, variant))[0][0])

    def prepare(self, gid: str, node: str = "") -> None:
        """Prepare a branch that inserts one row into ``t``."""
        with closing(self.databases[node or gid.rpartition(":")[2]].connect()) as connection:
            connection.execute("begin")
            self._write(connection, gid)
            connection.execute(f"prepare transaction '{gid}'".encode())

    def commit(self, gid: str, *sites: str, calls: int = 0, node: str = "") -> None:
        """Commit a branch that inserts one row into ``t``.

        Its marker names the sites: ``pub`` and ``sub1`` if none is given.
        """
        with closing(self.databases[node or gid.rpartition(":")[2]].connect()) as connection:
            connection.execute("begin")
            self._write(connection, gid, sites, calls)
            connection.execute("commit")

    def _write(
        self, connection: psycopg.Connection, gid: str, sites: Sequence[str] = (), calls: int = 0
    ) -> None:
        connection.execute("insert into t values (%s)", (gid,))
        connection.execute(
            "insert into msrepl.branch_marker (gid, xid, participants, calls)"
            " values (%s, pg_current_xact_id(), %s, %s)",
            (gid, [*sites] or ["pub", "sub1"], calls),
        )

    def decide(
        self,
        epoch: int,
        sequence: int,
        kind: str = "commit",
        names: Sequence[str] = ("pub", "sub1"),
    ) -> None:
        self.fetch(
            "log",
            "insert into msrepl.decision (epoch, sequence, coordinator, kind, participants)"
            " values (%s, %s, 'c', %s, %s)",
            (epoch, sequence, kind, list(names)),
        )

    def rows(self, node: str) -> list[str]:
        """Return the gids of the branches that have committed at a node."""
        return [gid for (gid,) in self.fetch(node, "select gid from t order by gid")]

    def prepared(self, node: str) -> list[tuple[Any, ...]]:
        query = """
            select gid, owner, prepared, transaction from pg_prepared_xacts
            where database = current_database() order by gid
        """
        return self.fetch(node, query)

    def decisions(self) -> list[tuple[Any, ...]]:
        return self.fetch("log", "select epoch, sequence, kind, participants from msrepl.decision")

    def recovery(self, *, retention_s: float = 600.0, **dsns: str) -> Recovery:
        addresses = [
            ParticipantAddress(name=name, dsn=dsns.get(name, self.databases[name].dsn))
            for name in NAMES
        ]
        return Recovery(
            "c",
            publisher="pub",
            participants={one.name: ServerParticipant(one, "c") for one in addresses},
            decisions=DecisionReader(
                Connection("distribution", self.databases["log"].dsn, "twopc recovery c")
            ),
            points=self.points,
            retention_s=retention_s,
        )

    async def recover(self, **options: Any) -> list[SettledBranch]:
        """Run one pass of a new recovery."""
        async with self.recovery(**options) as recovery:
            return await recovery.run()

    async def heuristics(self) -> list[heuristics.Heuristic]:
        database = Connection("distribution", self.databases["log"].dsn, "test")
        try:
            return await heuristics.read(database, "twopc:c:")
        finally:
            await database.close()


@pytest.fixture
async def place(make_database: MakeDatabase) -> AsyncIterator[Place]:
    databases = {name: make_database() for name in (*NAMES, "log")}
    for name, database in databases.items():
        async with await psycopg.AsyncConnection.connect(
            database.dsn, autocommit=True
        ) as connection:
            if name == "log":
                await install_decision_log(connection, "postgres")
            else:
                await connection.execute(
                    f"create schema {SCHEMA}; create table t (gid text)".encode()
                )
                owner = sql.Identifier("postgres")
                await connection.execute(render("twopc", "branch_marker", owner=owner).encode())
                await install_participant(connection, "postgres", "postgres")
    yield Place(databases)
    for name in NAMES:  # branches that recovery must not touch
        for gid, *_ in (made := Place(databases)).prepared(name):
            made.fetch(name, f"rollback prepared '{gid}'")
