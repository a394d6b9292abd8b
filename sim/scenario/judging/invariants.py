"""Judgement of invariants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from twopc.sim.checkers import CHECKS, defaults, unjudged
from twopc.sim.scenario.expectations import NOT_JUDGED
from twopc.sim.scenario.judging.case_expectations import CaseExpectations
from twopc.sim.scenario.judging.runs import Runs
from twopc.sim.scenario.judging.verdicts import FailedCheck
from twopc.sim.scenario.text import Path
from twopc.sim.scenario.values import Case

#: Invariants whose expectation is a number, with the beginning of the message if no violation was found.
_COUNTED = {"prepared_left": "nothing is prepared", "echoed": "nothing came back"}
#: Invariants that apply only if changes are distributed to Subscribers.
_OF_DISTRIBUTION = ("converged", "echoed", "each_change_applied_once")
#: Invariants that are checked only if a file asks for them, or has a twin in which they must fail.
_ASKED_FOR = ("no_lost_update", "each_change_applied_once")


def invariants(case: Case, expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    """Yield a failure for every violation of an invariant of the case."""
    for name in _checked(case, expected):
        path, requested = expected.invariant(name)
        broken = CHECKS[name](runs.records, {})
        if name in _COUNTED:
            if len(broken) == (requested or 0):
                continue
            broken = broken or [f"{_COUNTED[name]}, but {requested} was expected"]
        unknown = name == "prepared_left" and runs.any_of("in_doubt")
        for message in broken:
            yield _failure(name, path, message, "unknown" if unknown else "safety")
    for path, total in expected.sums():
        yield from _with_settings("sum", path, total.model_dump(), runs)
    for path, query in expected.queries():
        yield from _with_settings("sql", path, query.model_dump(), runs)


def not_judged(case: Case, expected: CaseExpectations, runs: Runs) -> str:
    """Return a note of the invariants that could not be judged, with the reason; empty if all were judged."""
    return unjudged([*_checked(case, expected)], runs.records)


def _checked(case: Case, expected: CaseExpectations) -> Iterator[str]:
    """Yield the names of the invariants that are checked."""
    merges = case.scenario.merges
    for name in (*defaults(merges=merges), *(() if merges else _ASKED_FOR)):
        _, requested = expected.invariant(name)
        must_fail = case.twin is not None and case.twin.must_fail == name
        if name in _ASKED_FOR and not requested and not must_fail:
            continue
        if requested is False or requested == NOT_JUDGED:
            continue
        if name in _OF_DISTRIBUTION and not case.scenario.distributes:
            continue
        if name == "converged" and expected.diverged() is not None:
            continue
        yield name


def _with_settings(
    name: str, path: Path, settings: Mapping[str, Any], runs: Runs
) -> Iterator[FailedCheck]:
    for message in CHECKS[name](runs.records, settings):
        yield _failure(name, path, message)


def _failure(name: str, path: Path, message: str, kind: str = "safety") -> FailedCheck:
    return FailedCheck(path=path, message=f"{name}: {message}", kind=kind, check=name)
