"""Tests of which links a resolver ends: those left by a rollback, and none that is in use."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from psycopg import AsyncConnection, conninfo

from tests.any_client.conftest import Clients
from twopc.drivers.database import Database
from twopc.drivers.resolver import Resolver
from twopc.waits import WAITS_SQL, link_name

pytestmark = pytest.mark.usefixtures("no_sweep")

UPDATE = "update account set balance = balance + 1 where id = {}"
_SWEEP = Resolver.sweep


async def sweep(clients: Clients) -> None:
    await _SWEEP(clients.topology.any_client.resolvers["sub1"])


@pytest.fixture
async def stranger(clients: Clients) -> AsyncIterator[str]:
    """Create a role without privileges that may log in at both sites, which are on one server."""
    await clients.rows("pub", "create role stranger login password 'x'")
    yield "stranger"
    await clients.rows("pub", "drop role stranger")


async def connect(clients: Clients, node: str, role: str) -> AsyncConnection[Any]:
    dsn = conninfo.make_conninfo(clients.topology.node(node).dsn, user=role, password="x")
    return await AsyncConnection.connect(dsn, autocommit=True)


async def link_state(clients: Clients, pid: int) -> list[tuple[Any, ...]]:
    """Return the pid of a session's link, and whether it has long been idle in a transaction."""
    return await clients.rows(
        "pub",
        "select pid, state = 'idle in transaction' and state_change < clock_timestamp() - interval '0.3 s'"
        f" from pg_stat_activity where application_name = '{link_name('sub1', pid)}' order by 1",
    )


async def left(clients: Clients) -> int:
    """Leave a link with an open transaction behind by a rollback; return its pid at the Publisher."""
    await clients.app.execute("begin")
    await clients.app.execute(UPDATE.format(1))
    await clients.app.execute("rollback")
    return await idle(clients)


async def idle(clients: Clients) -> int:
    """Wait until the client's link has been idle for longer than a sweep allows; return its pid."""
    pid = clients.app.info.backend_pid

    async def is_idle() -> bool:
        return [is_idle for _, is_idle in await link_state(clients, pid)] == [True]

    await clients.until(is_idle, "the link to be idle for long")
    return int((await link_state(clients, pid))[0][0])


def meanwhile(
    monkeypatch: pytest.MonkeyPatch, text: str, work: Callable[[], Awaitable[None]]
) -> list[str]:
    """Run `work` just before the first query of a sweep that contains `text`."""
    fetch, execute, seen = Database.fetch, AsyncConnection.execute, []

    async def reached(query: Any) -> None:
        if text in str(query) and not seen:
            seen.append(str(query))
            await work()

    async def fetching(self: Database, query: Any, params: Any = None) -> Any:
        await reached(query)
        return await fetch(self, query, params)

    async def executing(self: Any, query: Any, *args: Any, **options: Any) -> Any:
        await reached(query)
        return await execute(self, query, *args, **options)

    monkeypatch.setattr(Database, "fetch", fetching)
    monkeypatch.setattr(AsyncConnection, "execute", executing)
    return seen


async def test_what_a_rollback_has_left_is_ended(clients: Clients) -> None:
    link = await left(clients)
    await sweep(clients)
    assert await clients.rows("pub", f"select from pg_stat_activity where pid = {link}") == []
    await clients.app.execute(UPDATE.format(1))
    await clients.settled()
    assert (await clients.balances())[0] == 101


