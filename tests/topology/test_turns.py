"""Tests of commands that change subscriptions at the same time, each with connections of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import psycopg
import pytest

from tests.fix_server import Database
from twopc.errors import ConfigurationError
from twopc.publisher.distribution import registry
from twopc.server.polling import wait_for
from twopc.sim import Topology
from twopc.sim.operate import attach

WAITING = "select from pg_locks where not granted"
#: Sessions at the distribution database that hold or await a turn.
TURNS = """
select from pg_stat_activity where datname = current_database() and query like '%''advisory''%'
    and pid <> pg_backend_pid()
"""


@pytest.fixture
async def dsns(make_database: Callable[[], Database]) -> dict[str, str]:
    """Connection strings of a Publisher with one published table, and of two nodes that may subscribe."""
    found = {name: make_database().dsn for name in ("pub", "a", "b", "distribution")}
    async with Topology(
        subscribers=("a", "b"), dsns=found, name=f"turn{id(found)}", keep=True
    ) as topology:
        await topology.execute("pub", "create table account (id int primary key, balance int)")
        await topology.execute("pub", "insert into account values (1, 100)")
        await topology.publish("account")
    return found


@asynccontextmanager
async def commands(dsns: dict[str, str], count: int) -> AsyncIterator[list[Topology]]:
    """Yield topologies like those of separate processes."""
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(await attach(dsns, newcomers=("a", "b")))
            for _ in range(count)
        ]


async def seen(dsn: str, query: str, count: int, command: asyncio.Future[Any]) -> None:
    """Wait until a query has at least `count` rows, or the command has ended."""
    with psycopg.connect(dsn, autocommit=True) as eyes:
        await asyncio.to_thread(
            wait_for,
            lambda: command.done() or eyes.execute(query.encode()).rowcount >= count,
            what=f"{count} rows of {query}",
            timeout_s=60,
        )


async def first_of_two(dsn: str, table: str, one: Any, another: Any) -> Any:
    """Run a command until it copies rows, and then another one beside it; return the error or result of the second."""
    async with await psycopg.AsyncConnection.connect(dsn) as holder:
        await holder.execute(f"lock table {table}".encode())
        first = asyncio.ensure_future(one)
        await seen(dsn, WAITING, 1, first)
        second = asyncio.ensure_future(another)
        await seen(dsn, WAITING, 2, second)
    await first
    return (await asyncio.gather(second, return_exceptions=True))[0]


async def delivered(topology: Topology, node: str, table: str) -> None:
    """Assert that a Subscriber receives a change."""
    await topology.execute("pub", f"insert into {table} values (2, 200)")
    await topology.sync()
    query = f"select id, balance from {table} order by id"
    assert await topology.execute(node, query) == await topology.execute("pub", query)


@pytest.mark.parametrize("mode", ["read only", "sync tran"])
async def test_a_subscription_is_not_removed_by_another_attempt(
    dsns: dict[str, str], mode: Any
) -> None:
    """The second of two equal commands is refused, and does not withdraw what the first has registered."""
    async with commands(dsns, 2) as (one, another):
        error = await first_of_two(
            dsns["pub"],
            "account",
            one.subscribe("a", update_mode=mode),
            another.subscribe("a", update_mode=mode),
        )
        assert isinstance(error, ConfigurationError), error
        assert "another command changes the subscription of 'a'" in str(error)
        await delivered(another, "a", "account")


async def test_an_article_is_not_withdrawn_by_another_refresh(dsns: dict[str, str]) -> None:
    async with commands(dsns, 2) as (one, another):
        await one.subscribe("a", update_mode="read only")
        await one.execute("pub", "create table note (id int primary key, balance int)")
        await one.publish("note")
        error = await first_of_two(
            dsns["pub"], "note", one.refresh_subscriptions(), another.refresh_subscriptions()
        )
        assert isinstance(error, ConfigurationError), error
        await delivered(another, "a", "note")


async def test_the_last_subscription_leaves_while_another_begins(
    dsns: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of a subscription that is being made is removed together with the last one."""
    forget_publisher = registry.forget_publisher
    async with commands(dsns, 2) as (one, another):
        await one.subscribe("a")
        beginning: list[asyncio.Future[None]] = []

        async def forget(*given: Any) -> None:
            if not beginning:
                beginning.append(asyncio.ensure_future(another.subscribe("b")))
                await seen(dsns["distribution"], TURNS, 4, beginning[0])
            await forget_publisher(*given)

        monkeypatch.setattr(registry, "forget_publisher", forget)
        await one.unsubscribe("a")
        await beginning[0]
        await delivered(another, "b", "account")


async def test_topologies_with_one_distribution_database_do_not_wait_for_each_other(
    make_database: Callable[[], Database],
) -> None:
    """A Subscriber of another Publisher may have the same name."""
    distribution = make_database().dsn
    async with AsyncExitStack() as stack:
        one, another = [
            await stack.enter_async_context(
                Topology(
                    publisher=publisher,
                    subscribers=("a",),
                    dsns={
                        publisher: make_database().dsn,
                        "a": make_database().dsn,
                        "distribution": distribution,
                    },
                    name=f"share_{publisher}_{id(stack)}",
                    keep=True,
                )
            )
            for publisher in ("north", "south")
        ]
        for topology in (one, another):
            await topology.execute(topology.publisher, "create table account (id int primary key)")
            await topology.publish("account")
        async with one.registration.turn_of("a"), one.registration.turn():
            await asyncio.wait_for(another.subscribe("a"), 30)


async def test_a_subscription_that_does_not_get_its_turn_leaves_nothing(
    dsns: dict[str, str],
) -> None:
    """The registry is not free within the time limit, neither for the subscription nor for its removal."""
    async with commands(dsns, 2) as (one, another):
        await one.subscribe("b")
        another.registration.slot_timeout_ms = 50
        async with one.registration.turn():
            with pytest.raises(ConfigurationError, match="another command changes the registered"):
                await another.subscribe("a")
        await another.subscribe("a")
        await delivered(another, "a", "account")
