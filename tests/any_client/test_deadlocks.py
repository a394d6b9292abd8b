"""Tests of any client as the victim of a deadlock across servers: it gets an error, and can retry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection, errors

from tests.any_client.conftest import Clients, beside_another

pytestmark = beside_another

UPDATE = "update account set balance = balance + 1 where id = {}"


@pytest.fixture
async def patient(clients: Clients) -> Clients:
    """Disable `lock_timeout`, so that it cannot break a deadlock before the deadlock is detected."""
    for node in ("pub", "sub1", "sub2"):
        (name,) = (await clients.rows(node, "select current_database()"))[0]
        await clients.rows(node, f"alter database {name} set lock_timeout = 0")
    return clients


async def waiting(clients: Clients, count: int) -> None:
    """Wait until at least `count` sessions wait for locks, at any of the sites."""
    query = (
        "select count(*) from pg_stat_activity where wait_event_type = 'Lock' and datname like %s"
    )

    async def are() -> bool:
        rows = await clients.topology.execute("pub", query, (f"{clients.topology.name}%",))
        return bool(rows[0][0] >= count)

    await clients.until(are, f"{count} sessions to wait")


async def begun(clients: Clients, row: int) -> AsyncConnection[Any]:
    client = await clients.client()
    await client.execute("begin")
    await client.execute(UPDATE.format(row))
    return client


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
@pytest.mark.parametrize("begins_last", ["who waits over its link", "who waits at its own site"])
async def test_the_victim_of_a_deadlock_across_servers_is_told(
    patient: Clients, begins_last: str, shipping: str
) -> None:
    """The session that waits over its link is chosen as the victim, and its statement fails with 40P01.

    A coordinator's transaction waits for ``b`` at the Publisher, ``b`` for ``c`` at sub1, and ``c``
    for the coordinator's transaction at the Publisher. A session that waits at its own site cannot
    get the error, and is not chosen.
    """
    clients = patient
    async with clients.topology.transaction("sub2") as a:
        await a.execute(UPDATE.format(1))
        if begins_last == "who waits over its link":
            b, c = await begun(clients, 2), await begun(clients, 3)
        else:
            c, b = await begun(clients, 3), await begun(clients, 2)
        if shipping == "lazy":
            await c.execute("set local msrepl.shipping = 'lazy'")
        first = asyncio.create_task(a.execute(UPDATE.format(2)))
        await waiting(clients, 1)
        second = asyncio.create_task(b.execute(UPDATE.format(3)))
        await waiting(clients, 2)
        if shipping == "lazy":
            await c.execute(UPDATE.format(1))
            third = asyncio.create_task(c.execute("commit"))
        else:
            third = asyncio.create_task(c.execute(UPDATE.format(1)))
        with pytest.raises(errors.DeadlockDetected, match="across servers") as failed:
            await third
        assert failed.value.diag.message_hint is not None
        await c.execute("rollback")
        await second
        await b.execute("rollback")
        await first
        await a.rollback()
    for _ in range(2):  # the session still works
        await c.execute("begin")
        await c.execute(UPDATE.format(1))
        await c.execute("commit")
    await clients.settled()
    assert await clients.balances() == [102, 100, 100, 100]


@asynccontextmanager
async def victim(clients: Clients) -> AsyncIterator[AsyncConnection[Any]]:
    """Make a client the victim of a deadlock, and yield it after it has rolled back to a savepoint."""
    async with clients.topology.transaction("sub2") as a:
        await a.execute(UPDATE.format(1))
        b, c = await begun(clients, 2), await begun(clients, 3)
        first = asyncio.create_task(a.execute(UPDATE.format(2)))
        await waiting(clients, 1)
        second = asyncio.create_task(b.execute(UPDATE.format(3)))
        await waiting(clients, 2)
        await c.execute("savepoint a")
        with pytest.raises(errors.DeadlockDetected):
            await c.execute(UPDATE.format(1))
        await c.execute("rollback to a")
        yield c
        await c.execute("rollback")
        await second
        await b.execute("rollback")
        await first
        await a.rollback()


async def test_what_else_happens_to_a_victim_is_told_as_it_is(patient: Clients) -> None:
    """A later failure at the Publisher in the victim's transaction is reported as itself, not as a deadlock."""
    await patient.rows("pub", "alter sequence entry_id_seq maxvalue 2")
    async with victim(patient) as c:
        with pytest.raises(errors.SequenceGeneratorLimitExceeded):
            await c.execute(
                "insert into entry (account, amount) select 3, g from generate_series(1, 3) g"
            )


async def test_a_victim_is_one_for_its_transaction_only(patient: Clients) -> None:
    """In the transaction after the deadlock, a cancelled statement is reported as cancelled."""
    async with victim(patient) as c:
        pass
    holder = await psycopg.AsyncConnection.connect(patient.topology.node("pub").dsn)
    await holder.execute(UPDATE.format(1))
    waits = asyncio.create_task(c.execute(UPDATE.format(1)))
    await patient.link_waits(c)
    await patient.rows("sub1", f"select pg_cancel_backend({c.info.backend_pid})")
    with pytest.raises(errors.QueryCanceled):
        await waits
    await holder.close()


async def test_a_cancel_is_no_deadlock(clients: Clients) -> None:
    """A statement cancelled at either site is not reported as a deadlock.

    Another session holds the advisory lock that marks a victim, exclusively.
    """
    holder = await psycopg.AsyncConnection.connect(clients.topology.node("pub").dsn)
    await holder.execute(UPDATE.format(1))
    pid = clients.app.info.backend_pid
    other = await clients.client()
    for node in ("pub", "sub1"):
        await clients.app.execute("begin")
        cursor = await clients.app.execute("select extract(epoch from now())::float8")
        rows = await cursor.fetchall()
        await other.execute(
            "select pg_advisory_lock(1836282473, hashfloat8(%s) # %s)", (rows[0][0], pid)
        )
        waits = asyncio.create_task(clients.app.execute(UPDATE.format(1)))
        await clients.link_waits(clients.app)
        which = f"pid = {pid}" if node == "sub1" else f"application_name = 'msrepl sub1 {pid}'"
        await clients.rows(
            node, f"select pg_cancel_backend(pid) from pg_stat_activity where {which}"
        )
        with pytest.raises(errors.QueryCanceled):
            await waits
        await clients.app.execute("rollback")
    await holder.close()
    await clients.app.execute(UPDATE.format(1))
    await clients.settled()


SUPPRESSED = """
create table item (id int primary key);
create function suppress() returns trigger language plpgsql as $$ begin return null; end $$;
create trigger suppress before insert on item for each row execute function suppress();
"""


async def test_a_refusal_is_no_deadlock(clients: Clients) -> None:
    """A victim's refused retry is reported as refused, even while the session is still marked as a victim."""
    await clients.rows("pub", SUPPRESSED)
    await clients.topology.publish("item")
    await clients.topology.refresh_subscriptions("sub1")
    await clients.app.execute(UPDATE.format(1))  # opens the link
    pid = clients.app.info.backend_pid
    async with await AsyncConnection.connect(clients.topology.node("sub1").dsn) as detector:
        await detector.execute("select pg_advisory_lock_shared(1836282473, %s)", (pid,))
        with pytest.raises(psycopg.Error, match="trigger of the Publisher kept"):
            await clients.app.execute("insert into item values (1)")
