"""Judgement of reports of merge sessions and of recorded merge conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.phrases import row_text
from twopc.sim.scenario.judging.case_expectations import CaseExpectations
from twopc.sim.scenario.judging.compare import as_rows, counted, row_equal
from twopc.sim.scenario.judging.runs import Runs
from twopc.sim.scenario.judging.verdicts import FailedCheck
from twopc.sim.scenario.merge_parts import MergeConflictExpect
from twopc.sim.scenario.text import Path

#: Nouns for the fields of a session's report that are numbers; the other fields are Booleans.
_COUNTED = {
    "uploaded": "row uploaded",
    "downloaded": "row downloaded",
    "conflicts": "conflict",
    "deferred": "row deferred",
    "retried": "row retried",
}


def reported(ended: HistoryRecord, name: str) -> int | bool:
    """Return one field of the reports of a step's merge sessions: the sum of numbers, or whether any is true."""
    values = [each[name] for each in (ended.data or {}).get("merge", ())]
    return sum(values) if name in _COUNTED else any(values)


def in_words(name: str, value: int | bool) -> str:
    """Return a field of a merge session's report in words."""
    if name not in _COUNTED:
        return name if value else f"not {name}"
    noun, *rest = _COUNTED[name].split()
    return " ".join((counted(value, noun), *rest))


def conflicts(expected: CaseExpectations, runs: Runs) -> Iterator[FailedCheck]:
    """Compare the recorded merge conflicts with the complete list of expected ones."""
    asked = expected.conflicts()
    if asked is None:
        return
    path, listed = asked
    left = [dict(record.data or {}) for record in runs.records if record.kind == "merge_conflict"]
    every = list(left)
    missing = []
    for place, one in enumerate(listed):
        result = next((each for each in left if _fits(one, each)), None)
        if result is None:
            missing.append(place)
        else:
            left.remove(result)
    for place in missing:
        yield _failure(
            (*path, place),
            every,
            f"{_expected_text(listed[place])} is missing",
            "; ".join(map(_text, left or every)) or "none",
        )
    if not missing:
        for each in left:
            yield _failure(path, every, f"{_text(each)} was not expected", _text(each))


def _failure(path: Path, every: Sequence[Mapping[str, Any]], message: str, got: str) -> FailedCheck:
    actual = [_as_expected(each) for each in every] if isinstance(path[-1], str) else None
    return FailedCheck(
        path=path,
        message=f"conflicts: {message}; recorded: {got}",
        check="conflicts",
        actual=actual,
        expected_text="these conflicts",
        actual_text=got,
    )


def _fits(expected_one: MergeConflictExpect, got: Mapping[str, Any]) -> bool:
    return (
        expected_one.table == got["table"]
        and expected_one.type == got["type"]
        and row_equal(expected_one.key, got["key"])
        and (expected_one.winner is None or expected_one.winner == got["winner"])
        and not (expected_one.has_no_loser and got["loser"] is not None)
        and (expected_one.loser is None or row_equal(expected_one.loser, got["loser"] or {}))
    )


def _as_expected(got: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recorded conflict in the form of a scenario file."""
    result: dict[str, Any] = {"table": got["table"], "type": got["type"]}
    result["key"] = as_rows([got["key"]], None)[0]
    if got["winner"] is not None:
        result["winner"] = got["winner"]
    result["loser"] = None if got["loser"] is None else as_rows([got["loser"]], None)[0]
    return result


def _expected_text(expected_one: MergeConflictExpect) -> str:
    won = f" won by {expected_one.winner}" if expected_one.winner is not None else ""
    lost = f", losing {row_text(expected_one.loser)}" if expected_one.loser else ""
    return f"{expected_one.type} of {expected_one.table} {row_text(expected_one.key)}{won}{lost}"


def _text(got: Mapping[str, Any]) -> str:
    won = f" won by {got['winner']}" if got["winner"] is not None else f" from {got['origin']}"
    lost = f", losing {row_text(got['loser'])}" if got["loser"] else ", losing a deletion"
    return f"{got['type']} of {got['table']} {row_text(got['key'])}{won}{lost}"
