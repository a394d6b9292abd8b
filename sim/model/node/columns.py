"""Columns of a table that are dropped, or get another type, while the table has rows.

Like other definitions, outside of virtual time: no open transaction has used the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from twopc.sim.model.node.heap import HeapColumn, HeapTable, Version

_DROPPED = "........pg.dropped."


def is_dropped(name: str) -> bool:
    """Whether a column with this name was dropped: its place remains, but no statement can refer to it."""
    return name.startswith(_DROPPED)


def drop_column(table: HeapTable, name: str) -> None:
    """Drop a column that no key and no constraint uses. Its place stays, as in PostgreSQL: plans refer to places."""
    place = table.at[name]
    table.columns[place] = HeapColumn(f"{_DROPPED}{place + 1}........", table.columns[place].type)
    table.at = {column.name: at for at, column in enumerate(table.columns)}
    _rewrite(table, place, lambda value: None)


def retype_column(table: HeapTable, name: str, type_: Any) -> None:
    """Change the type of a column; existing values are converted through their texts.

    Args:
        type_: `twopc.sim.model.sql.types.SqlType`.
    """
    place = table.at[name]
    column = table.columns[place]
    before, column.type = column.type, type_

    def converted(value: Any) -> Any:
        return None if value is None else type_.store(type_.input(before.text(value)))

    _rewrite(table, place, converted)


def _rewrite(table: HeapTable, place: int, made: Callable[[Any], Any]) -> None:
    for version in _versions(table):
        values = version.values
        version.values = (*values[:place], made(values[place]), *values[place + 1 :])


def _versions(table: HeapTable) -> Iterator[Version]:
    for row in table.all_rows:
        yield from row.versions
