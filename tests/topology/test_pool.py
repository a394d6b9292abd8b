"""Tests of a pool of topologies, which are like new, quickly available, and dropped at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import psycopg
import pytest

from twopc.errors import ArticleError, ConfigurationError
from twopc.server import EmbeddedServer
from twopc.sim.topology import Topology
from twopc.sim.topology.pool import TopologyPool

MakePool = Callable[..., TopologyPool]


@pytest.fixture
async def make_pool(server: EmbeddedServer) -> AsyncIterator[MakePool]:
    """A function that makes pools on the worker's server; they are closed, and must leave no database."""
    async with AsyncExitStack() as stack:

        def make(**options: Any) -> TopologyPool:
            pool = TopologyPool(server, prefix="pool", **options)
            stack.push_async_callback(pool.close)
            return pool

        yield make
    assert databases(server) == []


def databases(server: EmbeddedServer) -> list[str]:
    """Return the names of the pool's databases."""
    with psycopg.connect(server.superuser_dsn("postgres")) as connection:
        found = connection.execute(
            "select datname from pg_database where datname like 'pool\\_%' order by 1"
        )
        return [name for (name,) in found]


async def bank(topology: Topology) -> None:
    """Create an account table, published and subscribed everywhere."""
    await topology.execute("pub", "create table account (id int primary key, balance int)")
    await topology.execute("pub", "insert into account values (1, 100)")
    await topology.publish("account")
    for subscriber in topology.subscribers:
        await topology.subscribe(subscriber)


BALANCE = "select balance from account"


async def test_the_same_one_comes_back_as_new(make_pool: MakePool) -> None:
    """A topology is reused, with all rows restored, if only rows have changed."""
    pool = make_pool(prepare=bank)
    names = set()
    for _ in range(3):
        topology = await pool.take()
        names.add(topology.name)
        for node in ("pub", "sub1", "sub2"):
            assert await topology.execute(node, BALANCE) == [(100,)]
        await topology.run("sub1", "update account set balance = 1")
        await pool.give_back(topology, how="rewind")
    assert len(names) == 1


async def test_another_one_where_more_than_rows_has_changed(make_pool: MakePool) -> None:
    """A topology with other changes is dropped, and from then on another one is made ahead."""
    pool = make_pool(prepare=bank, size=1)
    first = await pool.take()
    await first.execute("pub", "create table more (id int primary key)")
    await pool.give_back(first, how="rewind")
    second = await pool.take()
    assert second.name != first.name
    assert await second.execute("pub", "select to_regclass('more') is null") == [(True,)]
    await pool.give_back(second, how="rewind")


async def test_what_is_under_way_is_dropped_with_it(make_pool: MakePool) -> None:
    """A prepared transaction does not delay the pool: its topology is dropped with it."""
    pool = make_pool(prepare=bank)
    topology = await pool.take()
    gid = f"twopc:{topology.name}:1:1:pub"
    await topology.execute(
        "pub", f"begin; update account set balance = 2; prepare transaction '{gid}'"
    )
    await pool.give_back(topology, how="rewind")
    again = await pool.take()
    assert await again.execute("pub", BALANCE) == [(100,)]
    await pool.give_back(again, how="drop")


async def test_several_at_a_time(make_pool: MakePool, server: EmbeddedServer) -> None:
    """No topology is taken twice at a time, and topologies are dropped in the background."""
    pool = make_pool(size=2)
    taken = [await pool.take() for _ in range(3)]
    assert len({each.name for each in taken}) == 3
    for each in taken:
        await pool.give_back(each, how="drop")
    await pool.close()
    assert databases(server) == []


async def test_databases_that_nobody_has_used(make_pool: MakePool, server: EmbeddedServer) -> None:
    """A pool without rewinding makes unused topologies ahead from the start."""
    pool = make_pool(rewinds=False, size=1, subscribers=("sub1",))
    first = await pool.take()
    await pool.until_ready()
    assert len(databases(server)) == 6
    await pool.give_back(first, how="drop")
    second = await pool.take()
    assert second.name != first.name
    await pool.give_back(second, how="drop")


async def test_whoever_takes_it_hears_why_it_cannot_be_made(make_pool: MakePool) -> None:
    """An error in preparing a topology is raised by `take`, and leaves no database."""

    async def fails(topology: Topology) -> None:
        await topology.execute("pub", "create table keyless (id int)")
        await topology.publish("keyless")

    pool = make_pool(prepare=fails)
    for _ in range(2):
        with pytest.raises(ArticleError, match="keyless"):
            await pool.take()


async def test_closing_while_somebody_waits(make_pool: MakePool, server: EmbeddedServer) -> None:
    """Closing a pool fails a pending `take`, and drops the topology that is being made."""
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def slow(topology: Topology) -> None:
        reached.set()
        await go_on.wait()

    pool = make_pool(prepare=slow)
    waiting = asyncio.create_task(pool.take())
    await reached.wait()
    closing = asyncio.create_task(pool.close())
    await asyncio.sleep(0)  # closing has begun
    go_on.set()  # and waits for the topology that is being made
    with pytest.raises(ConfigurationError, match="was closed while"):
        await waiting
    await closing
    assert databases(server) == []


async def test_who_waits_no_longer_stops_nothing(make_pool: MakePool) -> None:
    """A cancelled wait does not stop the topology that is being made, which is taken afterwards."""
    go_on = asyncio.Event()
    go_on.set()

    async def held_up(topology: Topology) -> None:
        await go_on.wait()

    pool = make_pool(prepare=held_up, rewinds=False, size=1)
    first = await pool.take()
    go_on.clear()  # the next one is being made
    waiting = asyncio.create_task(pool.until_ready())
    try:
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    finally:
        go_on.set()
    assert (await pool.take()).name != first.name


async def test_whatever_preparing_raises(make_pool: MakePool, server: EmbeddedServer) -> None:
    """An assertion in preparing is raised by `take`, and the pool can be closed."""

    async def prepare(topology: Topology) -> None:
        raise AssertionError("not so")

    pool = make_pool(prepare=prepare, rewinds=False, size=2)
    with pytest.raises(AssertionError, match="not so"):
        await pool.take()
    await pool.close()
    assert databases(server) == []
