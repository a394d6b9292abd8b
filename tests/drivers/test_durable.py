"""Tests that the records that recovery needs survive a crash, even without synchronous_commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import closing

import pytest
from psycopg import AsyncConnection

from tests.drivers.test_decision_log import COMMIT, logged
from tests.drivers.test_participant import GID, MARK, furnish
from tests.fix_server import Database
from twopc.drivers import heuristics
from twopc.drivers.database import Database as Connection
from twopc.drivers.decision_log import DecisionLog
from twopc.drivers.install import install_decision_log
from twopc.drivers.participant import ParticipantAddress, ServerParticipant
from twopc.protocol.effects import Outcome
from twopc.server import EmbeddedServer

#: Commits do not wait for WAL to be flushed, and nothing flushes it by itself.
SETTINGS = {
    "synchronous_commit": "off",
    "wal_writer_delay": "10s",
    "wal_writer_flush_after": "1GB",
}

Does = Callable[[Database], Awaitable[None]]


async def decide(place: Database) -> None:
    log = DecisionLog("c", place.dsn, ("pub", "sub1"))
    await log.ensure()
    epoch = (await log.epoch("presumed_abort")).epoch
    assert await logged(log.append(epoch, 7, COMMIT)) == ["logged"]
    await log.close()


async def open_epoch(place: Database) -> None:
    log = DecisionLog("c", place.dsn, ("pub", "sub1"))
    await log.ensure()
    await log.epoch("presumed_abort")
    await log.close()


async def fence(place: Database) -> None:
    participant = ServerParticipant(ParticipantAddress(name="pub", dsn=place.dsn), "c")
    assert await participant.fence(GID, []) is Outcome.ABORTED
    await participant.close()


async def learn(place: Database) -> None:
    """Learn the outcome of a branch that committed without waiting for its WAL."""
    with closing(place.connect()) as connection:
        connection.execute(MARK.encode())
    participant = ServerParticipant(ParticipantAddress(name="pub", dsn=place.dsn), "c")
    assert await participant.fence(GID, []) is Outcome.COMMITTED
    await participant.close()


async def force(place: Database) -> None:
    database = Connection("distribution", place.dsn, "test")
    await heuristics.forced(
        database, gid=GID, node="pub", outcome=Outcome.COMMITTED, decided=None, reason="test"
    )
    await database.close()


@pytest.mark.parametrize(
    ("does", "leaves"),
    [
        (decide, "select true from msrepl.decision"),
        (open_epoch, "select true from msrepl.coordinator_epoch"),
        (fence, "select fence from msrepl.branch_marker"),
        (learn, "select not fence from msrepl.branch_marker"),
        (force, "select true from msrepl.heuristic_outcome"),
    ],
)
async def test_it_outlives_a_crash(does: Does, leaves: str) -> None:
    with EmbeddedServer.start(settings=SETTINGS) as server:
        server.create_database("db")
        place = Database(server=server, name="db")
        await furnish(place)
        async with await AsyncConnection.connect(place.dsn, autocommit=True) as connection:
            await install_decision_log(connection, "postgres")
            await connection.execute("checkpoint")
        await does(place)
        await asyncio.to_thread(server.crash)
        await asyncio.to_thread(server.restart)
        with closing(place.connect()) as connection:
            assert connection.execute(leaves.encode()).fetchall() == [(True,)]
