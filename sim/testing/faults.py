"""Faults for tests in Python: the coordinator of a test's sessions runs in a process of its own, which faults can
strike.

See docs/testing.md for the effects on a test. Independent of pytest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twopc.errors import ConfigurationError
from twopc.sim.faults import capabilities
from twopc.sim.faults.plans import (
    COORDINATOR,
    FaultAction,
    FaultPlace,
    FaultPlan,
    deed_of,
    heal_of,
    point_name,
)
from twopc.sim.faults.postgres import Performer
from twopc.sim.faults.sessions import RemoteSession
from twopc.sim.scenario.faults_meaning import DEEDS, is_deed, points
from twopc.sim.sessions.local import Refusal
from twopc.sim.sessions.waits import Observer
from twopc.sim.topology import Topology

#: Actions that tests must not use, since other tests use the same server.
_OF_SERVERS = {"kill", "restart", "stop", "fill"}
_KNOWN = {"id", "at", "do", "nth", "session", "heal", "required"}


class TestFaults:
    """The faults of one test."""

    __test__ = False  # not a test, despite its name

    def __init__(self, topology: Topology, observer: Observer, *, timeout_s: float) -> None:
        self._topology = topology
        self._observer = observer
        self._performer = Performer(topology, observer, step_ms=round(timeout_s * 1000))
        self._count = 0
        self._ids: set[str] = set()
        self._required: dict[str, FaultPlan] = {}
        """Faults that must strike before the test ends."""

    async def add(self, text: Mapping[str, Any]) -> str:
        """Inject a fault; return its id.

        Args:
            text: ``at`` and ``do`` as in scenario files; optionally ``nth``, ``session``, ``heal`` and ``id``;
                ``required``: false if it need not strike.

        Raises:
            ConfigurationError: the fault is not valid, or not possible in tests.
        """
        self._count += 1
        plan = self._plan({"id": f"fault {self._count}", **text})
        if plan.id in self._ids:
            raise ConfigurationError(
                f"there is a fault {plan.id!r} already: give this one another id"
            )
        self._ids.add(plan.id)
        await self._performer.add(plan)
        await self._performer.living()
        await self._performer.arm(plan.id)
        if text.get("required", True):
            self._required[plan.id] = plan
        return plan.id

    def not_reached(self) -> list[str]:
        """Return descriptions of the required faults that have not struck, or had no effect."""
        results = []
        for name, plan in self._required.items():
            no_effect = self._performer.no_effect(name)
            if no_effect or self._performer.is_armed(name):
                whose = plan.place.session and f" of session {plan.place.session}"
                results.append(
                    f"{plan.deed.verb} at {plan.place.point}, arrival {plan.place.nth}{whose}"
                    f"{no_effect and f': no effect, since {no_effect}'}"
                )
        return results

    def _plan(self, text: Mapping[str, Any]) -> FaultPlan:
        unknown = sorted(text.keys() - _KNOWN)
        if unknown or not {"at", "do"} <= text.keys():
            what = f"no {unknown[0]!r}" if unknown else "'at' and 'do'"
            raise ConfigurationError(
                f"a fault has {what}: it is written as {{'at': 'coordinator.decision_logged', "
                "'do': 'crash coordinator'}"
            )
        at, do = str(text["at"]), str(text["do"])
        topology = self._topology
        nodes = (topology.publisher, *topology.subscribers)
        nth = text.get("nth", 1)
        if type(nth) is not int or nth < 1:
            raise ConfigurationError(f"nth is the number of an arrival, from 1: not {nth!r}")
        place = FaultPlace(point=at, nth=nth, session=str(text.get("session", "")))
        if not _is_point(at, (*nodes,)):
            raise ConfigurationError(
                f"no protocol point {at!r}; points are {', '.join(sorted(points()))}"
            )
        if not is_deed(do, topology.publisher, topology.subscribers):
            raise ConfigurationError(
                f"{do!r} is nothing that a fault does; there are: {'; '.join(DEEDS.values())}"
            )
        deed = deed_of(do, (*nodes, COORDINATOR))
        why = self._why_not(place, deed)
        if why:
            raise ConfigurationError(f"{do!r} at {at!r}: {why}")
        heal = heal_of(str(text.get("heal", "at end")))
        return FaultPlan(id=str(text["id"]), place=place, deed=deed, heal=heal)

    @staticmethod
    def _why_not(place: FaultPlace, deed: FaultAction) -> str:
        if deed.what == "agent":
            return "the agents of a test work in its own process; a scenario file gets its own processes"
        if deed.verb in _OF_SERVERS:
            return "the server is that of other tests, too; a scenario file gets one of its own"
        if place.name in capabilities.GATED:
            return "triggers and procedures get their gates in scenario files only"
        if place.name not in capabilities.ON_POSTGRES.get(deed.verb, frozenset()):
            return capabilities.WHY_NOT.get(deed.verb, "it is not performed there")
        return ""

    async def session(self, name: str, node: str, refusal: Refusal) -> RemoteSession:
        """Return a session in the coordinator's process; restart the process first if it has died."""
        performer = self._performer
        if await performer.living() is None:
            await performer.heal()
        made = RemoteSession(
            self._topology,
            node,
            self._observer,
            name=name,
            refusal=refusal,
            living=performer.living,
        )
        performer.sessions[name] = made
        return made

    def note(self, write: Callable[..., None]) -> None:
        """Write the faults that have struck into the history."""
        for strike in self._performer.fired():
            write("fault", message=strike.point, data=strike.data)

    async def heal(self) -> None:
        """Heal all faults: a coordinator that has died is restarted, and recovers."""
        await self._performer.heal()

    async def close(self) -> None:
        """Stop the coordinator's process."""
        await self._performer.close()


def _is_point(text: str, nodes: tuple[str, ...]) -> bool:
    name = point_name(text)
    node = text[len(name) :]
    if not node:
        return name in points()
    return f"{name}(node)" in points() and node.strip("()") in nodes
