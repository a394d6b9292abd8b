"""What a fault of a scenario file says, taken apart: values that every stage reads alike.

The text itself was checked by `twopc.sim.scenario.faults_meaning`; no stage is known here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.parts import duration_ms
from twopc.sim.scenario.values import Case

COORDINATOR = "coordinator"
#: First words of what concerns a whole server, and everybody on it.
_OF_SERVERS = frozenset({"kill", "restart", "stop", "fill"})
#: First words of what is done to a server that runs.
_OF_RUNNING = _OF_SERVERS | {"terminate", "cancel", "finish"}
_POINT = re.compile(r"(?P<name>[a-z_.]+)(?:\((?P<node>[^()]*)\))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultAction:
    """What happens."""

    verb: str
    """The first word, as in `twopc.sim.scenario.faults_meaning.DEEDS`."""
    what: str = ""
    """``coordinator``, ``backend``, ``node``, ``agent``, ``marker`` …, if the word has an object."""
    node: str = ""
    other: str = ""
    """The other end of a connection."""
    how: str = ""
    """``immediate``, an SQLSTATE, ``commit`` or ``rollback``."""
    ms: int = 0
    """Of a delay, or by how much a clock is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heal:
    """When what was broken is mended."""

    when: Literal["end", "never", "after", "at"] = "end"
    after_ms: int = 0
    point: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlace:
    """An arrival at a protocol point."""

    point: str
    nth: int = 1
    session: str = ""
    """Only arrivals of this session's transactions count."""
    gid: str = ""
    """Only arrivals of this global transaction count."""

    @property
    def name(self) -> str:
        """The point without its node."""
        return point_name(self.point)

    @property
    def node(self) -> str:
        """The point's node, or stream; empty if it has none."""
        return self.point[len(self.name) :].strip("()")

    def fits(self, *, session: str | None, gid: str) -> bool:
        """Whether an arrival counts; one that no session can be told of always does (None)."""
        return session is None or (self.session in ("", session) and self.gid in ("", gid))


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultPlan:
    """A fault that can be performed."""

    id: str
    place: FaultPlace
    deed: FaultAction
    heal: Heal

    @property
    def strikes_later(self) -> bool:
        """It strikes the request that comes next after its place, if one comes."""
        return self.deed.verb in ("lose", "repeat") and not self.place.name.startswith("reply.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A transaction has come to a fault's place."""

    point: str
    session: str = ""
    gid: str = ""
    pids: Mapping[str, int] = field(default_factory=dict)
    """The process of its session at each of its Subscribers."""
    text: str = ""
    """The request whose answer arrives, if that is where it stands."""
    at: str = ""
    """The node where it stands, if it does at one."""


class NoEffectError(Exception):
    """A fault has nothing to act on; the message says what is not there, alike on every stage."""


def nothing_there(deed: FaultAction) -> NoEffectError:
    """What to raise where a fault has nothing to act on."""
    process = f"the agent of {deed.node}" if deed.what == "agent" else "the coordinator"
    match deed.verb, deed.what:
        case "crash", _:
            missing = f"{process} is not running"
        case "pause", _:
            missing = f"{process} is not running, or has been stopped before"
        case "fill", _:
            missing = f"no slot for a prepared transaction is free at {deed.node}"
        case "finish", _:
            missing = f"the transaction has no prepared branch at {deed.node}"
        case "forget", "decisions":
            missing = "the decision log has no decision"
        case "forget", _:
            missing = "no node has a marker of the transaction"
        case _:
            missing = f"no process works for the transaction at {deed.node}"
    return NoEffectError(missing)


def check_running(deed: FaultAction, down: Collection[str]) -> None:
    """Look whether a server runs to which something is to be done.

    Args:
        down: the nodes whose servers are stopped.

    Raises:
        NoEffectError: it is stopped.
    """
    if deed.node in down and deed.verb in _OF_RUNNING:
        raise NoEffectError(f"the server of {deed.node} is stopped")


def point_name(point: str) -> str:
    """``coordinator.before_commit(pub)`` without ``(pub)``."""
    match = _POINT.fullmatch(point)
    return match["name"] if match is not None else point


def plan_of(fault: Fault, scenario: Scenario) -> FaultPlan:
    """A fault of a file, taken apart."""
    return FaultPlan(
        id=fault.id,
        place=FaultPlace(
            point=fault.at,
            nth=fault.when.nth,
            session=fault.when.session or "",
            gid=fault.when.gid or "",
        ),
        deed=deed_of(fault.do, (*scenario.topology.nodes, COORDINATOR)),
        heal=heal_of(fault.heal),
    )


def plans_of(case: Case) -> tuple[FaultPlan, ...]:
    """The faults that a case arms, sooner or later, in the file's order."""
    armed = case.faults
    return tuple(plan_of(each, case.scenario) for each in case.scenario.faults if each.id in armed)


def needs_servers(scenario: Scenario) -> int | None:
    """The first fault that strikes a whole server, by its place; None: nobody else is disturbed."""
    for place, fault in enumerate(scenario.faults):
        if fault.do.split()[0] in _OF_SERVERS:
            return place
    return None


def deed_of(text: str, nodes: Collection[str]) -> FaultAction:
    """What `do` says; `nodes` are those that a connection may lie between."""
    verb, *rest = text.split()
    match verb, rest:
        case "cut", [ends]:
            node, other = ends_of(ends, nodes)
            return FaultAction(verb=verb, node=node, other=other)
        case (("black" | "one"), [word, ends]):
            node, other = ends_of(ends, nodes)
            return FaultAction(verb=verb, what=word, node=node, other=other)
        case "delay", [duration]:
            return FaultAction(verb=verb, ms=duration_ms(duration))
        case "error", [state]:
            return FaultAction(verb=verb, how=state)
        case "skew", [what, node, shift]:
            sign = -1 if shift.startswith("-") else 1
            return FaultAction(verb=verb, what=what, node=node, ms=sign * duration_ms(shift[1:]))
        case "finish", [node, outcome]:
            return FaultAction(verb=verb, node=node, how=outcome)
        case _, [what]:
            return FaultAction(verb=verb, what=what)
        case _, [what, node]:
            return FaultAction(verb=verb, what=what, node=node)
        case _, [what, node, how]:
            return FaultAction(verb=verb, what=what, node=node, how=how)
    return FaultAction(verb=verb)


def ends_of(ends: str, nodes: Collection[str]) -> tuple[str, str]:
    """The two ends with a dash between them, which may be in their names too; empty if they are none."""
    for at, letter in enumerate(ends):
        if letter in "-–" and ends[:at] in nodes and ends[at + 1 :] in nodes:
            return ends[:at], ends[at + 1 :]
    return "", ""


def heal_of(text: str) -> Heal:
    """What `heal` says."""
    word, _, rest = text.partition(" ")
    if word == "never":
        return Heal(when="never")
    if word == "after":
        return Heal(when="after", after_ms=duration_ms(rest))
    return Heal() if rest in ("", "end") else Heal(when="at", point=rest)
