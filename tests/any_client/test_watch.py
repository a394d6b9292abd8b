"""Tests that a resolver finds decisions without its sweep: awake, asleep, and if others hold its lock."""

from __future__ import annotations

import asyncio

import pytest

from tests.any_client.conftest import Clients
from twopc.drivers import resolver_watch
from twopc.drivers.resolver_lock import ServerLock

pytestmark = pytest.mark.usefixtures("no_sweep")

UPDATE = "update account set balance = balance + 1 where id = {}"
ASLEEP = """
select 1 from pg_locks where locktype = 'advisory' and classid = 1836282471 and mode = 'ExclusiveLock' and granted
  and database = (select oid from pg_database where datname = current_database())
"""


async def asleep(clients: Clients) -> bool:
    """Return whether the resolver's lock is held exclusively."""
    return bool(await clients.rows("sub1", ASLEEP))


async def test_asleep_it_is_woken(clients: Clients) -> None:
    for _ in range(3):
        await clients.until(lambda: asleep(clients), "it to fall asleep")
        await clients.app.execute(UPDATE.format(1))
        await clients.settled()
    assert (await clients.balances())[0] == 103


async def test_awake_it_misses_nothing(clients: Clients) -> None:
    """No commit is missed while the resolver looks, falls asleep or sleeps."""

    async def work(row: int) -> None:
        client = await clients.client()
        for number in range(25):
            await client.execute(UPDATE.format(row))
            if number % 5 == row:
                await clients.until(lambda: asleep(clients), "it to fall asleep")

    await asyncio.gather(*(work(row) for row in (1, 2, 3, 4)))
    await clients.settled()
    assert await clients.balances() == [125] * 4


async def test_a_lock_that_a_client_shares_is_not_taken(clients: Clients) -> None:
    """The resolver cannot fall asleep while a client shares the lock: it would miss that client's commit.

    The test takes the lock at the Publisher, where no resolver holds it.
    """
    client = await clients.client("pub")
    lock = ServerLock(lambda: clients.client("pub"), "notices")
    await lock.open()
    await client.execute("select pg_advisory_lock_shared(1836282471, 0)")
    assert not await lock.try_lock()
    await client.execute("select pg_advisory_unlock_all()")
    assert await lock.try_lock()
    await lock.close()


@pytest.mark.parametrize("how", ["shared", "exclusively"])
async def test_others_hold_the_lock(
    clients: Clients, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another session holds the lock, the resolver keeps looking, or every client notifies.

    Here the resolver tries to take the lock after each branch, and finishes the next branch even
    without it.
    """
    monkeypatch.setattr(resolver_watch, "_BEHIND", 0)
    kind = "_shared" if how == "shared" else ""
    holder = await clients.client()
    if how == "shared":  # not queued behind a resolver that sleeps
        await clients.app.execute(UPDATE.format(2))
    await holder.execute(f"select pg_advisory_lock{kind}(1836282471, 0)".encode())
    for _ in range(5):
        await clients.app.execute(UPDATE.format(1))
        await clients.settled()
    await holder.execute("select pg_advisory_unlock_all()")
    await clients.until(lambda: asleep(clients), "it to fall asleep again")
    assert (await clients.balances())[0] == 105
