"""Selection of the triggers that fire, and triggers before a row and before a statement.

The action of a trigger is in its own `fire`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twopc.sim.model.node.heap import HeapRow, HeapTable
from twopc.sim.model.values import RowChange, Steps, Values

if TYPE_CHECKING:
    from twopc.sim.model.node.tx import OpenTx


class RowEvent:
    """A change of a row that has checks or triggers after it."""

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
        """Return the change as triggers receive it."""
        return RowChange(
            table=self.table.name,
            operation=self.operation,  # type: ignore[arg-type] # one of three
            old=self.old,
            new=self.new,
        )


def firing(tx: OpenTx, table: HeapTable, when: str, operation: str) -> list[Any]:
    """Return the triggers of a kind that fire in the session's replication role, by name."""
    result = table.triggers_of.get((when, operation))
    if result is None:
        return []
    here = "replica" if tx.replica else "origin"
    return [trigger for trigger in result if trigger.fires == here or trigger.fires == "always"]


def before_row(
    tx: OpenTx, table: HeapTable, operation: str, old: Values | None, new: Values | None
) -> Steps[Values | None]:
    """Fire the triggers before a row.

    Return the values to store (for a delete, the old row); None if a trigger suppresses the change.
    """
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
    """Fire the triggers before a statement."""
    for trigger in firing(tx, table, "before statement", operation):
        yield from trigger.fire(tx, table.name, ())
