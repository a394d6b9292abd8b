"""A played order as cards, actions of agents, invariants and outcomes: contents of reports, as values for a page.

Pure functions of the order's records; the texts are those of the reports.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from twopc.sim.checkers import CHECKS, LAST_SYNC, defaults
from twopc.sim.explore.watch import end_text
from twopc.sim.explore.wire.files import WireItem
from twopc.sim.explore.wire.runs import WireAgent, WireCard, WireFailure, WireInvariant
from twopc.sim.report.causes import because_of
from twopc.sim.report.events import (
    AgentDelivery,
    AgentWork,
    AuthorNote,
    BranchSettlement,
    ConflictNote,
    EchoDelivery,
    HistoryEvent,
    MergeSessionEnd,
    PassedTransaction,
    SkippedTransaction,
    StepEnd,
    StepRefusal,
    StepRollback,
    StepSuccess,
    UnsentStep,
)
from twopc.sim.report.fold import Fold, PlayedStep
from twopc.sim.report.merge_sessions import conflict_text, generations
from twopc.sim.report.phrases import holder
from twopc.sim.report.sentences import listed
from twopc.sim.scenario.judging import FailedCheck
from twopc.sim.scenario.judging.case_expectations import CaseExpectations
from twopc.sim.scenario.meanings import INVARIANTS
from twopc.sim.scenario.model import OrderItem
from twopc.sim.scenario.values import Case

State = Literal["ok", "waited", "refused", "failed", "skipped", "waiting", "not_played"]
#: Invariants that are checked only without a protection, or if the file asks for them.
_ASKED_FOR = ("no_lost_update", "each_change_applied_once")
#: Invariants of what agents deliver.
OF_DISTRIBUTION = ("converged", "echoed", "each_change_applied_once")
_ENDED: Mapping[type[StepEnd], State] = {
    StepSuccess: "ok",
    AuthorNote: "ok",
    StepRefusal: "refused",
    StepRollback: "refused",
    UnsentStep: "skipped",
}


def cards(
    case: Case,
    order: Sequence[WireItem],
    fold: Fold,
    texts: Mapping[str, str],
    moment: Mapping[int, int],
) -> list[WireCard]:
    """Return a card for each step of the order, and for each of its syncs, in the order's sequence.

    Args:
        order: the whole order, of which the case may have only the beginning.
        texts: what each step does.
        moment: moment of each record, by its number.
    """
    played = {each.invoked.step: each for each in fold.steps}
    results = []
    for place, name in _places(order):
        step = played.pop(name, None)
        session = case.scenario.steps[name][0] if name in case.scenario.steps else ""
        results.append(_card(fold, name, session, place, step, texts.get(name, name), moment))
    if LAST_SYNC in played:
        step = played.pop(LAST_SYNC)
        results.append(_card(fold, LAST_SYNC, "", -1, step, "deliver everything", moment))
    return results


def _places(order: Sequence[WireItem]) -> Iterator[tuple[int, str]]:
    """Yield each entry that is played, with its place and the name that its records have."""
    syncs = 0
    for place, item in enumerate(order):
        if isinstance(item, str):
            yield place, item
        elif "sync" in item:
            syncs += 1
            yield place, f"sync #{syncs}"


def _card(
    fold: Fold,
    name: str,
    session: str,
    place: int,
    step: PlayedStep | None,
    text: str,
    moment: Mapping[int, int],
) -> WireCard:
    ended = step.ended if step is not None else None
    wait = fold.waits.get(name)
    because, however = (
        because_of(fold, {"check": f"steps.{name}"}) if ended is not None else ("", "")
    )
    return {
        "step": name,
        "session": session,
        "item": place,
        "state": _state(step, waited=wait is not None),
        "text": text,
        "began_ms": step.invoked.t_us / 1000 if step is not None else None,
        "ended_ms": ended.t_us / 1000 if ended is not None else None,
        "moment": moment.get(step.invoked.seq, -1) if step is not None else -1,
        "end_moment": moment.get(ended.seq, -1) if ended is not None else -1,
        "waits_for": holder(wait.wait) if wait is not None else "",
        "result": end_text(ended) if ended is not None else "",
        "because": because,
        "however": however,
    }


def _state(step: PlayedStep | None, *, waited: bool) -> State:
    if step is None:
        return "not_played"
    if step.ended is None:
        return "waiting"
    state = _ENDED.get(type(step.ended), "failed")
    return "waited" if state == "ok" and waited else state


def agents(fold: Fold, moment: Mapping[int, int]) -> list[WireAgent]:
    """Return the actions of agents and recovery, in their sequence."""
    results: list[WireAgent] = []
    for event in fold.events:
        done = fold.deliveries.get(event.seq, event)
        text = _agent_text(done)
        if text:
            results.append(
                {
                    "at_ms": done.t_us / 1000,
                    "moment": moment.get(done.seq, -1),
                    "node": done.node,
                    "kind": done.kind,  # type: ignore[typeddict-item] # one of those of agents
                    "text": text,
                }
            )
    return results


def _agent_text(done: HistoryEvent) -> str:
    """What agents or recovery did; empty if it is of somebody else."""
    match done:
        case AgentWork():
            verb = {
                AgentDelivery: f"delivered to {done.node}",
                PassedTransaction: f"not sent back to {done.node}, which made it",
                SkippedTransaction: f"left out at {done.node}",
                EchoDelivery: f"came back to {done.node}, which had made it",
            }[type(done)]
            return f"{verb}: {done.text}"
        case BranchSettlement():
            how = f"{done.outcome}, {done.message}"
            return f"recovery finished the branch at {done.node}: {how}"
        case ConflictNote():
            return conflict_text(done)
        case MergeSessionEnd():
            return "; ".join(moved.sentence for moved in generations(done))
    return ""


# -- what must hold ----------------------------------------------------------------------------------


def invariants(case: Case, fold: Fold) -> list[WireInvariant]:
    """Return every invariant of the case, and whether it holds."""
    merges, expected = case.scenario.merges, CaseExpectations(case)
    results: list[WireInvariant] = []
    for name in (*defaults(merges=merges), *(() if merges else _ASKED_FOR)):
        _, requested = expected.invariant(name)
        if name in _ASKED_FOR and not (requested or case.off or _asked_by_twins(case, name)):
            continue
        if requested is False or (name in OF_DISTRIBUTION and not case.scenario.distributes):
            continue
        if name == "converged" and expected.diverged() is not None:
            continue
        broken = CHECKS[name](fold.records, {})
        if isinstance(requested, int) and not isinstance(requested, bool):
            broken = [] if len(broken) == requested else broken
        because, however = because_of(fold, {"check": name}) if broken else ("", "")
        results.append(
            {
                "name": name,
                "holds": not broken,
                "means": INVARIANTS[name],
                "text": "; ".join(broken),
                "because": because,
                "however": however,
            }
        )
    return results


def _asked_by_twins(case: Case, name: str) -> bool:
    return any(twin.must_fail == name for twin in case.scenario.twins)


def failures(fold: Fold, missed: Iterable[FailedCheck]) -> list[WireFailure]:
    """Return the unmet expectations of the file, with their reasons."""
    results: list[WireFailure] = []
    for each in missed:
        because, however = because_of(fold, {"check": each.check, "message": each.message})
        results.append(
            {"check": each.check, "message": each.message, "because": because, "however": however}
        )
    return results


def outcome_text(fold: Fold, broken: Sequence[str]) -> str:
    """Return all outcomes of an order in one sentence."""
    if fold.stuck is not None:
        return f"Nothing could go on: {fold.stuck.message}."
    by: dict[str, list[str]] = {}
    for name, outcome in fold.outcomes.items():
        if outcome != "none":
            by.setdefault(outcome, []).append(name)
    parts = []
    for outcome, names in by.items():
        verb = "" if outcome == "committed" else ("is " if len(names) == 1 else "are ")
        parts.append(f"{listed(names)} {verb}{outcome}")
    text = "; ".join(parts) or "No transaction was ended"
    if broken:
        text += f"; {listed([*broken])} {'does' if len(broken) == 1 else 'do'} not hold"
    return f"{text[:1].upper()}{text[1:]}."


def as_item(item: OrderItem) -> WireItem:
    """Return an order's entry as the page has it."""
    if item.step is not None:
        return item.step
    values: dict[str, Any] = item.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude_unset=True
    )
    return {
        key: f"agent {value}" if key in ("pause", "resume") else value
        for key, value in values.items()
    }
