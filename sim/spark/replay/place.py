"""Where a target is, and in whose name is coordinated there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

from twopc.sim.operate import attach
from twopc.sim.topology import Topology

#: The coordinator's name where there was none before.
COORDINATOR = "replay"
_KNOWN = "select from msrepl.coordinator_epoch limit 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a topology is. It travels to tasks."""

    nodes: Mapping[str, str] = field(repr=False)
    """Names and connection strings, the distribution database among them."""
    coordinator: str
    """In whose name transactions are coordinated: one for all tasks, who then recover for each other."""

    async def attach(self) -> Topology:
        """See `twopc.sim.operate.attach`."""
        return await attach(self.nodes, coordinator=self.coordinator)


def place_of(nodes: Mapping[str, str], coordinator: str | None = None) -> Place:
    """A topology whose coordinator may never have been there.

    Raises:
        ConfigurationError: see `twopc.sim.operate.attach`.
    """

    async def look() -> str:
        topology = await attach(nodes, coordinator=coordinator)
        async with topology:
            found = coordinator or await topology.execute(topology.distribution, _KNOWN)
        return topology.name if found else COORDINATOR

    return Place(nodes=nodes, coordinator=asyncio.run(look()))
