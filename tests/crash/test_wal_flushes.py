"""Tests of WAL flushes: how many each kind of transaction waits for, as counted by the servers.

``pg_stat_io`` (object ``wal``) counts flushes by type of process; client backends count every flush
that a commit waits for. A backend's count is complete when the backend has ended, so a coordinator
is opened, runs a number of transactions, and is closed. The difference between two numbers gives
the flushes of one transaction.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tests.grid.program import NO_PUBLISHER, NO_SUBSCRIBER
from tests.grid.rig import LOG, NODES, PUBLISHER, SUBSCRIBER, Rig
from twopc.drivers import PostgresCoordinator
from twopc.errors import RejectedError
from twopc.server.polling import wait_for

FLUSHES = """
select coalesce(sum(fsyncs), 0)::int from pg_stat_io
where object = 'wal' and backend_type = 'client backend'
"""
CLIENTS = """
select pid from pg_stat_activity
where backend_type = 'client backend' and pid <> pg_backend_pid()
"""
#: Only commits flush the WAL: not the WAL writer, autovacuum or a checkpoint.
QUIET = {
    "wal_writer_delay": "10s",
    "wal_writer_flush_after": "0",
    "autovacuum": "off",
    "checkpoint_timeout": "1h",
    "wal_sync_method": "fdatasync",
}
FEW, MANY = 2, 12


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Start servers that flush to disk, one for each node."""
    with Rig(durable=True, settings=QUIET) as made:
        yield made


@dataclass(frozen=True, slots=True, kw_only=True)
class Flushes:
    """Flushes at each node."""

    publisher: float
    subscriber: float
    log: float

    @property
    def total(self) -> float:
        """Flushes at all nodes."""
        return self.publisher + self.subscriber + self.log


Work = Callable[[PostgresCoordinator, int], Awaitable[None]]


