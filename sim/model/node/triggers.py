"""Which triggers fire under which role, and those that fire before a row and before a statement.

What a trigger does is its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twopc.sim.model.node.heap import HeapRow, HeapTable
from twopc.sim.model.values import RowChange, Steps, Values

if TYPE_CHECKING:
    from twopc.sim.model.node.tx import OpenTx


class RowEvent:
    """A row was changed; something comes of it."""

    __slots__ = ("new", "old", "operation", "row", "table")

    def __init__(
        self, table: HeapTable, operation: str, old: Values | None, new: Values | None, row: HeapRow
    ) -> None:
        self.table = table
        self.operation = operation
        self.old = old
        self.new = new
        self.row = row

    def change(self) -> RowChange:
        """As triggers are told it."""
        return RowChange(
            table=self.table.name,
            operation=self.operation,  # type: ignore[arg-type] # one of three
            old=self.old,
            new=self.new,
        )


def firing(tx: OpenTx, table: HeapTable, when: str, operation: str) -> list[Any]:
    """Triggers of a kind that fire now, by name."""
    result = table.triggers_of.get((when, operation))
    if result is None:
        return []
    here = "replica" if tx.replica else "origin"
    return [trigger for trigger in result if trigger.fires == here or trigger.fires == "always"]


def before_row(
    tx: OpenTx, table: HeapTable, operation: str, old: Values | None, new: Values | None
) -> Steps[Values | None]:
    """What is to be stored (for a delete, the old row); None to leave the row alone."""
    for trigger in firing(tx, table, "before row", operation):
        change = RowChange(table=table.name, operation=operation, old=old, new=new)  # type: ignore[arg-type] # one of three
        back: Sequence[RowChange] | None = yield from trigger.fire(tx, table.name, (change,))
        if back is None:
            continue
        if not back:
            return None
        if operation != "del":
            new = back[0].new
    return old if operation == "del" else new


def before_statement(tx: OpenTx, table: HeapTable, operation: str) -> Steps[None]:
    """Triggers before the first row."""
    for trigger in firing(tx, table, "before statement", operation):
        yield from trigger.fire(tx, table.name, ())
