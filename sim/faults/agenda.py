"""Which faults are armed, at which arrival each strikes, until when it lasts: decided alike on servers and in the model.

Pure: whoever performs faults tells who has arrived where, and is told what strikes and what is to be mended.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from twopc.sim.faults.plans import COORDINATOR, Arrival, FaultPlace, FaultPlan
from twopc.sim.scenario.values import FaultStrike
from twopc.sim.sessions.waits import Wait
from twopc.waits import link_name

M = TypeVar("M")

#: The names under which a healing point is armed: a fault's id cannot be like this.
_HEALS = "heals "


class Occasions:
    """Places at which something happens, each at the arrival that it speaks of."""

    def __init__(self, places: Iterable[tuple[str, FaultPlace]] = ()) -> None:
        self._places: dict[str, FaultPlace] = {}
        self._left: dict[str, int] = {}
        """How many arrivals that count are left."""
        for name, place in places:
            self.add(name, place)

    def add(self, name: str, place: FaultPlace) -> None:
        """Count arrivals from now on."""
        self._places[name] = place
        self._left[name] = place.nth

    def __bool__(self) -> bool:
        return bool(self._places)

    def at(self, point: str) -> bool:
        """Whether an arrival at a point may matter."""
        return any(place.point == point for place in self._places.values())

    def comes(self, name: str, *, session: str | None, gid: str) -> bool:
        """Whether the arrival of a transaction at this place is the one that it speaks of; then it is forgotten."""
        place = self._places.get(name)
        if place is None or not place.fits(session=session, gid=gid):
            return False
        self._left[name] -= 1
        if self._left[name] > 0:
            return False
        del self._places[name], self._left[name]
        return True

    def arrived(self, point: str, *, session: str | None, gid: str) -> list[str]:
        """What happens as a transaction arrives at a point."""
        here = [name for name, place in self._places.items() if place.point == point]
        return [name for name in here if self.comes(name, session=session, gid=gid)]


class Agenda(Generic[M]):
    """The faults of one case; `M` is how something broken is mended."""

    def __init__(self, plans: Iterable[FaultPlan]) -> None:
        self.plans = {plan.id: plan for plan in plans}
        self.occasions = Occasions()
        self._armed: dict[str, FaultPlan] = {}
        """Armed, and not happened yet."""
        self._awaiting: set[str] = set()
        """Those whose place has been reached, and whose request has not come yet."""
        self._broken: dict[str, M] = {}
        self._fired: list[FaultStrike] = []
        self.missed: dict[str, str] = {}
        """By fault, what it was to act on and has not found."""

    # -- happening ---------------------------------------------------------------------------------

    def arm(self, name: str) -> FaultPlan:
        """Have a fault happen at the next arrival that counts."""
        plan = self._armed[name] = self.plans[name]
        self.occasions.add(name, plan.place)
        return plan

    def is_armed(self, name: str) -> bool:
        """It is to happen, and has not happened yet."""
        return name in self._armed or name in self._awaiting

    def armed_at(self, points: Iterable[str]) -> tuple[tuple[str, FaultPlace], ...]:
        """What is armed at points of these names."""
        return tuple(
            (name, plan.place) for name, plan in self._armed.items() if plan.place.name in points
        )

    def arrived(
        self, point: str, *, session: str | None, gid: str
    ) -> tuple[list[str], list[FaultPlan]]:
        """What heals as a transaction comes to a point, and the faults that strike it there."""
        names = self.occasions.arrived(point, session=session, gid=gid)
        healed = [self.healed_by(name) for name in names if self.healed_by(name)]
        return healed, [self.plans[name] for name in names if name in self.plans]

    def strike(self, plan: FaultPlan) -> None:
        """It happens now, once, or to the request that comes next."""
        del self._armed[plan.id]
        if plan.strikes_later:
            self._awaiting.add(plan.id)

    def note(self, plan: FaultPlan, arrival: Arrival, no_effect: str = "") -> None:
        """It has happened; `no_effect`: what it was to act on is not there."""
        self._awaiting.discard(plan.id)
        if no_effect:
            self.missed[plan.id] = no_effect
        self._fired.append(FaultStrike(fault=plan.id, point=arrival.point, no_effect=no_effect))

    def fired(self) -> list[FaultStrike]:
        """Those that have happened since this was asked last."""
        fired, self._fired = self._fired, []
        return fired

    # -- healing -----------------------------------------------------------------------------------

    def breaks(self, plan: FaultPlan, mend: M) -> None:
        """What a fault has done lasts until it is mended."""
        self._broken[plan.id] = mend

    def heals_after_s(self, plan: FaultPlan) -> float | None:
        """After how long it heals by itself; None: it does not, or nothing is broken."""
        if plan.id in self._broken and plan.heal.when == "after":
            return plan.heal.after_ms / 1000
        return None

    def heals_at(self, plan: FaultPlan) -> tuple[tuple[str, FaultPlace], ...]:
        """The place, and the name of that occasion, at which it heals; none: it does not so."""
        if plan.id in self._broken and plan.heal.when == "at":
            return ((_HEALS + plan.id, FaultPlace(point=plan.heal.point)),)
        return ()

    @staticmethod
    def healed_by(occasion: str) -> str:
        """The fault that heals on an occasion; empty: it is another one's."""
        return occasion.removeprefix(_HEALS) if occasion.startswith(_HEALS) else ""

    def mend(self, name: str) -> M | None:
        """How something is mended, which is not broken from now on; None: it is not broken."""
        return self._broken.pop(name, None)

    def broken(self, *, for_good: bool = False) -> list[FaultPlan]:
        """What is broken and heals at the end, if not before; `for_good`: what never does, too."""
        return [
            self.plans[name]
            for name in self._broken
            if for_good or self.plans[name].heal.when != "never"
        ]