@pytest.mark.sample(1, by=("moment",))
@pytest.mark.parametrize("shipping", ["eager", "lazy"])
@pytest.mark.parametrize("moment", ["state is distinct from", "pg_terminate_backend"])
@pytest.mark.parametrize("nth", [1, 2])
async def test_whoever_begins_anew_keeps_the_link(
    clients: Clients, moment: str, nth: int, shipping: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A link is not ended if its session begins a transaction between the resolver's query and its termination."""
    await left(clients)
    await clients.app.execute(f"set msrepl.shipping = '{shipping}'".encode())

    async def begin_anew() -> None:
        if nth == 2:
            await clients.app.execute(UPDATE.format(2))
        await clients.app.execute("begin")
        await clients.app.execute(UPDATE.format(1))

    reached = meanwhile(monkeypatch, moment, begin_anew)
    await sweep(clients)
    assert reached
    monkeypatch.undo()
    await clients.app.execute(UPDATE.format(3))
    await clients.app.execute("commit")
    await clients.settled()
    assert await clients.balances() == [101, 101 if nth == 2 else 100, 101, 100]


async def test_a_name_is_nobodys_link(clients: Clients, stranger: str) -> None:
    """A session whose `application_name` imitates a link neither stops a sweep nor is terminated."""
    own = clients.app.info.backend_pid
    link = await left(clients)
    async with AsyncExitStack() as stack:
        somebodies = []
        for pid in (
            own,
            "99999999999",
            "4294967296",
            "9" * 40,
            "-1",
            "\N{ARABIC-INDIC DIGIT THREE}",
        ):
            somebody = await stack.enter_async_context(await connect(clients, "pub", stranger))
            name = f"msrepl sub1 {pid}"
            await somebody.execute("select set_config('application_name', %s, false)", (name,))
            await somebody.execute("begin")
            somebodies.append(somebody)
        waiting = (
            "select from pg_stat_activity where usename = 'stranger' and (state <> 'idle in transaction'"
            " or state_change > clock_timestamp() - interval '0.3 s')"
        )

        async def are_idle() -> bool:
            return not await clients.rows("pub", waiting)

        await clients.until(are_idle, "them to be idle for long")
        seen = {pid: name for _, pid, name, *_ in await clients.rows("pub", WAITS_SQL)}
        assert [seen[one.info.backend_pid] for one in somebodies[:4]] == [""] * 4
        await sweep(clients)
        for somebody in somebodies:
            await somebody.execute("rollback")
    assert await clients.rows("pub", f"select from pg_stat_activity where pid = {link}") == []


@pytest.mark.parametrize("how", ["", "_shared"])
async def test_a_stranger_who_holds_the_lock_of_a_link(
    clients: Clients, stranger: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """An unrelated session that holds a link's lock does not stop clients, and is reported.

    An abandoned link that cannot be ended meanwhile is ended later.
    """
    pid = clients.app.info.backend_pid
    async with await connect(clients, "sub1", stranger) as somebody:
        await somebody.execute(f"select pg_advisory_lock{how}(1836282472, %s)".encode(), (pid,))
        for _ in range(3):
            await clients.app.execute("begin")
            await clients.app.execute(UPDATE.format(1))
            await clients.app.execute(UPDATE.format(2))
            await clients.app.execute("commit")
        await clients.settled()
        await left(clients)
        await sweep(clients)
        await sweep(clients)
        told = [vars(record).get("held_by") for record in caplog.records]
        assert somebody.info.backend_pid in told
    await clients.until(lambda: gone(clients, pid), "the link to be ended")
    assert await clients.balances() == [103, 103, 100, 100]


async def gone(clients: Clients, pid: int) -> bool:
    """Sweep, and return whether the link of a session is gone."""
    await sweep(clients)
    return not await link_state(clients, pid)


async def test_many_short_transactions_lose_no_link(clients: Clients) -> None:
    """Short transactions, some of which roll back, keep their links while the resolver sweeps continuously."""
    resolver = clients.topology.any_client.resolvers["sub1"]
    resolver._sweep_s = 0.002  # so a link is left alone for one millisecond only
    is_over = False

    async def work(row: int) -> None:
        client = await clients.client()
        for number in range(150):
            await client.execute("begin")
            await client.execute(UPDATE.format(row))
            await client.execute(UPDATE.format(row))
            await client.execute("rollback" if number % 3 == 0 else "commit")

    async def look() -> None:
        while not is_over:
            await sweep(clients)

    looking = asyncio.create_task(look())
    try:
        await asyncio.gather(*(work(row) for row in (1, 2, 3, 4)))
    finally:
        is_over = True
        await looking
    await clients.settled()
    assert await clients.balances() == [300] * 4
