"""The behaviour of an order, apart from timing.

The behaviour consists of the end of each step, the waits, the outcome of each session and the rows at the end.
Values
that differ in every run are left out: times, gids, processes, row versions. A pure function of the events.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from twopc.names import PREFIX, VERSION_COLUMN
from twopc.sim.report.event_records import event_of, is_load
from twopc.sim.report.events import (
    AuthorNote,
    HistoryEvent,
    SessionOutcome,
    StepEnd,
    StepError,
    StepRefusal,
    StepSuccess,
    TableLook,
    WaitStart,
)
from twopc.sim.report.history import HistoryRecord

#: Values that differ in every run, and their replacements.
_FRESH = (
    (re.compile(rf"\b{PREFIX}:[\w.]+:\d+:\d+(?::[\w/.]+)?"), "<gid>"),
    (re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "<uuid>"),
    (
        re.compile(r"\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?(?:[+-]\d\d(?::?\d\d)?|Z)?"),
        "<time>",
    ),
)


def behaviour(records: Sequence[HistoryRecord]) -> tuple[str, ...]:
    """Return the behaviour of one order, in sentences that do not depend on the order of independent steps.

    A load's behaviour is only ``load``, as no two runs of a load are alike.
    """
    if is_load(records):
        return ("load",)
    return tuple(sorted({text for _, text in in_words(map(event_of, records))}))


def fingerprint(records: Sequence[HistoryRecord]) -> str:
    """Return a hash of the behaviour, twelve characters long."""
    return hashlib.sha256("\n".join(behaviour(records)).encode()).hexdigest()[:12]


def in_words(events: Iterable[HistoryEvent]) -> Iterator[tuple[HistoryEvent, str]]:
    """Yield each event that belongs to the behaviour, with a text that is the same in every run."""
    waited: set[tuple[str, str]] = set()
    for event in events:
        who = (event.session, event.step)
        match event:
            case WaitStart():
                if who not in waited and event.holder:
                    waited.add(who)  # the later holder depends on the time of observation
                    yield event, _wait(event)
            case StepEnd() if event.step and not isinstance(event, AuthorNote):
                yield event, f"{event.session or 'agents'} {event.step}: {_end(event)}"
            case SessionOutcome():
                yield event, f"{event.session}: {event.message}"
            case TableLook(moment="final"):
                content = _content(event.rows)
                yield event, f"{event.table} at {event.node}: {event.rowcount} {content}"


def stable(text: str) -> str:
    """Return `text` with the values that differ in every run replaced."""
    for pattern, word in _FRESH:
        text = pattern.sub(word, text)
    return text


def _end(ended: StepEnd) -> str:
    """Return the end of a step as text."""
    if isinstance(ended, StepRefusal):
        return f"rejected {ended.conflict.get('kind')}"
    if isinstance(ended, StepError):
        return f"error {ended.sqlstate}".rstrip()
    if not isinstance(ended, StepSuccess):
        return ended.kind
    if ended.rows is not None:
        return f"ok {ended.rowcount} {_content(ended.rows)}"
    return f"ok {ended.rowcount}" if ended.rowcount is not None and ended.rowcount >= 0 else "ok"


def _wait(event: WaitStart) -> str:
    wait = event.wait
    holder = f"{wait.get('session')} {wait.get('step', '')}".rstrip()
    return f"{event.session or 'agents'} {event.step} waits for {holder} at {wait.get('node')}"


def _content(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows without their versions as text; equal rows have equal text."""
    bare = [{name: value for name, value in row.items() if name != VERSION_COLUMN} for row in rows]
    return stable(json.dumps(bare, ensure_ascii=False, default=str))
