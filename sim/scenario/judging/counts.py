"""Judgement of the outcomes of sessions, and of the numbers of committed sessions and rejected steps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from twopc.sim.scenario.expectations import Count
from twopc.sim.scenario.judging.case_expectations import CaseExpectations
from twopc.sim.scenario.judging.runs import Runs
from twopc.sim.scenario.judging.verdicts import FailedCheck
from twopc.sim.scenario.text import Path
from twopc.sim.scenario.values import Case


def sessions(case: Case, expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    """Compare the outcomes of sessions with the expected ones, and report unexpected outcomes in doubt."""
    outcomes = _outcomes(runs)
    text = expected.sessions()
    for name, (path, requested) in text.items():
        got = outcomes.get(name, "none")
        if got == requested:
            continue
        acceptable = got in ("committed", "rolled back") and not case.is_generated
        yield FailedCheck(
            path=path,
            message=f"{name}: expected {requested}, got {got}",
            kind="unknown" if got == "in doubt" else "safety",
            check=f"sessions.{name}",
            actual=got if acceptable else None,
            expected_text=requested,
            actual_text=got,
        )
    for name, got in outcomes.items():
        if got == "in doubt" and name not in text:
            yield FailedCheck(
                path=expected.head,
                message=f"{name} ended in doubt",
                kind="unknown",
                check=f"sessions.{name}",
            )


def committed(case: Case, expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    """Check the number of sessions whose last transaction committed."""
    text = expected.committed()
    if text is None:
        return
    path, count = text
    ends = Counter(_outcomes(runs).values())
    got, open_ = ends["committed"], ends["in doubt"]
    if not count.fits(got):
        could = any(count.fits(got + more) for more in range(1, open_ + 1))
        yield _miscounted("committed", path, ("session", "to commit"), count, got, could)


def rejected(case: Case, expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    """Check the number of rejected steps for each reason that has an expectation."""
    kinds = Counter(
        str((record.conflict or {}).get("kind"))
        for record in runs.records
        if record.kind == "rejected"
    )
    for kind, (path, count) in expected.rejected().items():
        if not count.fits(kinds[kind]):
            what = ("step", f"to be rejected with {kind}")
            yield _miscounted(f"rejected.{kind}", path, what, count, kinds[kind], could=False)


def _outcomes(runs: Runs) -> dict[str, str]:
    return {r.session: r.message for r in runs.records if r.kind == "outcome"}


def _miscounted(
    check: str, path: Path, what: tuple[str, str], count: Count, got: int, could: bool
) -> FailedCheck:
    who, does = what
    requested = count_text(count)
    many = "" if requested.split()[-1] == "1" else "s"
    return FailedCheck(
        path=path,
        message=f"expected {requested} {who}{many} {does}, got {got}",
        kind="unknown" if could else "safety",
        check=check,
        expected_text=requested,
        actual_text=str(got),
    )


def count_text(count: Count) -> str:
    """Return a count in words."""
    if count.exactly is not None:
        return str(count.exactly)
    bounds = (("at least", count.at_least), ("at most", count.at_most))
    return " and ".join(f"{word} {number}" for word, number in bounds if number is not None)
