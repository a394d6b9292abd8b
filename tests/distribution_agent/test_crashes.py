"""Tests of crashes of the Subscriber's server: commits that were not durable are delivered again.

Agents do not wait for commits to be durable, so the latest commits are lost in a crash.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.distribution_agent.ends import Ends, ins
from tests.distribution_agent.test_delivery import AUDIT
from tests.fix_server import Database, MakeDatabase
from twopc.drivers import Points
from twopc.lsn import lsn_value
from twopc.server import EmbeddedServer

TABLE = "create table t (id integer primary key, v text, n integer)"


@pytest.fixture(scope="module")
def fragile() -> Iterator[EmbeddedServer]:
    """A server that tests kill."""
    with EmbeddedServer.start(settings={"wal_writer_delay": "10s"}) as server:
        yield server


@pytest.fixture
async def ends(make_database: MakeDatabase, fragile: EmbeddedServer) -> AsyncIterator[Ends]:
    """Return both databases, with the Subscriber on the server that is killed."""
    fragile.create_database("subscriber")
    there = Database(server=fragile, name="subscriber")
    made = Ends(distribution=make_database(), subscriber=there)
    await made.open()
    try:
        yield made
    finally:
        await made.close()
        fragile.drop_database("subscriber")


@pytest.mark.parametrize("streams", [1, 3])
@pytest.mark.parametrize("nth", [1, 7, 23])
async def test_killed_server(ends: Ends, fragile: EmbeddedServer, streams: int, nth: int) -> None:
    """What the distribution database records as delivered survives a crash of the Subscriber."""
    await ends.subscribe(TABLE)
    await ends.sub.execute(AUDIT.encode())
    await ends.store_all([[ins(n, "", n, hashkey=n % 63 + 1) for n in range(9)]])
    agent = ends.agent()
    await agent.run_once()
    await agent.close()
    told = lsn_value((await ends.status())["delivered"])

    base = 100
    await ends.store_all(
        [[ins(base + 2 * n + k, "", n, hashkey=k + 1) for k in (0, 1)] for n in range(40)]
    )
    points = Points()
    lost: list[int] = []

    async def crash(_: str) -> None:
        fragile.kill()
        fragile.restart()
        await ends.reconnect()
        lost.append(await ends.position())
        assert lost[0] >= told

    points.arm("agent.committed" if streams == 1 else "agent.after_finish(2)", crash, nth=nth)
    agent = ends.agent(
        points=points, commit_batch_size=1, subscription_streams=streams, retry_interval_ms=50
    )
    stop = asyncio.Event()
    running = asyncio.create_task(agent.run(stop))
    await ends.until_crashed(lost, running)
    await ends.until_at(ends.at, running)
    stop.set()
    await running
    assert await ends.rows("t", "id") == [(n,) for n in (*range(9), *range(base, base + 80))]
    done = await ends.rows("audit", "n, id")
    assert sorted(number for _, number in done) == [*range(9), *range(base, base + 80)]
    assert lsn_value((await ends.status())["delivered"]) == ends.at
    assert await ends.prepared() == []


async def test_a_server_that_was_restarted_in_between(ends: Ends, fragile: EmbeddedServer) -> None:
    """An agent whose sessions were lost between two calls of `run_once` opens new ones."""
    await ends.subscribe(TABLE)
    agent = ends.agent()
    await ends.store(ins(1, "", 1))
    await agent.run_once()
    fragile.kill()
    fragile.restart()
    await ends.reconnect()
    await ends.store(ins(2, "", 2))
    assert (await agent.run_once()).transactions >= 1
    assert await ends.rows("t", "id") == [(1,), (2,)]
