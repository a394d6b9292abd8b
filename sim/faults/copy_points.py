"""Faults while a Subscriber's rows are copied: whoever copies works in this process, and stands where it is told.

Knows neither what is done nor when it is mended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from twopc.sim.faults.agenda import Agenda
from twopc.sim.faults.plans import Arrival, FaultPlan
from twopc.sim.topology import Topology


class CopyPoints:
    """The points of who copies, of one topology.

    Args:
        happen: has a fault happen to whoever has come to its place.
    """

    def __init__(
        self,
        topology: Topology,
        agenda: Agenda[Any],
        happen: Callable[[FaultPlan, Arrival], Awaitable[None]],
    ) -> None:
        self._topology = topology
        self._agenda = agenda
        self._happen = happen

    def stand_at(self, point: str) -> None:
        """Have whoever comes to a point stand there until what happens to him has happened."""
        self._topology.copies.points.arm(point, self._arrived)

    async def _arrived(self, point: str) -> None:
        _, struck = self._agenda.arrived(point, session=None, gid="")
        if self._agenda.occasions.at(point):
            self.stand_at(point)
        for plan in struck:
            await self._happen(plan, await self._arrival(point))

    async def _arrival(self, point: str) -> Arrival:
        """Who copies works by the administrator's connections."""
        topology = self._topology
        nodes = (topology.publisher, topology.copies.subscriber)
        pids = {name: (await topology.admin(name)).info.backend_pid for name in nodes}
        return Arrival(point=point, pids=pids, at=topology.copies.subscriber)

    def close(self) -> None:
        """Nothing happens any more."""
        self._topology.copies.points.disarm()
