"""Comparison of rows and outcomes with expectations, and their wording in messages.

The functions are pure. A column's value is compared as PostgreSQL's text, a number also by value: 1.5 equals 1.50.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from twopc.names import VERSION_COLUMN
from twopc.sim.report.history import HistoryRecord
from twopc.sim.scenario.expect_meaning import sqlstate_of
from twopc.sim.scenario.expectations import StepExpect
from twopc.sim.scenario.text import Number

_NOTE_MAX = 80
#: Names in expectations of the outcomes of steps other than errors.
_WORDS = {"ok": "ok", "explain": "ok", "rolled_back": "rolled back", "in_doubt": "in_doubt"}
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?")


def outcome_text(ended: HistoryRecord) -> str:
    """Return the outcome of a step in the words of an expectation."""
    if ended.kind == "rejected":
        return f"rejected: {(ended.conflict or {}).get('kind')}"
    if ended.kind == "error":
        code, message = ended.sqlstate, ended.message
        return f"error: {code} ({message})" if code and message else f"error: {code or message}"
    if ended.kind == "ok" and ended.rowcount is not None and ended.rowcount >= 0:
        return f"ok ({counted(ended.rowcount, 'row')})"
    if ended.kind == "timed_out":
        return ended.message or "no end"
    return ended.kind.replace("_", " ")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 row``, ``2 rows``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def as_expected(ended: HistoryRecord) -> Any:
    """Return the expectation that a step's outcome would have fulfilled; None if there is none."""
    if ended.kind == "rejected":
        return {"rejected": str((ended.conflict or {}).get("kind"))}
    if ended.kind == "error":
        code = ended.sqlstate or (str(ended.number) if ended.number else "")
        return {"error": _value(code)} if code else None
    return None if ended.kind == "in_doubt" else _WORDS.get(ended.kind)


def as_rows(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None) -> list[Any]:
    """Return rows in the form of a scenario file, with the columns that `only` keeps."""
    return [{name: _value(value) for name, value in only(row, columns).items()} for row in rows]


def _value(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    text = str(value)
    return Number(text) if _NUMBER.fullmatch(text) else text


def row_equal(expected: Mapping[str, Any], got: Mapping[str, Any]) -> bool:
    """Return whether a row has all expected columns with the expected values."""
    return all(name in got and _equal(value, got[name]) for name, value in expected.items())


def _equal(expected: Any, got: Any) -> bool:
    if expected is None or got is None:
        return expected is got
    text = str(got).lower() if isinstance(got, bool) else str(got)
    if str(expected) == text:
        return True
    if not isinstance(expected, Number):
        return False
    try:
        return Decimal(str(expected)) == Decimal(text)
    except InvalidOperation:
        return False


def unmatched(
    expected: Sequence[Mapping[str, Any]], got: Sequence[Mapping[str, Any]]
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """Return the expected rows that are missing, and the rows that no expectation matches."""
    left = list(got)
    missing = []
    for row in expected:
        result = next((each for each in left if row_equal(row, each)), None)
        if result is None:
            missing.append(row)
        else:
            left.remove(result)
    return missing, left


def only(row: Mapping[str, Any], columns: Sequence[str] | None) -> Mapping[str, Any]:
    """Return the named columns of a row; if `columns` is None, all columns except the row version."""
    if columns is None:
        return {name: value for name, value in row.items() if name != VERSION_COLUMN}
    return {name: row.get(name) for name in columns}


def matches(expected: StepExpect, ended: HistoryRecord) -> bool:
    """Return whether a step ended as expected."""
    if expected.outcome == "any":
        return True
    if expected.rejected is not None:
        return ended.kind == "rejected" and (ended.conflict or {}).get("kind") == expected.rejected
    if expected.error is not None:
        failed = ended.kind in ("rejected", "error")
        codes = {ended.sqlstate, str(ended.number)}
        return failed and bool({expected.error, sqlstate_of(expected.error)} & codes)
    if expected.outcome in ("in_doubt", "rolled back"):
        return ended.kind == expected.outcome.replace(" ", "_")
    return ended.kind == "ok"


def wanted_text(expected: StepExpect) -> str:
    """Return the expected outcome of a step in the words of an expectation."""
    if expected.rejected is not None:
        return f"rejected: {expected.rejected}"
    if expected.error is not None:
        return f"error: {expected.error}"
    return (expected.outcome or "ok").replace("_", " ")


def in_short(text: str) -> str:
    """Return a text short enough to stand beside an order's name: a long one without the message in parentheses."""
    return text if len(text) <= _NOTE_MAX else text.partition(" (")[0]


def failure_kind(ended: HistoryRecord) -> str:
    """Return the kind of failure that an unexpected outcome of a step is."""
    if ended.kind == "timed_out" or (ended.conflict or {}).get("kind") == "deadlock":
        return "liveness"
    return "unknown" if ended.kind == "in_doubt" else "safety"


def holder(blocked: HistoryRecord) -> str:
    """Return what a blocked step waits for: the name of a step or a session, a gid, a process, or a lock."""
    wait = blocked.wait or {}
    if wait.get("step"):
        return str(wait["step"])
    who = wait.get("session") or wait.get("gid") or (wait.get("pid") and f"pid {wait['pid']}")
    return str(who or wait.get("lock"))