class Meter:
    """Counts the flushes of one transaction."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig

    async def of(self, work: Work) -> Flushes:
        """Return the flushes per execution of `work`, which runs many times; a fraction if they vary."""
        await self._of(work, 1)  # the first run may also flush WAL of earlier page changes
        few, many = await self._of(work, FEW), await self._of(work, MANY)
        each = [(many[node] - few[node]) / (MANY - FEW) for node in (PUBLISHER, SUBSCRIBER, LOG)]
        return Flushes(publisher=each[0], subscriber=each[1], log=each[2])

    async def _of(self, work: Work, times: int) -> dict[str, int]:
        before = await asyncio.to_thread(self._read)
        task = self._rig.task(self._rig.fresh_name())
        coordinator = PostgresCoordinator(
            task.coordinator,
            distribution=task.distribution,
            publisher=task.publisher,
            subscribers={SUBSCRIBER: task.subscriber},
            recovery_interval_s=3600.0,
        )
        async with coordinator:
            for _ in range(times):
                await work(coordinator, self._rig.fresh_row())
        after = await asyncio.to_thread(self._read)
        return {node: after[node] - before[node] for node in NODES}

    def _read(self) -> dict[str, int]:
        """Return the counts at each node, after all other clients have ended."""
        found = {}
        for node in NODES:
            wait_for(
                partial(self._is_alone, node),
                what=f"the sessions at {node} to end",
                timeout_s=10,
            )
            found[node] = int(self._rig.fetch(node, FLUSHES)[0][0])
        return found

    def _is_alone(self, node: str) -> bool:
        return not self._rig.fetch(node, CLIENTS)


@pytest.fixture
def meter(rig: Rig) -> Meter:
    return Meter(rig)


def change(commit: str, *more: str) -> Work:
    """Return work that updates one row, and executes more statements."""

    async def work(coordinator: PostgresCoordinator, row: int) -> None:
        async with coordinator.transaction(SUBSCRIBER, commit=commit) as transaction:
            await transaction.execute(f"update account set balance = 0 where id = {row}")
            for statement in more:
                await transaction.execute(statement.format(row))

    return work


def refused(work: Work) -> Work:
    """Return work that must be refused each time."""

    async def refuse(coordinator: PostgresCoordinator, row: int) -> None:
        with pytest.raises(RejectedError):
            await work(coordinator, row)

    return refuse


async def rolled_back(coordinator: PostgresCoordinator, row: int) -> None:
    async with coordinator.transaction(SUBSCRIBER) as transaction:
        await transaction.execute(f"update account set balance = 0 where id = {row}")
        await transaction.rollback()


async def read_only(coordinator: PostgresCoordinator, row: int) -> None:
    async with coordinator.transaction(SUBSCRIBER) as transaction:
        await transaction.execute(f"select balance from account where id = {row}")


async def local_only(coordinator: PostgresCoordinator, row: int) -> None:
    async with coordinator.transaction(SUBSCRIBER) as transaction:
        await transaction.execute(f"insert into only_here values ({-row})")


async def one_shot(coordinator: PostgresCoordinator, row: int) -> None:
    await coordinator.run(SUBSCRIBER, "update account set balance = 0 where id = $1", (row,))


def of(publisher: float, subscriber: float, log: float) -> Flushes:
    """Return a row of the table below."""
    return Flushes(publisher=publisher, subscriber=subscriber, log=log)


NO_HERE = "insert into only_here values (0), (0)"
NO_THERE = "insert into entry (id, kind, amount) values ({}, 0, 1)"

#: PREPARE and COMMIT PREPARED flush once each, and so does a decision.
EXPECTED: dict[str, tuple[Work, Flushes]] = {
    "presumed abort": (change("presumed_abort"), of(2, 2, 1)),
    "presumed abort, in one message": (one_shot, of(2, 2, 1)),
    "last agent": (change("last_agent"), of(2, 1, 0)),
    "presumed commit": (change("presumed_commit"), of(2, 2, 2)),
    "presumed nothing": (change("presumed_nothing"), of(2, 2, 1)),
    "a read-only branch": (read_only, of(0, 0, 0)),
    "a branch at the Subscriber only": (local_only, of(0, 2, 1)),
    f"{NO_PUBLISHER}, presumed abort": (refused(change("presumed_abort", NO_THERE)), of(0, 0, 0)),
    f"{NO_SUBSCRIBER}, presumed abort": (refused(change("presumed_abort", NO_HERE)), of(2, 0, 0)),
    f"{NO_SUBSCRIBER}, last agent": (refused(change("last_agent", NO_HERE)), of(2, 0, 0)),
    f"{NO_SUBSCRIBER}, presumed nothing": (
        refused(change("presumed_nothing", NO_HERE)), of(2, 0, 1),
    ),
    "rolled back by the application": (rolled_back, of(0, 0, 0)),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
async def test_flushes(meter: Meter, name: str) -> None:
    work, expected = EXPECTED[name]
    assert await meter.of(work) == expected


def test_totals() -> None:
    """The documented totals hold: 5 for presumed abort, 3 for last agent, 0 for a reader."""
    totals = {name: expected.total for name, (_, expected) in EXPECTED.items()}
    assert totals["presumed abort"] == totals["presumed abort, in one message"] == 5
    assert totals["last agent"] == 3
    assert totals["a read-only branch"] == 0


async def test_an_abort_after_every_yes(meter: Meter, rig: Rig) -> None:
    """If the decision log refuses the decision, both prepared branches are rolled back.

    Each PREPARE and each ROLLBACK PREPARED is one flush.
    """

    async def work(coordinator: PostgresCoordinator, row: int) -> None:
        async with coordinator.transaction(SUBSCRIBER) as transaction:
            await transaction.execute(f"update account set balance = 0 where id = {row}")
            await asyncio.to_thread(fence, transaction.ids.epoch)

    def fence(epoch: Any) -> None:
        rig.fetch(
            LOG, "update msrepl.coordinator_epoch set fenced = true where epoch = %s", (epoch,)
        )

    flushes = await meter.of(refused(work))
    assert (flushes.publisher, flushes.subscriber) == (2, 2)
