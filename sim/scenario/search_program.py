"""Conversion of a scenario to a program for the search, and of a found order to an order of the scenario.

The search chooses its own orders; it uses the topology, the tables and the sessions of a file. This module does not
depend on the algorithm of the search.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twopc.errors import ConflictError, ScenarioError
from twopc.sim.model.explore.evidence import ReportedOutcome
from twopc.sim.model.explore.programs import Script, ScriptClient
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.model import Order, Scenario
from twopc.sim.scenario.model_setup import spec_of
from twopc.sim.scenario.steps import Session
from twopc.sim.scenario.text import Path

#: Intervals shorter than the defaults, so that the search does not wait for timers in virtual time.
_IN_DOUBT_AFTER_S, _RECOVERY_INTERVAL_S = 0.1, 1.0


#: Keys that the scenario of a found order does not contain: other orders, and keys about them.
_REPLACED = re.compile(
    r"^(?:orders|twin|faults|workload|thresholds):.*\n(?:(?:[ \t#\-\]}].*)?\n)*", re.M
)
#: Invariants that a twin's `must_fail` may name.
_OF_TWINS = ("converged", "atomic", "nothing_lost")


def script_of(loaded: LoadedScenario) -> Script:
    """Return the program of a scenario's sessions.

    Raises:
        ScenarioError: the scenario uses something that the search does not support.
    """
    scenario = loaded.scenario
    spec = dataclasses.replace(
        spec_of(scenario),
        in_doubt_after_s=_IN_DOUBT_AFTER_S,
        recovery_interval_s=_RECOVERY_INTERVAL_S,
    )
    if not scenario.sessions:
        raise ScenarioError(f"{loaded.document.path}: there are no sessions to search")
    clients = {
        name: _client(loaded, scenario, name, session)
        for name, session in scenario.sessions.items()
    }
    checks = ("converged",) if scenario.distributes else ()
    return Script(name=scenario.name, spec=spec, clients=clients, checks=checks)


def _client(
    loaded: LoadedScenario, scenario: Scenario, name: str, session: Session
) -> ScriptClient:
    if session.plain:
        raise _unknown(loaded, ("sessions", name), "a plain session")
    steps: list[tuple[str, str]] = []
    params: dict[str, dict[str, Any]] = {}
    saves: dict[str, dict[str, str]] = {}
    places: dict[str, str] = {}
    is_open = False
    for at, (step_name, step) in enumerate(session.named_steps):
        path = ("sessions", name, "steps", at)
        if step.explain is not None:
            continue
        if step.action in ("begin", "commit", "rollback", "sync"):
            steps.append((step_name, str(step.action)))
            is_open = step.action == "begin" or (is_open and step.action == "sync")
            continue
        if not step.statements or step.role:
            raise _unknown(loaded, path, f"step {step_name}")
        for number, text in enumerate(step.statements):
            own = step_name if not number else f"{step_name} ({number + 1})"
            steps.append((own, text))
            params[own] = dict(step.values)
            places |= {own: step.at} if step.at else {}
            saves[own] = dict(step.save) if number == len(step.statements) - 1 else {}
        if not is_open:  # a step outside of a transaction block is a transaction
            steps.append((f"{step_name} (commit)", "commit"))
    level = scenario.level(Order.model_construct(isolation={}), session.node)
    return ScriptClient(
        node=session.node, also=session.also, at=places, steps=tuple(steps), params=params,
        saves=saves, level=level,
    )  # fmt: skip


def _unknown(loaded: LoadedScenario, path: Path, what: str) -> ScenarioError:
    where = loaded.document.where(loaded.document.mark(path))
    return ScenarioError(
        f"{where}: a search does not know {what}: it knows begin, commit, rollback, sync and SQL of "
        "coordinated sessions"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundFault:
    """A fault that a search has found."""

    do: str
    at: str
    """Protocol point of the fault."""
    nth: int = 1
    """Number of the arrival at which the fault strikes, from 1."""

    def written(self, number: int) -> str:
        """Return the fault in the notation of a file."""
        when = f"when: {{nth: {self.nth}}}, " if self.nth > 1 else ""
        return f"  - {{id: found_{number}, at: {self.at}, {when}do: {self.do}}}\n"


def expected_of(report: Sequence[ReportedOutcome]) -> dict[str, str]:
    """Return the expectations of an order for the steps at which sessions received an error."""
    return {
        one.step: f"{{rejected: {one.error.kind}}}"
        if isinstance(one.error, ConflictError)
        else "any"
        for one in report
        if one.error is not None
    }


def found_text(
    loaded: LoadedScenario, launched: Sequence[str], faults: Sequence[FoundFault], off: Collection[str],
    broken: Sequence[str], expected: Mapping[str, str],
) -> str:  # fmt: skip
    """Return the file's text with a single order, named ``found``, with these steps and faults, instead of its own
    orders.

    Args:
        launched: steps in the order in which they began.
        off: protections that are switched off: the order is then a twin, which must fail.
        broken: the violated invariants.
        expected: expectations of the steps that fail, with all protections on.
    """
    steps = [name for name in launched if name in loaded.scenario.steps]
    text = _REPLACED.sub("", loaded.document.text)
    text = re.sub(r"^name: *\S+", f"name: {loaded.scenario.name}-found", text, flags=re.M)
    order = f"  - name: found\n    steps: [{', '.join(steps)}]\n"
    if faults:
        ids = ", ".join(f"found_{number}" for number in range(1, len(faults) + 1))
        order += f"    faults: [{ids}]\n"
    if expected:
        message = ", ".join(f"{step}: {how}" for step, how in expected.items())
        order += f"    expect: {{steps: {{{message}}}}}\n"
    text = f"{text.rstrip()}\n\norders:\n{order}"
    if faults:
        text += "faults:\n" + "".join(each.written(number) for number, each in enumerate(faults, 1))
    if off:
        fails = next((one for one in broken if one in _OF_TWINS), "converged")
        out = ", ".join(f"{one}: off" for one in sorted(off))
        text += f"twin: {{protections: {{{out}}}, must_fail: {fails}}}\n"
    return text
