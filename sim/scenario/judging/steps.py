"""Judgement of steps: their outcomes, waits and results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.phrases import rows_text
from twopc.sim.scenario.expectations import StepExpect
from twopc.sim.scenario.judging import merge_expectations
from twopc.sim.scenario.judging.case_expectations import CaseExpectations
from twopc.sim.scenario.judging.compare import (
    as_expected,
    as_rows,
    counted,
    failure_kind,
    holder,
    matches,
    outcome_text,
    row_equal,
    wanted_text,
)
from twopc.sim.scenario.judging.runs import WELL, Runs, StepRun
from twopc.sim.scenario.judging.verdicts import FailedCheck
from twopc.sim.scenario.model import sync_name
from twopc.sim.scenario.steps import OF_AGENTS
from twopc.sim.scenario.text import Path
from twopc.sim.scenario.values import Case


def steps(case: Case, expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    """Yield the failures of the steps of a case."""
    judging = _Steps(case, expected, runs)
    for name, ended, place in _ended(case, runs):
        yield from judging.step(name, ended, place)


def twin_steps(case: Case, expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    """Yield the failures of the steps for which a twin has expectations, and of syncs.

    A sync that fails violates `converged`: it has kept the Subscriber from receiving the Publisher's rows.
    """
    judging = _Steps(case, expected, runs)
    for name, ended, place in _ended(case, runs):
        if expected.step(name) is not None:
            yield from judging.step(name, ended, place)
        elif case.scenario.steps[name][1].action in OF_AGENTS:
            text = expected.step(name, of_order=True)
            usual = text[1].final if text is not None else StepExpect(outcome="ok")
            if not matches(usual, ended):
                yield FailedCheck(
                    path=expected.head,
                    message=f"{name}: expected {wanted_text(usual)}, got {outcome_text(ended)}",
                    kind=failure_kind(ended),
                    check="converged",
                )


def _ended(case: Case, runs: Runs) -> Iterator[tuple[str, HistoryRecord, int]]:
    """Yield each step that was played to its end, with the record of its end and the place of its item."""
    for place, item in enumerate(case.items):
        if item.step is not None and (ended := runs.of(item.step).ended) is not None:
            yield item.step, ended, place


def syncs(case: Case, expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    """Check that each sync of the order itself succeeded; a sync that may fail has to be a session's step."""
    number = 0
    for place, item in enumerate(case.items):
        if item.sync is None:
            continue
        number += 1
        ended = runs.of(sync_name(number)).ended
        if ended is not None and ended.kind != "ok":
            yield FailedCheck(
                path=expected.item(place),
                message=f"sync: expected ok, got {outcome_text(ended)}",
                kind=failure_kind(ended),
                check="converged",
                expected_text="ok",
                actual_text=outcome_text(ended),
            )


