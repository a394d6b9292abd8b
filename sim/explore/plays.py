"""Plays an order on the model and records it in detail: cards, moments, states, checks.

Must not run inside an event loop: a play has its own, in virtual time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twopc.sim.explore import cards
from twopc.sim.explore.description import texts
from twopc.sim.explore.model_look import ModelLook, labelled
from twopc.sim.explore.session_states import SessionStates
from twopc.sim.explore.variants import ChosenCase, chosen
from twopc.sim.explore.watch import Watch, WatchedHistory, WatchedKernel, WatchedPoints
from twopc.sim.explore.wire.files import WireItem
from twopc.sim.explore.wire.runs import Infeasible, PlayVariant, WireRun
from twopc.sim.model.system import LOG
from twopc.sim.model.values import BEGAN_S
from twopc.sim.report.event_records import select
from twopc.sim.report.events import InfeasibleOrder
from twopc.sim.report.fold import Fold
from twopc.sim.report.history import History, HistoryRecord
from twopc.sim.report.story import story
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.judging import FailedCheck, OrderVerdict, judge
from twopc.sim.scenario.model_stage import ModelStage
from twopc.sim.scenario.model_theatre import ModelTheatre
from twopc.sim.scenario.run import begin, header
from twopc.sim.scenario.runner import play_case
from twopc.sim.scenario.theatres import played
from twopc.sim.scenario.values import Case, CaseLesson, Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPlay:
    """An order that was played, with its case."""

    chosen: ChosenCase
    records: Sequence[HistoryRecord]
    """Records of the run, its header first."""
    own: Sequence[HistoryRecord]
    """Records of the order."""
    verdict: OrderVerdict | None
    """None: the order cannot be played to its end."""
    run: WireRun


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayChance:
    """Start time and seed of a run."""

    began_s: float = BEGAN_S
    """Time of the nodes' clocks at the start, in seconds since 1970."""
    seed: int | None = None
    """None: the scenario's seed."""


def play(
    loaded: LoadedScenario, variant: PlayVariant, chance: PlayChance = PlayChance()
) -> OrderPlay:
    """Play an order on the model.

    Raises:
        SwitchError: a switch, a fault or an entry is not possible in this scenario.
        ScenarioError: the model does not support something in the file.
    """
    began = time.perf_counter()
    order = variant["order"]
    made = chosen(loaded, variant)
    history, own, watch, lesson = played("model", _play(loaded, made.case, chance))
    run, verdict = run_of(made, order, own, lesson, watch, on="model", began=began)
    return OrderPlay(chosen=made, records=history.records, own=own, verdict=verdict, run=run)


async def _play(
    loaded: LoadedScenario, case: Case, chance: PlayChance
) -> tuple[History, Sequence[HistoryRecord], Watch, CaseLesson]:
    kernels: list[WatchedKernel] = []
    points: list[WatchedPoints] = []

    def kernel(seed: int) -> WatchedKernel:
        kernels.append(WatchedKernel(seed))
        return kernels[-1]

    def point_set() -> WatchedPoints:
        points.append(WatchedPoints())
        return points[-1]

    history = History(clock_ns=lambda: 0)  # the model provides the time
    async with ModelTheatre(
        seed=chance.seed, began_s=chance.began_s, kernel=kernel, points=point_set
    ) as theatre:
        history.write("header", data=header(loaded, theatre, Selection()))
        async with theatre.stage(case) as stage:
            now = kernels[-1]
            own = WatchedHistory(history, case.name, lambda: round(now.now * 1_000_000_000))
            begin(own, loaded, case)
            watch = Watch(
                look=ModelLook(case.scenario, stage),
                now=lambda: now.now,
                whose=lambda: _whose(stage),
                sessions=SessionStates(
                    {name: one.node for name, one in case.scenario.sessions.items()}
                ),
                places=frozenset((*case.scenario.topology.nodes, LOG)),
                publishers=case.scenario.topology.publishers,
            )
            watch.begin()
            now.sent, own.wrote, points[-1].came = watch.message, watch.record, watch.arrived
            lesson = await play_case(case, stage, own)
            now.sent = points[-1].came = None
            watch.end()
        own.write("end")
    return history, own.records, watch, lesson


