"""Checks of faults and of a load's faults: whether their points, nodes and sessions exist and their actions are
possible.

Part of `twopc.sim.scenario.meaning`; records problems in the `Document` and changes nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.parts import duration_ms
from twopc.sim.scenario.text import Document, Path, suggestion

#: Points within a server or at its replies, which only scenarios use.
SCENARIO_POINTS = (
    "trigger.enter",
    "proc.before_compare",
    "proc.after_apply",
    "reply.commit(node)",
    "reply.prepare(node)",
)
COORDINATOR = "coordinator"
#: Actions that must be healed before the final state can be read.
_MUST_HEAL = ("stop node", "pause coordinator")
_POINT = re.compile(r"([a-z_.]+)(?:\(([^()]*)\))?")
_SQLSTATE = re.compile(r"[0-9A-Z]{5}")
#: Notation of a fault's `do`, by its first word.
DEEDS = {
    "crash": "crash coordinator, crash agent sub1",
    "pause": "pause coordinator, pause agent sub1",
    "kill": "kill backend pub",
    "terminate": "terminate backend pub",
    "cancel": "cancel backend pub",
    "restart": "restart node pub, restart node pub immediate",
    "stop": "stop node pub, stop node pub immediate",
    "cut": "cut pub-sub1",
    "black": "black hole pub-sub1",
    "one": "one way pub-sub1",
    "lose": "lose reply",
    "repeat": "repeat request",
    "delay": "delay 200ms",
    "error": "error 53200",
    "forget": "forget marker, forget decisions",
    "finish": "finish pub commit, finish pub rollback",
    "fill": "fill slots pub",
    "skew": "skew clock sub1 +5m",
}


@cache
def points() -> frozenset[str]:
    """Return every point at which a fault may strike; ``(node)`` stands for a node's name."""
    from twopc.drivers.points import KNOWN  # imports all drivers, which a check does not need

    return frozenset((*KNOWN, *SCENARIO_POINTS))


def check_faults(document: Document, scenario: Scenario) -> None:
    """Record the errors of the faults, and warn of those that no order arms."""
    seen: dict[str, str] = {}
    for place, fault in enumerate(scenario.faults):
        at: Path = ("faults", place)
        if fault.hole:
            continue
        mark = document.mark((*at, "id"))
        if fault.id in seen:
            document.error(mark, f"fault '{fault.id}' already defined at {seen[fault.id]}")
        seen.setdefault(fault.id, document.where(mark, beside=True))
        _point(document, scenario, (*at, "at"), fault.at)
        _when(document, scenario, (*at, "when"), fault)
        if not is_deed(fault.do, scenario.topology.publisher, scenario.topology.subscribers):
            document.error((*at, "do"), _no_deed(scenario, fault.do))
        _heal(document, scenario, (*at, "heal"), fault.heal)
        if fault.heal == "never" and fault.do.startswith(_MUST_HEAL):
            text = "what stands or is away for good cannot be looked at in the end"
            document.error((*at, "heal"), text)
    if any(order.hole for order in scenario.orders):
        return
    armed = {name for order in scenario.orders for name in order.faults}
    armed |= {item.fault for order in scenario.orders for item in order.steps if item.fault}
    if scenario.workload is not None:
        armed |= {each.fault for each in scenario.workload.during if each.fault}
    if not armed <= seen.keys() or any(order.holes for order in scenario.orders):
        return
    for place, fault in enumerate(scenario.faults):
        if not fault.hole and fault.id not in armed:
            text = f"no order arms fault '{fault.id}': {{fault: {fault.id}}}"
            document.warn(("faults", place, "id"), text)


def _point(document: Document, scenario: Scenario, at: Path, text: str) -> None:
    match = _POINT.fullmatch(text)
    name = match[1] if match is not None else text
    node = match[2] if match is not None else None
    templates = {point.removesuffix("(node)"): point for point in points()}
    if name not in templates:
        document.unknown(at, "protocol point", name, templates)
    elif templates[name] == name:
        if node is not None:
            document.error(at, f"the point '{name}' is of no node: write it without brackets")
    elif node is None:
        example = scenario.topology.publisher or "pub"
        document.error(at, f"the point '{name}' is one of a node's: {name}({example})")
    elif name.startswith("agent."):
        if not node.isdecimal():
            document.error(at, f"the point '{name}' is one of a stream's: {name}(1)")
    elif node not in scenario.topology.nodes:
        document.unknown(at, "node", node, scenario.topology.nodes)


def _when(document: Document, scenario: Scenario, at: Path, fault: Fault) -> None:
    session = fault.when.session
    if session is not None and session not in scenario.sessions:
        document.unknown((*at, "session"), "session", session, scenario.sessions)
    if fault.when.nth < 1:
        document.error((*at, "nth"), "arrivals count from 1")


def is_deed(text: str, publisher: str, subscribers: Sequence[str]) -> bool:
    """Return whether a text is a valid action of a fault, with existing nodes."""
    nodes = (publisher, *subscribers) if publisher else tuple(subscribers)
    match text.split():
        case ["crash" | "pause", "coordinator"] | ["forget", "marker" | "decisions"]:
            return True
        case ["lose", "reply"] | ["repeat", "request"]:
            return True
        case ["kill" | "terminate" | "cancel", "backend", node] | ["fill", "slots", node]:
            return node in nodes
        case ["restart" | "stop", "node", node] | ["restart" | "stop", "node", node, "immediate"]:
            return node in nodes
        case ["finish", node, "commit" | "rollback"]:
            return node in nodes
        case ["cut", ends] | ["black", "hole", ends] | ["one", "way", ends]:
            return _cuts(ends, (*nodes, COORDINATOR), publisher)
        case ["delay", duration]:
            return _is_duration(duration)
        case ["error", state]:
            return _SQLSTATE.fullmatch(state) is not None
        case ["pause" | "crash", "agent", subscriber]:
            return subscriber in subscribers
        case ["skew", "clock", node, shift]:
            return node in nodes and shift[0] in "+-" and _is_duration(shift[1:])
    return False


def _cuts(ends: str, nodes: tuple[str, ...], publisher: str) -> bool:
    """Return whether a text names two connected nodes separated by a dash, which node names may contain too; two
    Subscribers are not connected.
    """
    for at, letter in enumerate(ends):
        pair = {ends[:at], ends[at + 1 :]}
        if letter in "-–" and len(pair) == 2 and pair <= {*nodes}:
            return bool(pair & {publisher, COORDINATOR})
    return False


def _is_duration(text: str) -> bool:
    try:
        return duration_ms(text) > 0
    except ValueError:
        return False


def _no_deed(scenario: Scenario, text: str) -> str:
    first = text.split()[0] if text.split() else ""
    if first not in DEEDS:
        return f"'{text}' is nothing that a fault does{suggestion(first, DEEDS)}; there are: {'; '.join(DEEDS.values())}"
    nodes = ", ".join(scenario.topology.nodes)
    return f"'{text}' is not as it is written: {DEEDS[first]}; the nodes are {nodes}"


def _heal(document: Document, scenario: Scenario, at: Path, text: str) -> None:
    if text in ("never", "at end"):
        return
    word, _, rest = text.partition(" ")
    if word == "at" and rest:
        _point(document, scenario, at, rest)
    elif word != "after" or not _is_duration(rest):
        document.error(
            at, f"a fault heals 'after 1s', 'at <point>', 'at end' or 'never', not '{text}'"
        )
