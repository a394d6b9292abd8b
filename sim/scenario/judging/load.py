"""Judgement of a load: invariants, expected rejections and rows, and thresholds.

The functions are pure: they take a case and records, and return failures with their places.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.load import in_short, of
from twopc.sim.scenario.judging import counts, verdict
from twopc.sim.scenario.judging.case_expectations import CaseExpectations
from twopc.sim.scenario.judging.invariants import invariants
from twopc.sim.scenario.judging.lapses import stuck, without_faults
from twopc.sim.scenario.judging.rows import tables
from twopc.sim.scenario.judging.runs import Runs
from twopc.sim.scenario.judging.verdicts import FailedCheck, OrderVerdict
from twopc.sim.scenario.values import Case

#: Number of failures of one check that are shown.
SHOWN_MAX = 5


def judge_load(case: Case, records: Sequence[HistoryRecord]) -> OrderVerdict:
    """Return the verdict of a load: its records compared with all of its expectations."""
    expected, runs = CaseExpectations(case), Runs(records)
    text = of(records)
    failures = _not_too_many(
        [
            *stuck(case, expected, runs),
            *without_faults(case, expected, runs),
            *counts.rejected(case, expected, runs),
            *tables(case, expected, runs),
            *invariants(case, expected, runs),
            *_thresholds(text),
            *_replay(case, records),
        ]
    )
    notes = [in_short(text), *_replayed(records)] if text else []
    return verdict(case, expected, runs, failures, notes)


def _not_too_many(failures: Sequence[FailedCheck]) -> list[FailedCheck]:
    """Return the first few failures of each check, and the number of the others: under load, a violation tends to
    occur many times.
    """
    results: list[FailedCheck] = []
    for check in dict.fromkeys(failure.check for failure in failures):
        of = [failure for failure in failures if failure.check == check]
        results += of[:SHOWN_MAX]
        if len(of) > SHOWN_MAX:
            message = f"{check}: and {len(of) - SHOWN_MAX} more like these"
            results.append(replace(of[SHOWN_MAX], message=message))
    return results


def _thresholds(report: dict[str, Any]) -> Iterator[FailedCheck]:
    for place, each in enumerate(report.get("thresholds", ())):
        if not each["kept"]:
            measured = each["measured"] or "nothing to measure"
            yield FailedCheck(
                path=("thresholds", place),
                message=f"expected {each['bound']}, got {measured}",
                kind="threshold",
                check=f"thresholds.{place + 1}",
                expected_text=each["bound"],
                actual_text=measured,
            )


def _replay(case: Case, records: Sequence[HistoryRecord]) -> Iterator[FailedCheck]:
    """Compare the number of divergences of a replay with the expected number."""
    requested = case.scenario.replay
    report = _of_replay(records)
    if requested is None or not report:
        return
    count = requested.expect.divergence
    result = report["classes"]
    got = sum(
        number for name, number in result.items() if name in (requested.expect.classes or result)
    )
    if count.fits(got):
        return
    text = counts.count_text(count)
    first = next((each for each in report["divergences"]), None)
    more = f"; the first: {_text(first)}" if first is not None else ""
    yield FailedCheck(
        path=("replay", "expect", "divergence"),
        message=f"expected {text} divergences of the replay, got {got} ({_by_class(result)}){more}",
        check="replay",
        expected_text=text,
        actual_text=str(got),
    )


def _of_replay(records: Sequence[HistoryRecord]) -> dict[str, Any]:
    results = [record for record in records if (record.kind, record.message) == ("info", "replay")]
    return dict(results[-1].data or {}) if results else {}


def _replayed(records: Sequence[HistoryRecord]) -> Iterator[str]:
    """Yield a line that summarises the result of a replay."""
    text = _of_replay(records)
    if text:
        count = text["transactions"]
        yield f"replay, sync {text['sync']}: {count} transactions, divergence: {_by_class(text['classes'])}"


def _by_class(result: dict[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in result.items())


def _text(result: dict[str, Any]) -> str:
    who = " ".join(str(result[name]) for name in ("session", "article", "call") if name in result)
    return f"{who}: {result['expected']} was expected, {result['actual']}"
