"""Judgement of twins: whether an order without its protection fails in the expected check."""

from __future__ import annotations

from collections.abc import Sequence

from twopc.sim.scenario.judging.verdicts import FailedCheck, worst
from twopc.sim.scenario.text import Path
from twopc.sim.scenario.twins import Twin
from twopc.sim.scenario.values import Case


def judge_twin(
    case: Case, failures: Sequence[FailedCheck]
) -> tuple[list[FailedCheck], frozenset[str]]:
    """Return the failures of a twin, and the checks that failed.

    A twin passes if exactly its `must_fail` check fails. A single generated order may pass without a failed check;
    whether the check failed in any of the orders is judged after all have been played.
    """
    assert case.twin is not None, "only twins are judged so"
    failed = frozenset(failure.check for failure in failures)
    others = [failure for failure in failures if failure.check != case.twin.must_fail]
    if others:
        text = "; ".join(dict.fromkeys(_text(failure) for failure in others))
        as_it_must = case.twin.must_fail in failed
        also = f"it did, and also {text}" if as_it_must else f"instead {text}"
        return [_failure(case.at, case.twin, also, worst(others))], failed
    if not failed and not case.is_generated:
        return [_failure(case.at, case.twin, "nothing failed")], failed
    return [], failed


def note(case: Case, failed: frozenset[str]) -> str:
    """Return a note on a twin that behaved as expected."""
    assert case.twin is not None, "only twins have such notes"
    if not failed:
        return "nothing fails in this order"
    return f"{case.twin.must_fail} fails, as it must"


def _text(failure: FailedCheck) -> str:
    """Return a failure's message, together with its check unless the message already begins with the check."""
    named = failure.message.startswith(f"{failure.check}:")
    return failure.message if named else f"{failure.check} ({failure.message})"


def _failure(at: Path, twin: Twin, what: str, kind: str = "safety") -> FailedCheck:
    return FailedCheck(
        path=(*at, "must_fail"),
        message=f"expected only '{twin.must_fail}' to fail: {what}",
        kind=kind,
        check="twin",
        expected_text=f"only {twin.must_fail} fails",
        actual_text=what,
    )
