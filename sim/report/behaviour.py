"""What an order came to, apart from when: two orders with the same behaviour teach the same.

How each step ended, who waited for whom, how each session ended, and the rows at the end. What differs
from run to run though nothing is different is left out: times, gids, processes, row versions. A pure
function of the records.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twopc.names import PREFIX, VERSION_COLUMN
from twopc.sim.report.history import ENDS, HistoryRecord

#: Values that are new in every run, and what stands for them.
_FRESH = (
    (re.compile(rf"\b{PREFIX}:[\w.]+:\d+:\d+(?::[\w/.]+)?"), "<gid>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
    (
        re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:[+-]\d\d(?::?\d\d)?|Z)?"),
        "<time>",
    ),
)


def behaviour(records: Sequence[HistoryRecord]) -> tuple[str, ...]:
    """What one order's records came to, in sentences that do not depend on the order of independent steps.

    Of a load only that it was one: no two of them go the same way.
    """
    if any(record.kind == "load" for record in reversed(records)):
        return ("load",)
    return tuple(sorted({text for _, text in events(records)}))


def fingerprint(records: Sequence[HistoryRecord]) -> str:
    """The behaviour in twelve characters."""
    return hashlib.sha256("\n".join(behaviour(records)).encode()).hexdigest()[:12]


def events(records: Sequence[HistoryRecord]) -> Iterator[tuple[HistoryRecord, str]]:
    """Each record that belongs to the behaviour, in words that are the same in every run."""
    waited: set[tuple[str, str]] = set()
    for record in records:
        who = (record.session, record.step)
        if record.kind == "blocked":
            if who not in waited and (record.wait or {}).get("session"):
                waited.add(who)  # who holds the lock later depends on when one looks
                yield record, _wait(record)
        elif record.kind in ENDS and record.step and record.kind != "explain":
            yield record, f"{record.session or 'agents'} {record.step}: {_end(record)}"
        elif record.kind == "outcome":
            yield record, f"{record.session}: {record.message}"
        elif record.kind == "state" and (record.data or {}).get("moment") == "final":
            content = _content(record.rows or ())
            table = (record.data or {}).get("table")
            yield record, f"{table} at {record.node}: {record.rowcount} {content}"


def stable(text: str) -> str:
    """`text` without what is new in every run."""
    for pattern, word in _FRESH:
        text = pattern.sub(word, text)
    return text


def _end(record: HistoryRecord) -> str:
    """How a step ended."""
    if record.kind == "rejected":
        return f"rejected {(record.conflict or {}).get('kind')}"
    if record.kind == "error":
        return f"error {record.sqlstate}".rstrip()
    if record.kind != "ok":
        return record.kind
    if record.rows is not None:
        return f"ok {record.rowcount} {_content(record.rows)}"
    return f"ok {record.rowcount}" if record.rowcount is not None and record.rowcount >= 0 else "ok"


def _wait(record: HistoryRecord) -> str:
    wait = record.wait or {}
    holder = f"{wait.get('session')} {wait.get('step', '')}".rstrip()
    return f"{record.session or 'agents'} {record.step} waits for {holder} at {wait.get('node')}"


def _content(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows without their versions, in a form in which equal rows are equal text."""
    bare = [{name: value for name, value in row.items() if name != VERSION_COLUMN} for row in rows]
    return stable(json.dumps(bare, ensure_ascii=False, default=str))
