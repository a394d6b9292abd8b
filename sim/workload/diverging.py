"""What came out otherwise than it was recorded: rows at the end. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twopc.names import VERSION_COLUMN
from twopc.sim.report.history import ROWS_MAX, Record


def final(records: Sequence[Record]) -> list[Record]:
    """The tables at the end, of a history."""
    return [
        each
        for each in records
        if each.kind == "state" and (each.data or {}).get("moment") == "final"
    ]


def states(expected: Sequence[Record], records: Sequence[Record]) -> Iterator[dict[str, Any]]:
    """Rows at nodes that both know, without their versions; of a long table only whether its sums are the same.

    Args:
        expected: `final` of a recording.
        records: of another history.

    Returns:
        ``class``, ``article``, ``call`` (the node), ``key`` if it is about one row, ``expected`` and ``actual``.
    """
    there = {_place(each): each for each in final(records)}
    for was in expected:
        now = there.get(_place(was))
        if now is None:
            continue
        node, table = _place(was)
        about = {"class": "state", "article": table, "call": f"at {node}"}
        if max(was.rowcount or 0, now.rowcount or 0) > ROWS_MAX:
            sums = [_sums(each) for each in (was, now)]
            if sums[0] != sums[1]:
                yield {**about, "expected": sums[0], "actual": sums[1]}
            continue
        mine, other = _by_key(was), _by_key(now)
        for key in sorted(mine.keys() | other.keys()):
            if mine.get(key) != other.get(key):
                yield {
                    **about,
                    "key": list(key),
                    "expected": _row(mine.get(key)),
                    "actual": _row(other.get(key)),
                }


def _place(record: Record) -> tuple[str, str]:
    return record.node, str((record.data or {})["table"])


def _sums(record: Record) -> str:
    sums = (record.data or {}).get("sums")
    return f"{record.rowcount} rows, sums {json.dumps(sums, default=str)}"


def _by_key(record: Record) -> dict[tuple[str, ...], dict[str, Any]]:
    keys = (record.data or {})["key"]
    return {
        tuple(str(row[each]) for each in keys): {
            name: str(value) for name, value in row.items() if name != VERSION_COLUMN
        }
        for row in record.rows or ()
    }


def _row(values: Mapping[str, str] | None) -> str:
    if values is None:
        return "no row"
    return ", ".join(f"{name} '{value}'" for name, value in values.items())
