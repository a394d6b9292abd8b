"""The fold of rows whose keys change, in the order of the commands. Runs on executors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow

from twopc.sim.spark import shapes

_STATE = shapes.arrow_schema(shapes.STATE)
#: Number of rows in a batch.
_BATCH = 10_000

Key = tuple[int, tuple[str | None, ...]]


@dataclass(slots=True)
class _OrderedRow:
    values: list[str | None]
    seqno: int
    command_id: int
    commands: int
    complete: bool


def fold_in_order(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
    """Yield `shapes.STATE` from commands in order.

    Several rows may have one key for a while: ``k = k + 1`` moves the first row to the key of the second before the
    second has moved. The next command on that key then refers to the row that had it first, as that row has to
    move.

    Args:
        batches: with `article_id`, `seqno`, `command_id`, `operation`, `key`, `new_key`, `values`, `changed`.
    """
    rows: dict[Key, list[_OrderedRow]] = {}
    for batch in batches:
        for command in batch.to_pylist():
            _apply(rows, command)
    yield from _batches(rows)


def _apply(rows: dict[Key, list[_OrderedRow]], command: dict[str, Any]) -> None:
    article, operation = command["article_id"], command["operation"]
    at: Key = (article, tuple(command["key"]))
    there = rows.get(at, [])
    if operation in ("base", "ins"):
        row = _OrderedRow(list(command["values"]), -1, 0, 0, True)
        if operation == "ins":
            _count(row, command)
        rows.setdefault(at, []).append(row)
        return
    result = there.pop(0) if there else None
    if not there:
        rows.pop(at, None)
    if operation == "del":
        return
    if result is None:
        result = _OrderedRow([None] * len(command["values"]), -1, 0, 0, False)
    for place, (value, changed) in enumerate(
        zip(command["values"], command["changed"], strict=True)
    ):
        if changed:
            result.values[place] = value
    _count(result, command)
    moved: Key = (article, tuple(command["new_key"]))
    if moved == at:
        rows.setdefault(at, []).insert(0, result)
    else:
        rows.setdefault(moved, []).append(result)


def _count(row: _OrderedRow, command: dict[str, Any]) -> None:
    row.seqno, row.command_id = command["seqno"], command["command_id"]
    row.commands += 1


def _batches(rows: dict[Key, list[_OrderedRow]]) -> Iterator[pyarrow.RecordBatch]:
    made: list[dict[str, Any]] = []
    for (article, key), there in rows.items():
        for row in there:
            made.append(
                {
                    "article_id": article,
                    "key": list(key),
                    "values": row.values,
                    "seqno": row.seqno,
                    "command_id": row.command_id,
                    "commands": row.commands,
                    "complete": row.complete,
                }
            )
            if len(made) == _BATCH:
                yield pyarrow.RecordBatch.from_pylist(made, schema=_STATE)
                made = []
    if made:
        yield pyarrow.RecordBatch.from_pylist(made, schema=_STATE)
