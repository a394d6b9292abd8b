"""Columns of a table that are dropped, or get another type, while the table has rows.

Outside of time, as definitions are: no open transaction has looked at the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from twopc.sim.model.node.heap import HeapColumn, HeapTable, Version

_DROPPED = "........pg.dropped."


def is_dropped(name: str) -> bool:
    """Whether a column of this name was dropped: its place is still there, but no statement means it."""
    return name.startswith(_DROPPED)


def drop_column(table: HeapTable, name: str) -> None:
    """Drop a column that no key and no constraint names. Its place stays, as in PostgreSQL: what is compiled goes by places."""
    place = table.at[name]
    table.columns[place] = HeapColumn(f"{_DROPPED}{place + 1}........", table.columns[place].type)
    table.at = {column.name: at for at, column in enumerate(table.columns)}
    _rewrite(table, place, lambda value: None)


def retype_column(table: HeapTable, name: str, type_: Any) -> None:
    """Give a column another type, which reads the values' texts.

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