class StruckSession(Protocol):
    """What faults have to know of a session."""

    node: str
    nodes: tuple[str, ...]
    """Where its transactions work."""
    asks: str
    """What it is doing: ``commit`` or anything else; empty: nothing."""

    @property
    def gid(self) -> str:
        """The global transaction that is open or was last."""
        ...

    @property
    def pids(self) -> Mapping[str, int]:
        """Its process at each node that it works at."""
        ...


class SyncingSession(Protocol):
    """A session that agents may work for."""

    synced: tuple[str, ...]


S = TypeVar("S", bound=StruckSession)


def session_of_gid(sessions: Mapping[str, S], gid: str) -> tuple[str, S | None]:
    """Whose transaction it is, by name."""
    results = ((name, each) for name, each in sessions.items() if gid and each.gid == gid)
    return next(results, ("", None))


def session_of_process(
    sessions: Mapping[str, S], node: str, pid: int, application_name: str
) -> tuple[str, S | None]:
    """Whom a process at a node serves: its own session, or its link."""
    for name, each in sessions.items():
        links = [link_name(*place) for place in each.pids.items()]
        if each.pids.get(node) == pid or application_name in links:
            return name, each
    return "", None


def waits_of_faults(
    struck: Mapping[str, StruckSession],
    every: Mapping[str, SyncingSession],
    *,
    subscribers: Collection[str],
    silent: Iterable[tuple[str, str]],
    stopped: Iterable[str],
    resting: Iterable[str],
) -> dict[str, Wait]:
    """The sessions that wait for no lock, but for something that a fault has stopped.

    Args:
        silent: between whom an answer does not arrive.
        stopped: the sessions whose coordinator is stopped.
        resting: the Subscribers whose agents are.
    """
    results = {}
    silent, stopped, resting = [*silent], {*stopped}, {*resting}

    def waits_on(one: StruckSession, who: str, node: str) -> bool:
        """Whether what it has asked may wait for messages that `who` and a node exchange."""
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
