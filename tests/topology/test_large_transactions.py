"""Tests of large transactions in parts, with log readers and agents killed between any two parts."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from tests.topology.test_topology import shop
from twopc.drivers.points import Points
from twopc.errors import DeliveryError
from twopc.sim import Topology
from twopc.subscriber.distribution_agent import DistributionAgent

MakeTopology = Callable[..., Awaitable[Topology]]
STATEMENTS = (
    "insert into account select g, 1 from generate_series({at}, {at} + 6000) g",
    "update account set balance = balance + 1 where id >= {at} - 6000",
    "delete from account where id > 100 and id % 3 = 0",
)
READER_POINTS = ("log_reader.streamed", "log_reader.before_blocks", "log_reader.before_commit")
AGENT_POINTS = ("agent.before_send", "agent.sent")
#: Number of kills of each process.
DEATHS = 12


class Killed(BaseException):
    """Ends a task as if its process had been killed."""


async def kill_repeatedly(
    work: Callable[[Points], Awaitable[object]], chance: random.Random, points: tuple[str, ...]
) -> None:
    """Run `work` repeatedly, killed at a point each time, and finally to its end."""

    def die(_: str) -> None:
        raise Killed

    for _ in range(DEATHS):
        armed = Points()
        armed.arm(chance.choice(points), die, nth=chance.randint(1, 12))
        with suppress(Killed):
            await work(armed)
            return
    while True:
        with suppress(Killed):
            await work(Points())
            return


@pytest.mark.sample(1)
@pytest.mark.parametrize("seed", range(20))
async def test_killed_between_any_two_parts(make_topology: MakeTopology, seed: int) -> None:
    topology = await make_topology(subscribers=("a", "b"))
    await shop(topology)
    chance = random.Random(seed)
    stop = asyncio.Event()

    async def read(points: Points) -> None:
        reader = await topology.agents.make_reader()
        reader.reading = replace(reader.reading, store_bytes=1)
        reader.points = points
        try:
            await reader.run(stop)
        finally:
            await reader.close()

    async def deliver(name: str, points: Points) -> None:
        agent = topology.agents.make_agent(name)
        assert isinstance(agent, DistributionAgent)
        agent._points = points
        try:
            await agent.run(stop)
        except DeliveryError as error:
            assert error.number == 21036  # the previous one has not ended yet
            raise Killed from error
        finally:
            await agent.close()

    tasks = [asyncio.create_task(kill_repeatedly(read, chance, READER_POINTS))]
    tasks += [
        asyncio.create_task(
            kill_repeatedly(lambda points, name=name: deliver(name, points), chance, AGENT_POINTS)
        )
        for name in ("a", "b")
    ]
    for at in range(1000, 50_000, 10_000):
        statements = [each.format(at=at) for each in STATEMENTS]
        await topology.execute("pub", ";".join(chance.sample(statements, 2)))
    await topology.execute("pub", "update account set balance = -1 where id = 1")
    for name in ("a", "b"):
        while not await topology.execute(name, "select 1 from account where balance = -1"):
            assert not any(task.done() for task in tasks)
    stop.set()
    await asyncio.gather(*tasks)
    await topology.assert_converged()
    assert len(await topology.execute("a", "select 1 from account")) > 1000
