"""Judgement of whether a case was played completely: faults struck, steps were played, and all of them ended.

An order in which one of these is missing has not tested the subject of its file, whatever its other results are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from twopc.sim.checkers import LAST_SYNC
from twopc.sim.report.history import HistoryRecord
from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.judging.case_expectations import CaseExpectations
from twopc.sim.scenario.judging.compare import wanted_text
from twopc.sim.scenario.judging.runs import Runs
from twopc.sim.scenario.judging.verdicts import FailedCheck
from twopc.sim.scenario.text import Path, listed
from twopc.sim.scenario.values import Case


def lapses(case: Case, expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    """Yield a failure for each step or fault that did not occur or did not end, unless the file allows it.

    Steps that are missing only because an earlier one did not end are named in the failure of the earlier one.
    """
    stopped = [*stuck(case, expected, runs), *timed_out(case, expected, runs)]
    yield from stopped
    if not stopped:
        yield from _not_played(case, expected, runs)
        yield from without_faults(case, expected, runs)


def stuck(case: Case, expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    """Yield a failure for each record of a session that could not continue."""
    for record in runs.records:
        if record.kind == "stuck":
            yield FailedCheck(
                path=_place(case, expected, record.step),
                message=f"it cannot go on: {record.message}{_unplayed(case, runs, after=record)}",
                kind="liveness",
                check="ends",
            )


def timed_out(case: Case, expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    """Yield a failure for each action that exceeded its time limit.

    The order's own syncs, and the last sync if copies are compared, are judged elsewhere.
    """
    if expected.allows("time_limit"):
        return
    converged = expected.invariant("converged")[1] is not False
    for record in runs.records:
        by_itself = record.step not in ("", *case.scenario.steps)
        if record.kind != "timed_out" or (by_itself and (converged or record.step != LAST_SYNC)):
            continue
        text = expected.step(record.step)
        requested = wanted_text(text[1].final) if text is not None else "ok"
        late = f"no end of {'the last sync' if by_itself else 'a rollback'}"
        report = (
            f"{record.step}: expected {requested}, got" if not by_itself and record.step else late
        )
        yield FailedCheck(
            path=_place(case, expected, record.step),
            message=f"{report} {record.message}{_unplayed(case, runs, after=record)}",
            kind="liveness",
            check=f"steps.{record.step}" if case.twin is None and record.step else "ends",
            expected_text=requested,
            actual_text=record.message,
        )


def _not_played(case: Case, expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    if expected.allows("step_not_played"):
        return
    for item in case.items:
        if item.step is None or runs.of(item.step).ended is not None:
            continue
        begun = runs.of(item.step).invoked >= 0
        yield FailedCheck(
            path=_place(case, expected, item.step),
            message=f"{item.step} {'did not end' if begun else 'was not played'}",
            kind="liveness",
            check=f"steps.{item.step}",
        )


def without_faults(case: Case, expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    """Yield a failure for each fault of the case that has not struck or had no effect: the result does not show the
    effect of the fault.
    """
    struck = Counter(fault for fault, _, no_effect in _strikes(runs) if not no_effect)
    missed = {fault: (at, no_effect) for fault, at, no_effect in _strikes(runs) if no_effect}
    arrived = Counter(fault for fault, _, _ in _strikes(runs))
    armed = Counter([*case.order.faults, *(item.fault for item in case.items if item.fault)])
    for place, fault in enumerate(case.scenario.faults):
        if fault.id in missed and not expected.allows("fault_without_effect"):
            at, no_effect = missed[fault.id]
            yield _no_fault(
                place,
                f"fault '{fault.id}' had no effect at {at}: {no_effect}",
                lapse="fault_without_effect",
                got="no effect",
            )
        times, of = arrived[fault.id], armed[fault.id]
        is_reached = fault.id not in case.faults or times >= max(of, 1)
        if not is_reached and not expected.allows("fault_not_reached"):
            how_often = f" again (it is armed {of} times and struck {struck[fault.id]})"
            yield _no_fault(
                place,
                f"fault '{fault.id}' was not reached{how_often if times else ''}: {_arrivals(fault)}",
                lapse="fault_not_reached",
                got="not reached",
            )


def _strikes(runs: Runs) -> Iterator[tuple[str, str, str]]:
    """Yield for each strike the fault's id, the protocol point, and the reason why the fault had no effect, if it
    had none.
    """
    for record in runs.records:
        if record.kind == "fault":
            data = record.data or {}
            yield str(data.get("id")), record.message, str(data.get("no_effect", ""))


def _no_fault(place: int, message: str, *, lapse: str, got: str) -> FailedCheck:
    return FailedCheck(
        path=("faults", place, "at"),
        message=f"{message}. Correct where it strikes, or allow this: {{allow: [{lapse}]}} in 'expect'",
        check="faults",
        expected_text="it strikes",
        actual_text=got,
    )


def _arrivals(fault: Fault) -> str:
    whose = [f"of session {fault.when.session}"] if fault.when.session else []
    whose += [f"of {fault.when.gid}"] if fault.when.gid else []
    fewer = f"fewer than {fault.when.nth} arrivals" if fault.when.nth > 1 else "no arrival"
    text = " ".join([fewer, *whose, "at", fault.at])
    strikes_a_request = fault.do in ("lose reply", "repeat request")
    if strikes_a_request and not fault.at.startswith("reply."):
        text += ", or not the request after it"
    return text


def _place(case: Case, expected: CaseExpectations, step: str) -> Path:
    """Return the place of a step's expectation, or else the place where the step is listed."""
    text = expected.step(step)
    if text is not None:
        return text[0]
    place = next((place for place, item in enumerate(case.items) if item.step == step), None)
    return expected.head if not step or place is None else expected.item(place)


def _unplayed(case: Case, runs: Runs, *, after: HistoryRecord) -> str:
    names = [item.step for item in case.items if item.step and item.step != after.step]
    left = [name for name in names if runs.of(name).ended is None]
    return f"; not played after it: {listed(left)}" if left else ""
