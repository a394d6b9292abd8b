"""Backup and restore of a node's tables, like the files of a database: versions, keys and sequences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twopc.sim.model.node.heap import HeapRow, HeapTable, Version

if TYPE_CHECKING:
    from twopc.sim.model.node.node import ModelNode


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptTable:
    """The backup of a table."""

    versions: tuple[Version, ...]
    """The committed versions, without the transactions that end them later."""
    next_tid: int
    nexts: tuple[int, ...]
    """Next value of each column's sequence."""


def back_up(node: ModelNode) -> Mapping[str, KeptTable]:
    """Return the committed content of each table. No transaction is open at the node."""
    return {
        name: KeptTable(
            versions=tuple(_copy(version) for version in table.newest()),
            next_tid=table.next_tid,
            nexts=tuple(column.next for column in table.columns),
        )
        for name, table in node.tables.items()
        if not table.temporary
    }


def restore(node: ModelNode, kept: Mapping[str, KeptTable]) -> None:
    """Restore the tables; no trigger fires, and no constraint is checked. No transaction is open at the node."""
    for name, each in kept.items():
        _restore(node.tables[name], each)
    node.notify_rows_written()
    node.notify_access("tables", changed=True)


def _restore(table: HeapTable, kept: KeptTable) -> None:
    table.all_rows.clear()
    for index in table.indexes:
        index.entries.clear()
    for version in kept.versions:
        row = HeapRow(table)
        row.versions.append(_copy(version))
        table.all_rows[row] = None
        for index in table.indexes:
            index.add(row, version.values)
    table.next_tid = kept.next_tid
    for column, following in zip(table.columns, kept.nexts, strict=True):
        column.next = following


def _copy(version: Version) -> Version:
    return Version(version.tid, version.values, version.xmin, version.cmin)
