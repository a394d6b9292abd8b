"""Recorded runs: histories of real runs on PostgreSQL, and what was said of them when they were played.

``twopc run`` wrote each ``<name>.jsonl`` as ``history.jsonl`` and ``<name>.verdict.json`` as ``verdict.json``.
``failing`` is lost_update with one wrong expectation; ``stuck`` cannot go on; the others are shipped scenarios.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

from sim.report.history import Record, read
from sim.report.played import Played, played

HISTORIES = Path(__file__).parent / "histories"
NAMES = sorted(path.stem for path in HISTORIES.glob("*.jsonl"))


@functools.cache
def records(name: str) -> tuple[Record, ...]:
    """The records of one history."""
    return tuple(read(HISTORIES / f"{name}.jsonl"))


def first(name: str) -> Played:
    """The first order of one history."""
    return next(played(records(name)))


def made(*happenings: Record, **header: object) -> list[Record]:
    """A history of one order with these records, numbered: alice is at sub1, the office at pub."""
    start = [
        Record(
            seq=0,
            t_us=0,
            kind="header",
            data={"schema": 1, "scenario": "made", "file": "made.twopc.yaml", "publisher": "pub"}
            | {"subscribers": ["sub1"], **header},
        ),
        Record(
            seq=0,
            t_us=0,
            kind="order",
            order="one",
            data={"sessions": {"alice": "sub1", "office": "pub"}, "isolation": {}},
        ),
    ]
    return [_numbered(record, at) for at, record in enumerate((*start, *happenings))]


def _numbered(record: Record, at: int) -> Record:
    order = "one" if at else ""
    return dataclasses.replace(record, seq=at, t_us=at * 1000, order=order)


def sent(sql: str, *, session: str = "alice", node: str = "sub1", step: str = "s") -> Record:
    """A step is sent."""
    return Record(seq=0, t_us=0, kind="invoke", session=session, node=node, step=step, sql=sql)


def ended(
    kind: str = "ok",
    *,
    session: str = "alice",
    node: str = "sub1",
    step: str = "s",
    **fields: object,
) -> Record:
    """And ends."""
    return Record(seq=0, t_us=0, kind=kind, session=session, node=node, step=step, **fields)  # type: ignore[arg-type] # each test gives the fields that its kind has


#: Text that would be something else if it were not quoted.
HOSTILE = """</script><img src=x onerror=alert(1)> %%{init}%% "q" 'a' & #35; ; `e` \x07\x1b[31m |a|b| {}"""