def _whose(stage: ModelStage) -> str:
    """Return the session whose work is in progress; empty if there is none."""
    process = stage.model.kernel.env.active_process
    doing = (name for name, one in stage.sessions.items() if process and one.work is process)
    return next(doing, "")


def run_of(
    made: ChosenCase,
    order: Sequence[WireItem],
    own: Sequence[HistoryRecord],
    lesson: CaseLesson,
    watch: Watch | None,
    *,
    on: str,
    began: float,
) -> tuple[WireRun, OrderVerdict | None]:
    """Return a run as a page has it, and its verdict.

    Args:
        watch: observations within the model; None for servers.
        began: time of the request, by `time.perf_counter`.
    """
    case, fold = made.case, Fold(own)
    moment: Mapping[int, int] = watch.at_record if watch is not None else {}
    infeasible = _infeasible(made, own, lesson)
    whole = infeasible is None
    verdict = judge(case, own) if lesson.infeasible_at is None else None
    of_invariants = cards.invariants(case, fold) if whole else []
    states = list(watch.states) if watch is not None else []
    labelled(states, _labels(fold))
    run: WireRun = {
        "on": on,  # type: ignore[typeddict-item] # one of the two
        "order": list(order),
        "possible": True if infeasible is None else infeasible,
        "cards": cards.cards(case, order, fold, texts(case.scenario), moment),
        "agents": cards.agents(fold, moment),
        "moments": list(watch.moments) if watch is not None else [],
        "states": states,
        "messages": list(watch.messages) if watch is not None else [],
        "arrivals": list(watch.arrivals) if watch is not None else [],
        "invariants": of_invariants,
        "failures": cards.failures(fold, missed_expectations(made, verdict)) if whole else [],
        "story": story(fold),
        "outcomes": {name: text for name, text in fold.outcomes.items() if text != "none"},
        "outcome": cards.outcome_text(
            fold, [each["name"] for each in of_invariants if not each["holds"]]
        )
        if whole
        else f"This order cannot be: {infeasible['reason'] if infeasible else ''}.",
        "behaviour": verdict.behaviour if verdict is not None else "",
        "elapsed_ms": round((time.perf_counter() - began) * 1000, 3),
    }
    return run, verdict


def missed_expectations(made: ChosenCase, verdict: OrderVerdict | None) -> Sequence[FailedCheck]:
    """Return the unmet expectations; for a changed order only those that the file has for every order."""
    if verdict is None or made.case.off or made.case.is_generated:
        return ()
    return [
        each
        for each in verdict.failures
        if not made.is_changed or each.path[:1] == ("expect",) or each.check == "faults"
    ]


def _infeasible(
    made: ChosenCase, own: Sequence[HistoryRecord], lesson: CaseLesson
) -> Infeasible | None:
    if lesson.infeasible_at is not None:
        why = next((each.message for each in select(own, InfeasibleOrder)), "")
        return {"at": lesson.infeasible_at, "reason": why}
    if made.stops_at is not None:
        return {"at": made.stops_at, "reason": made.reason}
    return None


def _labels(fold: Fold) -> dict[tuple[str, str], str]:
    """Return the labels of versions seen at the Publisher, by row and identifier."""
    return {
        (f"{each.table}/{each.key}", each.version): each.label
        for row in fold.changes.rows()
        for each in row
        if each.version and each.number
    }


def variant_of(values: Mapping[str, Any]) -> PlayVariant:
    """Return the part of a request that determines what is played."""
    return {
        "order": list(values.get("order") or ()),
        "listed": str(values.get("listed") or ""),
        "switches": dict(values.get("switches") or {}),
        "faults": list(values.get("faults") or ()),
    }
