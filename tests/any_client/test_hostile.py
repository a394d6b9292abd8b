"""Tests of hostile sessions in the same database: they can neither stop a resolver nor end a client's link."""

from __future__ import annotations

import asyncio

import pytest
from psycopg import AsyncConnection
from psycopg import errors as pg

from tests.any_client.conftest import Clients
from twopc.errors import LockTimeoutError
from twopc.subscriber import any_client
from twopc.waits import link_name

UPDATE = "update account set balance = balance + 1 where id = 1"
LONG = "x" * 64


async def test_a_message_that_names_what_cannot_be(clients: Clients) -> None:
    """Forged notifications with impossible gids do not stop the resolver's workers."""
    resolver = clients.topology.any_client.resolvers["sub1"]
    for number in range(8):
        for text in (
            f"twopc:{LONG}:1:{number}:sub1",
            f"twopc:bank:1:{number}:{LONG}",
            "twopc:",
            "",
        ):
            await clients.app.execute("select pg_notify('msrepl_any_client', %s)", (text,))
    before = resolver.finished
    await clients.app.execute(UPDATE)

    async def is_finished() -> bool:
        return not await clients.prepared()

    await clients.until(is_finished, "a branch to be finished")
    for _ in range(5):
        await clients.app.execute(UPDATE)
        await clients.until(is_finished, "a branch to be finished")
    assert resolver.finished > before, "by a hand, not by looking"


async def test_a_prepared_transaction_of_an_impossible_name(clients: Clients) -> None:
    """Recovery ignores a prepared transaction with an impossible gid, and settles the others."""
    topology = clients.topology
    gid = f"twopc:{topology.name}:1:1:{LONG}"
    async with await AsyncConnection.connect(
        topology.node("sub1").dsn, autocommit=True
    ) as somebody:
        await somebody.execute("begin")
        await somebody.execute("create table left_behind ()")
        await somebody.execute(f"prepare transaction '{gid}'".encode())
        try:
            await topology.recover()
            await topology.any_client.resolvers["sub1"].settle()
        finally:
            await somebody.execute(f"rollback prepared '{gid}'".encode())


async def test_the_link_of_a_session_that_nobody_may_look_into(clients: Clients) -> None:
    """The link of a superuser's open transaction, which the coordinator's role cannot see, is not ended."""
    resolver = clients.topology.any_client.resolvers["sub1"]
    async with await AsyncConnection.connect(clients.topology.node("sub1").dsn) as somebody:
        await somebody.execute(UPDATE)
        name = link_name("sub1", somebody.info.backend_pid)

        async def is_idle_for_long() -> bool:
            query = (
                "select pid from pg_stat_activity where application_name = %s"
                " and state_change < clock_timestamp() - interval '0.3 s'"
            )
            return bool(await clients.topology.execute("pub", query, (name,)))

        await clients.until(is_idle_for_long, "the link to be idle for longer than a sweep allows")
        await resolver.sweep()
        await somebody.execute(UPDATE)
        await somebody.commit()
    await clients.settled()
    assert (await clients.balances())[0] == 102


async def test_forbidding_waits_for_who_is_at_work(clients: Clients) -> None:
    """Forbidding any client waits for transactions with changes, or times out without an effect."""
    admin = await clients.topology.admin("sub1")
    other = await clients.client()
    await other.execute("begin")
    await other.execute(UPDATE)
    pid = other.info.backend_pid
    with pytest.raises(LockTimeoutError, match=rf"end the transactions of {pid} "):
        await any_client.forbid(admin, timeout_ms=50)
    assert await any_client.any_client_of(admin) is not None
    trying = asyncio.create_task(clients.topology.forbid_any_client("sub1"))

    async def is_waiting() -> bool:
        query = (
            "select from pg_locks where relation = 'msrepl.any_client'::regclass and not granted"
        )
        return (await other_admin.execute(query)).rowcount > 0

    async with await AsyncConnection.connect(
        clients.topology.node("sub1").dsn, autocommit=True
    ) as other_admin:
        await clients.until(is_waiting, "forbidding to wait")
    await other.execute(UPDATE)
    await other.execute("commit")
    await trying
    assert await clients.prepared() == []
    assert (await clients.balances())[0] == 102
    with pytest.raises(pg.InvalidTransactionState, match="changed in a global transaction only"):
        await other.execute(UPDATE)


async def test_markers_go_whoever_finished_the_branch(clients: Clients) -> None:
    """The markers of a branch that recovery finished are removed like those of the resolver's branches."""
    topology = clients.topology
    await topology.any_client.stop()
    await clients.app.execute(UPDATE)
    assert len(await clients.prepared()) == 1
    await topology.any_client.start()
    await clients.settled()
    await topology.any_client.stop()
    count = "select count(*) from msrepl.branch_marker where starts_with(gid, %s)"
    prefix = f"twopc:{topology.name}.sub1:"
    for node in ("pub", "sub1"):
        assert await topology.execute(node, count, (prefix,)) != [(0,)]
        await topology.execute(
            node, "update msrepl.branch_marker set created_at = created_at - interval '1 hour'"
        )
    await topology.any_client.start()

    async def are_gone() -> bool:
        return all([await topology.execute(n, count, (prefix,)) == [(0,)] for n in ("pub", "sub1")])

    await clients.until(are_gone, "markers to be forgotten")


@pytest.mark.parametrize("marker", ["", "(0,0)", "(0,1)"])
async def test_nobody_takes_the_number_of_another(clients: Clients, marker: str) -> None:
    """A client that guesses a later gid can neither make changes nor prepare the Publisher under it."""
    known = await any_client.any_client_of(await clients.topology.admin("sub1"))
    assert known is not None
    [(last,)] = await clients.rows("sub1", "select last_value from msrepl.any_client_sequence")
    for number in (last, last + 1, 999999):
        for attempt in (
            f"call msrepl.prepare_publisher('{known.prefix}{number}', null, 'x')",
            UPDATE.replace("id = 1", "id = 2"),
        ):
            await clients.app.execute("begin")
            await clients.app.execute("create temporary table mine ()")
            await clients.app.execute(f"set local msrepl.gid = '{known.prefix}{number}'".encode())
            await clients.app.execute(f"set local msrepl.marker = '{marker}'".encode())
            with pytest.raises((pg.InsufficientPrivilege, pg.InvalidTransactionState)):
                await clients.app.execute(attempt.encode())
            await clients.app.execute("rollback")
    await clients.app.execute(UPDATE)
    await clients.settled()
    assert (await clients.balances())[:2] == [101, 100]
