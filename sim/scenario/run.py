"""Runs a scenario: each of its orders on a stage of its own, with a history and a verdict.

Which servers the stages stand on, and what is shown of it, others decide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sim.checkers import CHECKERS
from sim.report import verdict as report
from sim.report.history import SCHEMA, History, Record
from sim.scenario.check import Loaded
from sim.scenario.expect import Failure, OrderVerdict, judge
from sim.scenario.model import Order, Scenario
from sim.scenario.runner import Runner
from sim.scenario.stage import SetUpError, Theatre
from twopc.errors import ScenarioError

#: Told after each order, with its records.
Listener = Callable[[Order, OrderVerdict, Sequence[Record]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunVerdict:
    """What became of a scenario."""

    loaded: Loaded
    orders: tuple[OrderVerdict, ...]

    @property
    def kind(self) -> str:
        """The worst kind of failure of any order; empty if all passed."""
        return report.worst([order.kind for order in self.orders])

    def as_json(self) -> dict[str, Any]:
        """What stands in ``verdict.json``."""
        orders = [_order(self.loaded, order) for order in self.orders]
        return report.assemble(_header(self.loaded), orders)


def _order(loaded: Loaded, order: OrderVerdict) -> dict[str, Any]:
    """What the history keeps of an order's verdict."""
    return {
        "name": order.name,
        "verdict": report.word(order.kind),
        "kind": order.kind or None,
        "elapsed_ms": round(order.elapsed_us / 1000, 3),
        "notes": list(order.notes),
        "failures": [_failure(loaded, failure) for failure in order.failures],
        "repro": reproduce(loaded, order.name),
    }


def _failure(loaded: Loaded, failure: Failure) -> dict[str, Any]:
    mark = loaded.document.mark(failure.path)
    return {
        "message": failure.message,
        "kind": failure.kind,
        "line": mark.line,
        "column": mark.column,
        "excerpt": loaded.document.excerpt(mark),
    }


def reproduce(loaded: Loaded, order: str) -> str:
    """The command that plays one order again."""
    quoted = order.replace("\\", "\\\\").replace('"', '\\"').replace("$", "\\$").replace("`", "\\`")
    return f'twopc run {loaded.document.path} --order "{quoted}"'


async def run(
    loaded: Loaded,
    theatre: Theatre,
    history: History,
    *,
    orders: Sequence[Order] | None = None,
    step_timeout_ms: int | None = None,
    listener: Listener | None = None,
) -> RunVerdict:
    """Play the orders (all of them) one after the other and judge each.

    Raises:
        ScenarioError: a server does not take what the scenario sets up.
        ConfigurationError: there is no server to be used.
    """
    scenario = loaded.scenario
    history.write("header", data=_header(loaded))
    verdicts: list[OrderVerdict] = []
    for order in scenario.orders if orders is None else orders:
        first = len(history.records)
        history.order = order.name
        history.write("order", message=order.about, data=_about(scenario, order))
        try:
            async with theatre.stage(scenario, order) as stage:
                history.write("info", message="stage", data=dict(stage.about))
                await Runner(
                    scenario, order, stage, history, step_timeout_ms=step_timeout_ms
                ).play()
        except SetUpError as error:
            loaded.document.error(loaded.document.mark(error.path), str(error))
            raise ScenarioError(loaded.document.report(severity="error")) from error
        history.write("end")
        records = history.records[first:]
        verdict = judge(scenario, order, records)
        verdicts.append(verdict)
        history.write("verdict", data=_order(loaded, verdict))
        history.order = ""
        if listener is not None:
            listener(order, verdict, records)
    return RunVerdict(loaded=loaded, orders=tuple(verdicts))


def _header(loaded: Loaded) -> dict[str, Any]:
    scenario = loaded.scenario
    return {
        "schema": SCHEMA,
        "scenario": scenario.name,
        "file": loaded.document.path,
        "about": " ".join(scenario.about.split()),
        "invariants": list(CHECKERS),
        "publisher": scenario.topology.publisher,
        "subscribers": list(scenario.topology.subscribers),
        "shipping": scenario.topology.shipping,
        "commit": scenario.topology.commit,
    }


def _about(scenario: Scenario, order: Order) -> dict[str, Any]:
    return {
        "sessions": {name: session.node for name, session in scenario.sessions.items()},
        "isolation": {node: scenario.level(order, node) for node in scenario.topology.nodes},
    }