def waits(case: Case, expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    """Check that the step of each `{wait: step blocked}` of the order was blocked at that point."""
    answers = [record for record in runs.records if record.kind == "waited"]
    asked = [(place, item) for place, item in enumerate(case.items) if item.wait is not None]
    for (place, item), record in zip(asked, answers, strict=False):
        only_checks = not item.waits_for_end and not item.waits_for_notices
        if only_checks and not (record.data or {}).get("blocked"):
            yield FailedCheck(
                path=expected.item(place),
                message=f"{item.waited} is not blocked at this point",
                check="waits",
                expected_text="blocked",
                actual_text="not blocked",
            )


class _Steps:
    """Comparison of single steps with their expectations."""

    def __init__(self, case: Case, expected: CaseExpectations, runs: Runs) -> None:
        self._case = case
        self._expected = expected
        self._runs = runs

    def step(self, name: str, ended: HistoryRecord, place: int) -> Iterator[FailedCheck]:
        """Yield the failures of a step that has ended."""
        text = self._expected.step(name)
        if ended.kind == "timed_out":
            return  # `lapses.timed_out` judges it
        if text is not None:
            yield from self._as_specified(name, ended, *text)
        elif not (ended.kind in WELL or self._expected.anything_goes or self._is_counted(ended)):
            actual = as_expected(ended)
            by = [each for each in map(holder, self._runs.of(name).blocked) if self._is_known(each)]
            if actual is not None and by:
                actual = {"blocked_by": by[0], "then": actual}
            yield self._failure(
                name,
                self._expected.item(place),
                "ok",
                outcome_text(ended),
                actual,
                failure_kind(ended),
            )
        session, step = self._case.scenario.steps[name]
        if step.rows is not None and ended.kind == "skipped" and text is None:
            yield from self._not_compared(name, ended, place)
        elif step.rows is not None and ended.kind == "ok":
            named = list(self._case.scenario.sessions[session].named_steps)
            at = [each for each, _ in named].index(name)
            path: Path = ("sessions", session, "steps", at, name, "rows")
            yield from self._rows(name, ended, path, step.rows)

    def _not_compared(self, name: str, ended: HistoryRecord, place: int) -> Iterator[FailedCheck]:
        """Report rows that were not compared because the step was not sent; a generated order may contain such
        steps.
        """
        if self._case.is_generated or self._expected.allows("step_not_played"):
            return
        text = f"not sent: {ended.message}" if ended.message else "not sent"
        yield self._failure(name, self._expected.item(place), "its rows", text, "any")

    def _is_counted(self, ended: HistoryRecord) -> bool:
        """Return whether a step was rejected for a reason whose number `rejected` specifies."""
        kind = str((ended.conflict or {}).get("kind"))
        return ended.kind == "rejected" and kind in self._expected.rejected()

    def _as_specified(
        self, name: str, ended: HistoryRecord, path: Path, expected: StepExpect
    ) -> Iterator[FailedCheck]:
        run = self._runs.of(name)
        actual = as_expected(ended)
        final = expected.final
        final_path = (*path, "then") if expected.then is not None else path
        if expected.blocked_by is not None:
            if run.blocked:
                yield from self._blocked_by(name, run, path, expected.blocked_by)
            else:
                final_path = path  # there was no wait, so that `then` does not apply
                requested = f"blocked by {expected.blocked_by}"
                yield self._failure(name, path, requested, "not blocked", actual)
        if not matches(final, ended):
            kind = failure_kind(ended)
            yield self._failure(
                name, final_path, wanted_text(final), outcome_text(ended), actual, kind
            )
        elif final.rowcount is not None and final.rowcount != ended.rowcount:
            got = ended.rowcount
            requested, at = counted(final.rowcount, "row"), (*final_path, "rowcount")
            yield self._failure(name, at, requested, str(got), got)
        elif final.delivered is not None and final.delivered != self._runs.delivered(run):
            got = self._runs.delivered(run)
            requested, at = counted(final.delivered, "transaction"), (*final_path, "delivered")
            yield self._failure(name, at, requested, str(got), got)
        elif final.calls is not None and final.calls != self._runs.calls(run):
            got = self._runs.calls(run)
            requested, at = counted(final.calls, "call"), (*final_path, "calls")
            yield self._failure(name, at, requested, str(got), got)
        elif final.rows is not None:
            yield from self._rows(name, ended, (*final_path, "rows"), final.rows)
        elif final.error is None:
            yield from self._of_merge(name, ended, final_path, final)

    def _of_merge(
        self, name: str, ended: HistoryRecord, path: Path, expected: StepExpect
    ) -> Iterator[FailedCheck]:
        """Compare the report of a merge session with the expected fields."""
        for field, requested in expected.of_merge.items():
            got = merge_expectations.reported(ended, field)
            if got != requested:
                texts = (
                    merge_expectations.in_words(field, requested),
                    merge_expectations.in_words(field, got),
                )
                yield self._failure(name, (*path, field), *texts, got)

    def _rows(
        self, name: str, ended: HistoryRecord, path: Path, expected: Sequence[Mapping[str, Any]]
    ) -> Iterator[FailedCheck]:
        got = ended.rows or ()
        same = len(got) == len(expected) and all(
            row_equal(want, row) for want, row in zip(expected, got, strict=True)
        )
        if not same:
            actual = as_rows(got, list(expected[0]) if expected else None)
            requested = f"rows {rows_text(expected)}"
            yield self._failure(name, path, requested, rows_text(got), actual)

    def _blocked_by(self, name: str, run: StepRun, path: Path, by: str) -> Iterator[FailedCheck]:
        steps = self._case.scenario.steps
        session = steps[by][0] if by in steps else by
        started = self._runs.of(by).invoked
        for record in run.blocked:
            before = by == session or 0 <= started < record.seq
            if before and (record.wait or {}).get("session") == session:
                return
        first: dict[str, HistoryRecord] = {}
        for record in run.blocked:
            first.setdefault(str((record.wait or {}).get("session")), record)
        got = " and ".join(f"blocked by {holder(each)}" for each in first.values())
        others = [each for each in map(holder, first.values()) if self._is_known(each)]
        yield self._failure(
            name, (*path, "blocked_by"), f"blocked by {by}", got, others[0] if others else None
        )

    def _is_known(self, name: str) -> bool:
        """Return whether `name`, that of a lock's holder, is a name that a scenario file can use."""
        return name in self._case.scenario.steps or name in self._case.scenario.sessions

    def _failure(
        self,
        name: str,
        path: Path,
        requested: str,
        got: str,
        actual: Any = None,
        kind: str = "safety",
    ) -> FailedCheck:
        return FailedCheck(
            path=path,
            message=f"{name}: expected {requested}, got {got}",
            kind=kind,
            check=f"steps.{name}",
            actual=None if self._case.is_generated or kind != "safety" else actual,
            expected_text=requested,
            actual_text=got,
        )
