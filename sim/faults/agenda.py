"""The agenda of faults: which are armed, at which arrival each strikes, and when it heals; the same on servers and
in the model.

Pure: the code that performs faults reports arrivals, and is told which faults strike and which heal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Generic, TypeVar

from twopc.sim.faults.plans import COORDINATOR, Arrival, FaultPlace, FaultPlan
from twopc.sim.scenario.values import FaultStrike
from twopc.sim.sessions.interface import ClientSession
from twopc.sim.sessions.waits import Wait
from twopc.waits import link_name

M = TypeVar("M")
S = TypeVar("S", bound=ClientSession)

#: Prefix of the names under which healing points are armed, which no fault's id can have.
_HEALS = "heals "


class Occasions:
    """Places with an event each, which happens at the specified arrival."""

    def __init__(self) -> None:
        self._places: dict[str, FaultPlace] = {}
        self._left: dict[str, int] = {}
        """Remaining number of matching arrivals, by name."""

    def add(self, name: str, place: FaultPlace) -> None:
        """Count arrivals at a place from now on."""
        self._places[name] = place
        self._left[name] = place.nth

    def __bool__(self) -> bool:
        return bool(self._places)

    def at(self, point: str) -> bool:
        """Whether an arrival at a point may be counted."""
        return any(place.point == point for place in self._places.values())

    def comes(self, name: str, *, session: str | None, gid: str) -> bool:
        """Count an arrival of a transaction at this place; if it is the specified one, return True and remove the
        place.
        """
        place = self._places.get(name)
        if place is None or not place.fits(session=session, gid=gid):
            return False
        self._left[name] -= 1
        if self._left[name] > 0:
            return False
        del self._places[name], self._left[name]
        return True

    def arrived(self, point: str, *, session: str | None, gid: str) -> list[str]:
        """Return the names of the events that happen when a transaction arrives at a point."""
        here = [name for name, place in self._places.items() if place.point == point]
        return [name for name in here if self.comes(name, session=session, gid=gid)]


class Agenda(Generic[M]):
    """The faults of one case; `M` is the type of an action that heals a fault."""

    def __init__(self, plans: Iterable[FaultPlan]) -> None:
        self.plans = {plan.id: plan for plan in plans}
        self.occasions = Occasions()
        self._armed: dict[str, FaultPlan] = {}
        """Armed faults that have not struck yet."""
        self._awaiting: set[str] = set()
        """Faults whose place has been reached, and which strike the next request."""
        self._broken: dict[str, M] = {}
        self._fired: list[FaultStrike] = []
        self.missed: dict[str, str] = {}
        """Object that a fault was to act on and that did not exist, by fault."""

    # -- striking ----------------------------------------------------------------------------------

    def arm(self, name: str) -> FaultPlan:
        """Arm a fault for the next matching arrival."""
        plan = self._armed[name] = self.plans[name]
        self.occasions.add(name, plan.place)
        return plan

    def is_armed(self, name: str) -> bool:
        """Whether a fault is armed and has not struck yet."""
        return name in self._armed or name in self._awaiting

    def armed_at(self, points: Iterable[str]) -> tuple[tuple[str, FaultPlace], ...]:
        """Return the faults that are armed at points with these names."""
        return tuple(
            (name, plan.place) for name, plan in self._armed.items() if plan.place.name in points
        )

    def arrived(
        self, point: str, *, session: str | None, gid: str
    ) -> tuple[list[str], list[FaultPlan]]:
        """Return the faults that heal, and the faults that strike, when a transaction arrives at a point."""
        names = self.occasions.arrived(point, session=session, gid=gid)
        healed = [self.healed_by(name) for name in names if self.healed_by(name)]
        return healed, [self.plans[name] for name in names if name in self.plans]

    def strike(self, plan: FaultPlan) -> None:
        """Mark a fault as struck: now, or at the next request."""
        del self._armed[plan.id]
        if plan.strikes_later:
            self._awaiting.add(plan.id)

    def note(self, plan: FaultPlan, arrival: Arrival, no_effect: str = "") -> None:
        """Record a strike; `no_effect`: the object that it was to act on does not exist."""
        self._awaiting.discard(plan.id)
        if no_effect:
            self.missed[plan.id] = no_effect
        self._fired.append(FaultStrike(fault=plan.id, point=arrival.point, no_effect=no_effect))

    def fired(self) -> list[FaultStrike]:
        """Return the strikes since the last call."""
        fired, self._fired = self._fired, []
        return fired

    # -- healing -----------------------------------------------------------------------------------

    def breaks(self, plan: FaultPlan, mend: M) -> None:
        """Record how the effect of a fault is healed, which lasts until then."""
        self._broken[plan.id] = mend

    def heals_after_s(self, plan: FaultPlan) -> float | None:
        """Return the delay after which a fault heals; None: it has no delay, or no effect."""
        if plan.id in self._broken and plan.heal.when == "after":
            return plan.heal.after_ms / 1000
        return None

    def heals_at(self, plan: FaultPlan) -> tuple[tuple[str, FaultPlace], ...]:
        """Return the place at which a fault heals, with the name of that event; empty: there is none."""
        if plan.id in self._broken and plan.heal.when == "at":
            return ((_HEALS + plan.id, FaultPlace(point=plan.heal.point)),)
        return ()

    @staticmethod
    def healed_by(occasion: str) -> str:
        """Return the fault that an event heals; empty: the event is a strike."""
        return occasion.removeprefix(_HEALS) if occasion.startswith(_HEALS) else ""

    def mend(self, name: str) -> M | None:
        """Remove and return the action that heals a fault; None: the fault has no effect now."""
        return self._broken.pop(name, None)

    def broken(self, *, for_good: bool = False) -> list[FaultPlan]:
        """Return the faults in effect that heal by the end; `for_good`: including those that never heal."""
        return [
            self.plans[name]
            for name in self._broken
            if for_good or self.plans[name].heal.when != "never"
        ]


def session_of_gid(sessions: Mapping[str, S], gid: str) -> tuple[str, S | None]:
    """Return the session of a global transaction, with its name."""
    results = ((name, each) for name, each in sessions.items() if gid and each.gid == gid)
    return next(results, ("", None))


def session_of_process(
    sessions: Mapping[str, S], node: str, pid: int, application_name: str
) -> tuple[str, S | None]:
    """Return the session for which a backend at a node works, directly or as its link, with its name."""
    for name, each in sessions.items():
        links = [link_name(*place) for place in each.pids.items()]
        if each.pids.get(node) == pid or application_name in links:
            return name, each
    return "", None


def waits_of_faults(
    struck: Mapping[str, ClientSession],
    every: Mapping[str, ClientSession],
    *,
    subscribers: Collection[str],
    silent: Iterable[tuple[str, str]],
    stopped: Iterable[str],
    resting: Iterable[str],
) -> dict[str, Wait]:
    """Return the sessions that wait not for a lock, but for something that a fault has stopped.

    Args:
        silent: pairs between which an answer does not arrive.
        stopped: the sessions whose coordinator is stopped.
        resting: the Subscribers whose agents are stopped.
    """
    results = {}
    silent, stopped, resting = [*silent], {*stopped}, {*resting}

    def waits_on(one: ClientSession, who: str, node: str) -> bool:
        """Whether a session's request may wait for messages between `who` and a node."""
        if {who, node} & {*one.nodes}:
            return bool(one.asks)
        return who == COORDINATOR and node not in subscribers and one.asks == "commit"

    for name, one in struck.items():
        why = ""
        if name in stopped:
            why = "its coordinator, which is stopped"
        elif any(waits_on(one, *way) for way in silent):
            why = "an answer that does not arrive"
        if why:
            results[name] = Wait(session=name, on="", node=one.node, lock=why)
    for name, each in every.items():
        for node in sorted(resting.intersection(each.synced)):
            why = f"the agent of {node}, which is stopped"
            results[name] = Wait(session=name, on="", node=node, lock=why)
    return results
