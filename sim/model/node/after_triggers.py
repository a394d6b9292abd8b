"""Work after a statement's rows are changed, in order: foreign keys, triggers, and checks deferred to the commit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from twopc.sim.model.node import constraints, rows
from twopc.sim.model.node.constraints import ModelForeignKey
from twopc.sim.model.node.heap import HeapRow, HeapTable
from twopc.sim.model.node.row_locks import take
from twopc.sim.model.node.triggers import RowEvent, before_statement, firing
from twopc.sim.model.values import RowChange, SqlError, Steps, Values

if TYPE_CHECKING:
    from twopc.sim.model.node.tx import OpenTx


def after_statement(
    tx: OpenTx, table: HeapTable, operation: str, events: list[RowEvent], *, updates: bool = False
) -> Steps[None]:
    """Check the foreign keys of a statement's rows and fire the after triggers. `events` grows while this runs.

    Args:
        updates: whether an INSERT may update instead, so that triggers of both operations fire.
    """
    own: dict[str, list[RowChange]] = {}
    if table.fires_by_statement:
        own = {"upd": [], "ins": []} if updates else {operation: []}
        for event in events:
            if type(event) is RowEvent and event.table is table:
                own[event.operation].append(event.change())
        for each, changes in own.items():
            if changes:
                for trigger in firing(tx, table, "after rows", each):
                    yield from trigger.fire(tx, table.name, changes)
    for event in events:
        if type(event) is RowEvent:
            yield from _after_row(tx, event)
        else:  # a deferred check of a unique key
            yield from event.fire(tx)  # type: ignore[attr-defined]
    for each, changes in own.items():
        for trigger in firing(tx, table, "after statement", each):
            yield from trigger.fire(tx, table.name, changes)
    events.clear()


def _after_row(tx: OpenTx, event: RowEvent) -> Steps[None]:
    table, operation = event.table, event.operation
    if not tx.replica:
        for key in table.references:
            if operation != "del" and (
                event.old is None or key.key(event.old) != key.key(event.new or ())
            ):
                check = ChildCheck(key, event.new or (), event.row)
                if key.deferrable and key.deferred != tx.made_otherwise(key.name):
                    tx.top.deferred.append(check)
                else:
                    yield from check.fire(tx)
        for key in table.referenced:
            if operation == "ins" or event.old is None:
                continue
            old = key.index.key(event.old)
            if operation == "upd" and key.index.key(event.new or ()) == old:
                continue
            action = key.on_delete if operation == "del" else key.on_update
            gone = ParentCheck(key, old, event.new, action)
            late = key.deferrable and key.deferred != tx.made_otherwise(key.name)
            if action == "no action" and late:
                tx.top.deferred.append(gone)
            else:
                yield from gone.fire(tx)
    if table.triggers:
        for trigger in firing(tx, table, "after row", operation):
            yield from trigger.fire(tx, table.name, (event.change(),))
        for trigger in firing(tx, table, "deferred", operation):
            tx.top.deferred.append(_Deferred(trigger, event))


class _Deferred:
    """A firing of a constraint trigger, deferred to the commit."""

    __slots__ = ("event", "trigger")

    def __init__(self, trigger: Any, event: RowEvent) -> None:
        self.trigger = trigger
        self.event = event

    def fire(self, tx: OpenTx) -> Steps[None]:
        """Fire the trigger for the row."""
        yield from self.trigger.fire(tx, self.event.table.name, (self.event.change(),))


class ChildCheck:
    """Check that the row to which a foreign key refers exists."""

    __slots__ = ("key", "row", "values")

    def __init__(self, key: ModelForeignKey, values: Values, row: HeapRow) -> None:
        self.key = key
        self.values = values
        self.row = row

    def fire(self, tx: OpenTx) -> Steps[None]:
        """Raise 23503 if the referenced row is missing."""
        yield from constraints.check_child(tx, self.key, self.values, self.row)


class ParentCheck:
    """Check, or referential action, for a referenced key that has been removed or changed."""

    __slots__ = ("action", "key", "new", "old")

    def __init__(self, key: ModelForeignKey, old: Values, new: Values | None, action: str) -> None:
        self.key = key
        self.old = old
        self.new = new
        self.action = action

    def fire(self, tx: OpenTx) -> Steps[None]:
        """Raise 23503 if rows still refer to the key, or perform the action of ON DELETE or ON UPDATE."""
        key = self.key
        if self.action == "no action" and self._key_exists_again(tx):
            return
        acts = self.action not in ("no action", "restrict")
        operation = "del" if self.action == "cascade" and self.new is None else "upd"
        if acts:
            yield from before_statement(tx, key.child, operation)
        snap = constraints.fresh(tx)
        events: list[RowEvent] = []
        strict = tx.top.snapshot
        for row, version in constraints.children(tx, key, self.old, snap):
            if not acts:
                got = yield from take(tx, row, version, 1, snap)
                if got is not None and key.key(got.values) == self.old:
                    raise key.referenced(self.old, restrict=self.action == "restrict")
                continue
            if (
                strict is not None
                and strict.version(row) is not version
                and version.xmin.top is not tx.top
            ):
                raise SqlError("40001", "could not serialize access due to concurrent update")
            if operation == "del":
                yield from rows.delete(tx, key.child, row, version, snap, self._matches, events)
            else:
                yield from rows.update(
                    tx, key.child, row, version, snap, self._replacement, self._matches, events
                )
        if acts:
            yield from after_statement(tx, key.child, operation, events)

    def _matches(self, values: Values) -> bool:
        return self.key.key(values) == self.old

    def _replacement(self, values: Values) -> Values:
        key = self.key
        there: Values
        if self.action == "cascade":
            there = key.index.key(self.new or ())
        else:
            there = (None,) * len(key.places)
        new = list(values)
        for place, value in zip(key.places, there, strict=True):
            column = key.child.columns[place]
            new[place] = (
                column.default(None) if self.action == "set default" and column.default else value
            )
        return tuple(new)

    def _key_exists_again(self, tx: OpenTx) -> bool:
        snap = constraints.fresh(tx)
        return any(
            (version := snap.version(row)) is not None
            and self.key.index.key(version.values) == self.old
            for row in self.key.index.entries.get(self.old, ())
        )
