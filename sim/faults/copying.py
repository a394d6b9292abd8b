"""Faults while a Subscriber's rows are copied: whoever copies works in this process, and stands where it is told.

Knows neither what is done nor when it is mended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from twopc.sim.faults.deeds import Arrival
from twopc.sim.faults.words import Plan
from twopc.sim.topology import Topology


class Copying:
    """The points of who copies, of one topology.

    Args:
        happen: has a fault happen to whoever has come to its place.
    """

    def __init__(
        self, topology: Topology, happen: Callable[[Plan, Arrival], Awaitable[None]]
    ) -> None:
        self._topology = topology
        self._happen = happen
        self._armed: dict[str, list[Plan]] = {}
        """By point."""
        self._left: dict[str, int] = {}

    def arm(self, plan: Plan) -> None:
        """Have a fault happen at the arrival that it speaks of."""
        self._armed.setdefault(plan.place.point, []).append(plan)
        self._left[plan.id] = plan.place.nth
        self._topology.copies.points.arm(plan.place.point, self._arrived)

    async def _arrived(self, point: str) -> None:
        plans = self._armed.pop(point, [])
        for plan in plans:
            self._left[plan.id] -= 1
            if self._left[plan.id]:
                self._armed.setdefault(point, []).append(plan)
                self._topology.copies.points.arm(point, self._arrived)
        for plan in plans:
            if not self._left[plan.id]:
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
