"""Parsed faults of a scenario file: values that have the same meaning on every stage.

The text was checked by `twopc.sim.scenario.faults_meaning`. Independent of stages.
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
#: First words of faults that concern a whole server, with all its sessions.
_OF_SERVERS = frozenset({"kill", "restart", "stop", "fill"})
#: First words of faults that need a running server.
_OF_RUNNING = _OF_SERVERS | {"terminate", "cancel", "finish"}
_POINT = re.compile(r"(?P<name>[a-z_.]+)(?:\((?P<node>[^()]*)\))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultAction:
    """The action of a fault."""

    verb: str
    """First word, as in `twopc.sim.scenario.faults_meaning.DEEDS`."""
    what: str = ""
    """Object of the action, if any: ``coordinator``, ``backend``, ``node``, ``agent``, ``marker`` …"""
    node: str = ""
    other: str = ""
    """The other end of a connection."""
    how: str = ""
    """Manner: ``immediate``, an SQLSTATE, ``commit`` or ``rollback``."""
    ms: int = 0
    """Duration of a delay, or offset of a clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heal:
    """When a fault heals."""

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
        """Whether an arrival counts; an arrival of which no session is known (None) always does."""
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
        """Whether the fault strikes the next request after its place, if there is one."""
        return self.deed.verb in ("lose", "repeat") and not self.place.name.startswith("reply.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A transaction's arrival at a fault's place."""

    point: str
    session: str = ""
    gid: str = ""
    pids: Mapping[str, int] = field(default_factory=dict)
    """PID of the session's backend at each of its Subscribers."""
    text: str = ""
    """The request whose answer arrives, if the place is an answer's."""
    at: str = ""
    """Node of the arrival, if it has one."""


class NoEffectError(Exception):
    """The object of a fault does not exist; the message names it, in the same words on every stage."""


def nothing_there(deed: FaultAction) -> NoEffectError:
    """Return the error for a fault whose object does not exist."""
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
    """Check that the server runs on which a fault is to act.

    Args:
        down: the nodes whose servers are stopped.

    Raises:
        NoEffectError: the server is stopped.
    """
    if deed.node in down and deed.verb in _OF_RUNNING:
        raise NoEffectError(f"the server of {deed.node} is stopped")


def point_name(point: str) -> str:
    """Return a point without its node: ``coordinator.before_commit(pub)`` without ``(pub)``."""
    match = _POINT.fullmatch(point)
    return match["name"] if match is not None else point


def plan_of(fault: Fault, scenario: Scenario) -> FaultPlan:
    """Return the plan of a file's fault."""
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
    """Return the plans of all faults that a case arms, in the file's order."""
    armed = case.faults
    return tuple(plan_of(each, case.scenario) for each in case.scenario.faults if each.id in armed)


def needs_servers(scenario: Scenario) -> int | None:
    """Return the index of the first fault that strikes a whole server; None: no other topology on it is affected."""
    for place, fault in enumerate(scenario.faults):
        if fault.do.split()[0] in _OF_SERVERS:
            return place
    return None


def deed_of(text: str, nodes: Collection[str]) -> FaultAction:
    """Parse `do`; `nodes` are the possible ends of a connection."""
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
    """Return the two ends separated by a dash, which their names may contain too; empty if there are none."""
    for at, letter in enumerate(ends):
        if letter in "-–" and ends[:at] in nodes and ends[at + 1 :] in nodes:
            return ends[:at], ends[at + 1 :]
    return "", ""


def heal_of(text: str) -> Heal:
    """Parse `heal`."""
    word, _, rest = text.partition(" ")
    if word == "never":
        return Heal(when="never")
    if word == "after":
        return Heal(when="after", after_ms=duration_ms(rest))
    return Heal() if rest in ("", "end") else Heal(when="at", point=rest)
