"""Faults of merge sessions: what strikes an agent at its protocol points, on servers and in the model.

The agent is a task of this process, so a crash is an exception raised at the point, and a pause is waiting there;
the agent's two connections are then closed, like those of a process that has died.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable, Mapping
from contextlib import suppress

import psycopg

from twopc.drivers.points import Points
from twopc.sim.faults.agenda import Agenda, waits_of_faults
from twopc.sim.faults.plans import Arrival, FaultPlan
from twopc.sim.scenario.values import FaultStrike
from twopc.sim.sessions.interface import ClientSession
from twopc.sim.sessions.waits import Waits


class AgentCrashedError(psycopg.OperationalError):
    """The agent's process has died, and its connections are lost."""


class MergeFaults:
    """The faults of one case.

    Args:
        points: protocol points of the sessions.
        plans: all faults that the case arms.
    """

    def __init__(self, points: Points, plans: Iterable[FaultPlan]) -> None:
        self._points = points
        self._agenda: Agenda[asyncio.Event] = Agenda(plans)
        self._paused: dict[str, asyncio.Event] = {}
        """Event for which an agent waits, by Subscriber."""

    def arm(self, name: str) -> None:
        """Arm a fault for the next matching arrival at its point."""
        self._watch(self._agenda.arm(name).place.point)

    def _watch(self, point: str) -> None:
        if self._agenda.occasions.at(point):
            self._points.arm(point, self._arrived)

    async def _arrived(self, point: str) -> None:
        healed, plans = self._agenda.arrived(point, session=None, gid="")
        self._watch(point)
        for name in healed:
            self._resume(name)
        for plan in plans:
            await self._strike(plan, point)

    def fired(self) -> list[FaultStrike]:
        """Return the strikes since the last call."""
        return self._agenda.fired()

    def heal(self) -> None:
        """Heal all faults that are in effect."""
        for plan in self._agenda.broken(for_good=True):
            self._resume(plan.id)

    def with_paused(self, waits: Waits, sessions: Mapping[str, ClientSession]) -> Waits:
        """Return the waits, including those of sessions for which a stopped agent works."""
        stopped = waits_of_faults(
            {}, sessions, subscribers=(), silent=(), stopped=(), resting=self._paused
        )
        return dataclasses.replace(waits, waits={**stopped, **waits.waits})

    async def _strike(self, plan: FaultPlan, point: str) -> None:
        deed = plan.deed
        self._agenda.strike(plan)
        self._agenda.note(plan, Arrival(point=point))
        if deed.verb == "crash":
            raise AgentCrashedError(f"the merge agent of {deed.node} has crashed at {point}")
        if deed.verb == "delay":
            with suppress(TimeoutError):  # the event is never set: this waits for the whole delay
                await asyncio.wait_for(asyncio.Event().wait(), deed.ms / 1000)
            return
        going_on = self._paused[deed.node] = asyncio.Event()
        self._agenda.breaks(plan, going_on)
        after_s = self._agenda.heals_after_s(plan)
        if after_s is not None:
            asyncio.get_running_loop().call_later(after_s, self._resume, plan.id)
        for name, place in self._agenda.heals_at(plan):
            self._agenda.occasions.add(name, place)
            self._watch(place.point)
        await going_on.wait()

    def _resume(self, name: str) -> None:
        going_on = self._agenda.mend(name)
        if going_on is not None:
            going_on.set()
            self._paused.pop(self._agenda.plans[name].deed.node, None)
