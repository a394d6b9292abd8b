"""A Publisher and Subscribers whose agents' changes are witnessed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.loopback.workload import make
from twopc.sim.topology import Topology

MakeTopology = Callable[..., Awaitable[Topology]]


@pytest.fixture
def make_witnessed(make_topology: MakeTopology) -> MakeTopology:
    """Makes topologies with the workload's tables; see `seen`."""

    async def made(*subscribers: str) -> Topology:
        topology = await make_topology(subscribers=subscribers)
        await make(topology)
        return topology

    return made


async def seen(topology: Topology, subscriber: str) -> list[tuple[str, str, int]]:
    """What its agent did since the last call: table, operation, key."""
    rows = await topology.execute(
        subscriber,
        "with d as (delete from delivered returning *) select what, op, id from d order by 1, 2, 3",
    )
    return [(what, op, key) for what, op, key in rows]
