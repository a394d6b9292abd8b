"""Description of a scenario file for a page: lanes, cards, orders, switches, places for faults, and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator

from twopc.sim.explore.bases import base_of, bases
from twopc.sim.explore.cards import as_item
from twopc.sim.explore.folder import unreadable, version_of
from twopc.sim.explore.variants import switches
from twopc.sim.explore.wire.files import (
    FileContent,
    ListedFile,
    ListedOrder,
    WireNode,
    WirePoint,
    WireProblem,
    WireScenario,
    WireSession,
    WireStep,
)
from twopc.sim.faults.capabilities import ON_MODEL
from twopc.sim.faults.matrix import deeds
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.faults_meaning import points
from twopc.sim.scenario.model import Scenario, Step
from twopc.sim.scenario.text import Document, Problem
from twopc.sim.scenario.values import Capabilities

#: Message for a load, which cannot be explored.
IS_LOAD = "it is a load: its clients work all at once, so there are no steps to move; play it by twopc run"
_REMEDY = re.compile(r"(?:; |: )((?:write|did you mean|indent|put|leave|name|add) .*)")
_WORD = re.compile(r"[\w.:-]+|\S")
_DOES = ("sql", "lines", "check", "call", "script", "explain", "pause", "resume")
_ABOUT = {
    "coordinator.begin": "a transaction is about to begin at the Subscriber",
    "coordinator.before_prepare": "PREPARE is about to be sent",
    "coordinator.after_prepare": "the vote has arrived",
    "coordinator.before_decision": "the decision is about to go to the decision log",
    "coordinator.decision_logged": "the decision is durable",
    "coordinator.before_commit": "COMMIT PREPARED is about to be sent",
    "coordinator.after_commit": "its acknowledgement has arrived",
    "coordinator.before_rollback": "ROLLBACK is about to be sent",
    "coordinator.after_rollback": "its acknowledgement has arrived",
    "recovery.begin": "recovery begins a pass",
    "recovery.epoch_fenced": "epochs of dead processes are fenced",
    "recovery.before_finish": "a branch found prepared is about to be finished",
    "recovery.after_finish": "it is finished",
    "recovery.end": "the pass is over",
    "trigger.enter": "the rows of a statement are about to be captured at the Subscriber",
    "proc.before_compare": "a call has arrived at the Publisher, nothing is compared",
    "proc.after_apply": "its rows are changed, the answer is not sent",
    "reply.prepare": "the answer to PREPARE arrives",
    "reply.commit": "the answer to COMMIT PREPARED arrives",
    "agent.before_send": "a batch is about to be sent",
    "agent.sent": "it is sent, not acknowledged",
    "agent.committed": "a batch's commit is acknowledged",
}


def content(path: str, text: str, document: Document, loaded: LoadedScenario | None) -> FileContent:
    """Return a file with its scenario and its errors."""
    errors = [problem(document, each) for each in document.problems]
    playable = loaded is not None and not document.errors
    is_load = playable and loaded is not None and loaded.scenario.workload is not None
    return {
        "path": path,
        "text": text,
        "version": version_of(text),
        "errors": errors,
        "scenario": scenario(loaded) if playable and loaded is not None and not is_load else None,
        "why_not": IS_LOAD if is_load else "",
    }


def unreadable_content(path: str, why: str) -> FileContent:
    """Return the content of a file that cannot be read: its error only."""
    error = unreadable(path, why)["error"]
    assert error is not None, "why it cannot be read"
    return {
        "path": path, "text": "", "version": version_of(""), "errors": [error], "scenario": None,
        "why_not": "",
    }  # fmt: skip


def listing(path: str, document: Document, loaded: LoadedScenario | None) -> ListedFile:
    """Return a file as one line of a list."""
    first = document.errors[:1]
    if loaded is None or first:
        name = path.rsplit("/", 1)[-1].removesuffix(".twopc.yaml")
        error = problem(document, first[0]) if first else None
        return {
            "path": path, "name": name, "about": "", "steps": 0, "orders": [], "error": error,
            "why_not": "",
        }  # fmt: skip
    one = loaded.scenario
    return {
        "path": path,
        "name": one.name,
        "about": " ".join(one.about.split()),
        "steps": max((len(order.steps) for order in one.orders), default=0),
        "orders": [order.name for order in one.orders],
        "error": None,
        "why_not": IS_LOAD if one.workload is not None else "",
    }


def problem(document: Document, one: Problem) -> WireProblem:
    """Return an error, with the length of the marked text."""
    mark = one.mark
    lines = document.sources.get(mark.path, []) if mark.path else document.lines
    line = lines[mark.line - 1] if mark.line <= len(lines) else ""
    word = _WORD.match(line, mark.column - 1)
    remedy = _REMEDY.search(one.message)
    return {
        "line": mark.line,
        "column": mark.column,
        "length": len(word[0]) if word is not None else 1,
        "message": one.message,
        "remedy": remedy[1] if remedy is not None else "",
        "severity": "warning" if one.severity == "warning" else "error",
        "path": mark.path,
    }


def scenario(loaded: LoadedScenario) -> WireScenario:
    """Return the parts of a scenario that can be played and moved."""
    one = loaded.scenario
    return {
        "name": one.name,
        "about": " ".join(one.about.split()),
        "replication": one.topology.replication,
        "nodes": list(_nodes(one)),
        "sessions": list(_sessions(one)),
        "steps": list(_steps(one)),
        "orders": list(_orders(loaded)),
        "switches": switches(loaded, base_of(loaded, "")),
        "fault_points": list(_points(one)),
        "faults": {fault.id: _fault(fault) for fault in one.faults},
    }


def step_text(step: Step) -> str:
    """Return the text of a step for its card."""
    if step.action is not None:
        return step.action
    for word in ("pause", "resume"):
        if getattr(step, word) is not None:
            return f"{word} agent {getattr(step, word)}"
    text = "; ".join(step.statements) or step.script or step.explain or ""
    return " ".join(text.split())


def texts(one: Scenario) -> dict[str, str]:
    """Return the text of each step by its name."""
    return {name: step_text(step) for name, (_, step) in one.steps.items()}


def _nodes(one: Scenario) -> Iterator[WireNode]:
    publishers = one.topology.publishers
    for name in one.topology.nodes:
        if name == one.topology.publisher:
            yield {"name": name, "role": "publisher", "publisher": ""}
        else:
            role = "republisher" if name in one.topology.republishers else "subscriber"
            yield {"name": name, "role": role, "publisher": publishers.get(name, "")}  # type: ignore[typeddict-item] # one of the two


def _sessions(one: Scenario) -> Iterator[WireSession]:
    for name, session in one.sessions.items():
        is_local = session.plain or session.node == one.topology.publisher or one.merges
        way = "any client" if session.any_client else "plain" if is_local else "coordinator"
        yield {"name": name, "node": session.node, "also": list(session.also), "way": way}  # type: ignore[typeddict-item] # one of three


def _steps(one: Scenario) -> Iterator[WireStep]:
    for name, (session, step) in one.steps.items():
        action = next((each for each in _DOES if getattr(step, each) is not None), "")
        yield {
            "name": name,
            "session": session,
            "action": step.action or action,
            "text": step_text(step),
        }


def _orders(loaded: LoadedScenario) -> Iterator[ListedOrder]:
    common = {each["name"]: each["value"] for each in switches(loaded, base_of(loaded, ""))}
    for base in bases(loaded):
        yield {
            "name": base.name,
            "about": " ".join(base.order.about.split()),
            "steps": [as_item(item) for item in base.first],
            "generated": base.is_generated,
            "faults": list(base.order.faults),
            "switches": {
                each["name"]: each["value"]
                for each in switches(loaded, base)
                if each["value"] != common.get(each["name"])
            },
        }


def _fault(fault: Fault) -> str:
    """Return a fault as ``crash coordinator at coordinator.decision_logged (2) of alice``."""
    nth = f" ({fault.when.nth})" if fault.when.nth > 1 else ""
    session = f" of {fault.when.session}" if fault.when.session else ""
    return f"{fault.do} at {fault.at}{nth}{session}"


def _points(one: Scenario) -> Iterator[WirePoint]:
    possible = Capabilities(name="model", faults_at=ON_MODEL)
    nodes = [*one.topology.nodes]
    for template in sorted(points()):
        name = template.partition("(")[0]
        if name not in possible.points or name.startswith("merge") != one.merges:
            continue
        places = [name] if template == name else [f"{name}({node})" for node in nodes]
        if name.startswith("agent.") and template != name:
            places = [f"{name}(1)"]
        for point in places:
            done = list(deeds(possible, nodes, point))
            if done:
                yield {"point": point, "about": _ABOUT.get(name, ""), "deeds": done}
