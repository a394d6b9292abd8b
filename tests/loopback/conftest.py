"""Fixtures: a Publisher and Subscribers with triggers that record their agents' changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.drivers.conftest import crashing as crashing
from tests.loopback.workload import make
from twopc.sim.topology import Topology

MakeTopology = Callable[..., Awaitable[Topology]]


@pytest.fixture
def make_witnessed(make_topology: MakeTopology) -> MakeTopology:
    """Return a function that makes topologies with the workload's tables and witnesses."""

    async def made(*subscribers: str) -> Topology:
        topology = await make_topology(subscribers=subscribers)
        await make(topology)
        return topology

    return made


async def seen(topology: Topology, subscriber: str) -> list[tuple[str, str, int]]:
    """Return the changes that its agent has made since the last call: table, operation, key."""
    rows = await topology.execute(
        subscriber,
        "with d as (delete from delivered returning *) select what, op, id from d order by 1, 2, 3",
    )
    return [(what, op, key) for what, op, key in rows]
