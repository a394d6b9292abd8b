"""Tests of deadlocks across several servers: detected, reported, and ended by aborting one victim."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import psycopg
import pytest

from tests.drivers.bank import PUB, Bank
from tests.fix_link import until
from twopc import errors
from twopc.drivers import PostgresCoordinator, Transaction
from twopc.sim.topology import Topology

MakeTopology = Callable[..., Awaitable[Topology]]


@pytest.fixture
async def crossed(make_topology: MakeTopology) -> Bank:
    """A bank with two Subscribers, whose lock_timeout is too long to end a deadlock."""
    topology = await make_topology(subscribers=("sub1", "sub2"), lock_timeout_ms=60_000)
    return await Bank.open(topology)


async def change(transaction: Transaction, account: int) -> None:
    await transaction.execute("update account set balance = balance + 1 where id = %s", (account,))


async def waiting(bank: Bank, count: int) -> None:
    """Wait until `count` sessions wait for a lock."""
    query = (
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname like %s"
    )

    def look() -> bool:
        with psycopg.connect(bank.topology.node(PUB).dsn, autocommit=True) as eyes:
            row = eyes.execute(query, (f"{bank.topology.name}%",)).fetchone()
            return row is not None and row[0] >= count

    await until(look, f"{count} sessions to wait")


async def cross(
    bank: Bank, coordinator: PostgresCoordinator
) -> tuple[list[Transaction], list[asyncio.Task[None]]]:
    """Create a cycle of three transactions over two servers.

    ``a`` waits for ``b`` at the Publisher, ``b`` for ``c`` at sub2, ``c`` for ``a`` at the
    Publisher. The Publisher sees two of the three waits, sub2 the third.
    """
    a = await coordinator.transaction("sub1").begin()
    b = await coordinator.transaction("sub2").begin()
    c = await coordinator.transaction("sub2").begin()
    for account, transaction in enumerate((a, b, c), start=1):
        await change(transaction, account)
    tasks = []
    for count, (transaction, account) in enumerate(((a, 2), (b, 3), (c, 1)), start=1):
        tasks.append(asyncio.create_task(change(transaction, account)))
        await waiting(bank, count)
    return [a, b, c], tasks


async def test_a_deadlock_across_servers_has_one_victim_who_is_told_the_cycle(
    crossed: Bank,
) -> None:
    async with crossed.coordinator(lock_timeout_ms=60_000) as coordinator:
        transactions, tasks = await cross(crossed, coordinator)
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        victims = [one for one, task in zip(transactions, tasks, strict=True) if task in done]
        assert victims == [transactions[2]], "the youngest has least to lose"
        error = tasks[2].exception()
        assert isinstance(error, errors.DeadlockError)
        assert error.kind == "deadlock"
        assert len(error.cycle) == 3
        assert sorted(words.partition(":")[0] for words in error.cycle) == ["pub", "pub", "sub2"]
        assert "account" in str(error)

        a, b, c = transactions
        await c.rollback()
        await tasks[1]
        await b.commit()
        with pytest.raises(errors.ConflictError):  # a waited for a row that b has changed
            await tasks[0]
        await a.rollback()
    assert await crossed.prepared() == []
    assert [await crossed.balance(PUB, account) for account in (1, 2, 3)] == [0, 1, 1]


async def test_it_takes_two_looks(crossed: Bank) -> None:
    """A cycle is broken only when seen twice, because nodes cannot be inspected at one instant."""
    async with crossed.coordinator(lock_timeout_ms=60_000, deadlock_interval_s=3600) as coordinator:
        transactions, tasks = await cross(crossed, coordinator)
        detector = coordinator.keeper.detector
        assert await detector.look() == []
        broken = await detector.look()
        assert len(broken) == 1
        with pytest.raises(errors.DeadlockError):
            await tasks[2]
        assert await detector.look() == []
        for transaction in transactions[::-1]:
            await transaction.rollback()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_deadlock_in_one_server_is_that_servers_business(crossed: Bank) -> None:
    async with crossed.coordinator(deadlock_interval_s=0.05) as coordinator:
        a = await coordinator.transaction("sub1").begin()
        b = await coordinator.transaction("sub2").begin()
        await change(a, 1)
        await change(b, 2)
        tasks = [asyncio.create_task(change(a, 2)), asyncio.create_task(change(b, 1))]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
        error = next(iter(done)).exception()
        assert isinstance(error, errors.DeadlockError)
        assert error.sqlstate == "40P01", "the server's own detector was first, and the only one"
        victim = (a, b)[tasks.index(next(iter(done)))]
        await victim.rollback()
        await asyncio.gather(*pending)
        await (b if victim is a else a).commit()
    assert await crossed.prepared() == []


async def test_a_queue_is_not_a_deadlock(crossed: Bank) -> None:
    async with crossed.coordinator(deadlock_interval_s=3600) as coordinator:
        first = await coordinator.transaction("sub1").begin()
        await change(first, 1)
        behind = [await coordinator.transaction("sub2").begin() for _ in range(2)]
        tasks = []
        for count, one in enumerate(behind, start=1):
            tasks.append(asyncio.create_task(change(one, 1)))
            await waiting(crossed, count)
        for _ in range(3):
            assert await coordinator.keeper.detector.look() == []
        await first.rollback()
        await tasks[0]
        await behind[0].rollback()
        await tasks[1]
        await behind[1].commit()
    assert await crossed.prepared() == []
