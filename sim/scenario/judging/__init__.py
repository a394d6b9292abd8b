"""Judgement of a played case: the scenario's expectations against the history.

The functions are pure: they take a case and records, and return failures with their places. Cases are judged after
they have been played; the runner does not call `judge`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from twopc.sim.report.behaviour import fingerprint
from twopc.sim.report.history import HistoryRecord
from twopc.sim.scenario import choices
from twopc.sim.scenario.judging import calls, counts, merge_expectations, twins
from twopc.sim.scenario.judging.case_expectations import CaseExpectations
from twopc.sim.scenario.judging.compare import holder, in_short, outcome_text
from twopc.sim.scenario.judging.invariants import invariants, not_judged
from twopc.sim.scenario.judging.lapses import lapses
from twopc.sim.scenario.judging.rows import tables
from twopc.sim.scenario.judging.runs import WELL, Runs
from twopc.sim.scenario.judging.steps import steps, syncs, twin_steps, waits
from twopc.sim.scenario.judging.verdicts import FAILURE_KINDS, FailedCheck, OrderVerdict
from twopc.sim.scenario.values import Case

__all__ = ["FAILURE_KINDS", "FailedCheck", "OrderVerdict", "judge", "verdict"]


def judge(case: Case, records: Sequence[HistoryRecord]) -> OrderVerdict:
    """Return the verdict of a case: its records compared with all of its expectations.

    A generated order that could not be played as written is not a failure; its expectations are not judged.
    """
    expected, runs = CaseExpectations(case), Runs(records)
    if runs.any_of("infeasible"):
        return verdict(case, expected, runs, [], list(_notes(runs)))
    failures = list(_failures(case, expected, runs))
    behaviour = fingerprint(records)
    return verdict(case, expected, runs, failures, list(_notes(runs)), behaviour=behaviour)


def verdict(
    case: Case,
    expected: CaseExpectations,
    runs: Runs,
    failures: list[FailedCheck],
    notes: list[str],
    *,
    behaviour: str = "",
) -> OrderVerdict:
    """Return the verdict of a case with these failures; that of a twin depends on which checks failed."""
    failed: frozenset[str] = frozenset()
    if case.twin is not None and not runs.any_of("infeasible"):
        failures, failed = twins.judge_twin(case, failures)
        notes = notes if failures else [twins.note(case, failed)]
    if lacking := not_judged(case, expected, runs):
        notes = [*notes, lacking]
    playing = [record.t_us for record in runs.records if record.session]
    return OrderVerdict(
        name=case.name,
        group=case.group,
        failures=tuple(failures),
        elapsed_us=playing[-1] - playing[0] if playing else 0,
        notes=tuple(notes),
        twin=case.twin is not None,
        behaviour=behaviour,
        failed=failed,
    )


def _failures(case: Case, expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    yield from lapses(case, expected, runs)
    if case.twin is None:
        yield from steps(case, expected, runs)
        yield from waits(case, expected, runs)
    else:
        yield from twin_steps(case, expected, runs)
    yield from syncs(case, expected, runs)
    yield from counts.sessions(case, expected, runs)
    yield from counts.committed(case, expected, runs)
    yield from counts.rejected(case, expected, runs)
    yield from tables(case, expected, runs)
    yield from invariants(case, expected, runs)
    yield from calls.commands(expected, runs)
    yield from calls.diverged(expected, runs)
    yield from merge_expectations.conflicts(expected, runs)


def _notes(runs: Runs) -> Iterator[str]:
    for name, run in runs.named():
        lines = [f"waited for {holder(each)}" for each in run.blocked[:1]]
        if run.ended is not None and run.ended.kind not in WELL:
            lines.append(in_short(outcome_text(run.ended)))
        if lines:
            yield f"{name} {', '.join(lines)}"
    if free := choices.note(runs.records):
        yield free
