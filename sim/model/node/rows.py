"""Changes of one row: keys, constraints, triggers, and the change itself. For locking see `row_locks`.

Statements (`twopc.sim.model.sql`) and calls without SQL (`tx.OpenTx`) both use this module, which knows neither SQL
nor sessions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from twopc.sim.model.node import constraints
from twopc.sim.model.node.heap import HeapRow, HeapTable, Version
from twopc.sim.model.node.modes import NO_KEY_UPDATE, UPDATE
from twopc.sim.model.node.row_locks import modified_by_itself, take
from twopc.sim.model.node.snapshots import CommitSnapshot
from twopc.sim.model.node.triggers import RowEvent, before_row
from twopc.sim.model.values import Steps, Values

if TYPE_CHECKING:
    from twopc.sim.model.node.tx import OpenTx


def update(
    tx: OpenTx, table: HeapTable, row: HeapRow, version: Version, snap: CommitSnapshot,
    compute: Callable[[Values], Values], matches: Callable[[Values], bool],
    events: list[RowEvent], *, names_keys: bool = False,
) -> Steps[tuple[Values, Values] | None]:  # fmt: skip
    """Update a row; return its old and new values, or None if the row is gone or no longer matches.

    Args:
        names_keys: whether the statement assigns a key's column, even to its old value: before a BEFORE trigger the
            row is then locked as if its key changed.
    """
    if modified_by_itself(tx, row, version, snap):
        return None
    places = table.key_places
    has_trigger = ("before row", "upd") in table.triggers_of
    while True:
        old = version.values
        new = compute(old)
        keys = _differ(old, new, places)
        mode = UPDATE if keys or (names_keys and has_trigger) else NO_KEY_UPDATE
        got = yield from take(tx, row, version, mode, snap)
        if got is None:
            return None
        if got is version:
            break
        version = got
        if not matches(version.values):
            return None
    if has_trigger:
        stored = yield from before_row(tx, table, "upd", old, new)
        if stored is None:
            return None
        if modified_by_itself(tx, row, version, snap):
            return None
        if stored is not new:
            new = stored
            if not keys and _differ(old, new, places):
                keys = True
                yield from take(tx, row, version, UPDATE, snap)
    constraints.check_row(table, new)
    if tx.top.ssi is not None:
        tx.wrote(table, [version.values, new], placed=keys)
    if keys or not table.simple:
        changed = [
            index
            for index in table.indexes
            if index.where is not None or index.key(old) != index.key(new)
        ]
        yield from constraints.enter_keys(tx, table, changed, new, row, events)
    table.replace(row, new, tx.sub, snap.cid, keys=keys)
    top = tx.top
    top.changes.append((table, "upd", old, new))
    top.rows.append(row)
    if not table.plain:
        events.append(RowEvent(table, "upd", old, new, row))
    return old, new


def delete(
    tx: OpenTx, table: HeapTable, row: HeapRow, version: Version, snap: CommitSnapshot,
    matches: Callable[[Values], bool], events: list[RowEvent],
) -> Steps[Values | None]:  # fmt: skip
    """Delete a row; return its values, or None if the row is gone or no longer matches."""
    if modified_by_itself(tx, row, version, snap):
        return None
    while True:
        got = yield from take(tx, row, version, UPDATE, snap)
        if got is None:
            return None
        if got is version:
            break
        version = got
        if not matches(version.values):
            return None
    old = version.values
    if ("before row", "del") in table.triggers_of:
        stored = yield from before_row(tx, table, "del", old, None)
        if stored is None or modified_by_itself(tx, row, version, snap):
            return None
    if tx.top.ssi is not None:
        tx.wrote(table, [old], placed=False)
    table.delete(row, tx.sub, snap.cid)
    top = tx.top
    top.changes.append((table, "del", old, None))
    top.rows.append(row)
    if not table.plain:
        events.append(RowEvent(table, "del", old, None, row))
    return old


def insert(
    tx: OpenTx, table: HeapTable, new: Values, snap: CommitSnapshot, events: list[RowEvent],
    arbiter: Callable[[Values], Steps[bool]] | None = None,
) -> Steps[Values | None]:  # fmt: skip
    """Insert a row; return the stored values, or None if a trigger or the arbiter (ON CONFLICT) suppressed it."""
    tx.assign()
    if ("before row", "ins") in table.triggers_of:
        stored = yield from before_row(tx, table, "ins", None, new)

        if stored is None:
            return None
        new = stored
    constraints.check_row(table, new)
    if arbiter is not None and not (yield from arbiter(new)):
        return None
    if tx.top.ssi is not None:
        tx.wrote(table, [new], placed=True)
    if not constraints.are_free(table.indexes, new):
        yield from constraints.enter_keys(tx, table, table.indexes, new, None, events)
    row = table.insert(new, tx.sub, snap.cid)
    tx.top.changes.append((table, "ins", None, new))
    if not table.plain:
        events.append(RowEvent(table, "ins", None, new, row))
    return new


def _differ(old: Values, new: Values, places: frozenset[int]) -> bool:
    for place in places:  # noqa: SIM110 - in any order; any() costs more
        if old[place] != new[place]:
            return True
    return False


def visible(tx: OpenTx, table: HeapTable, snap: CommitSnapshot) -> list[tuple[HeapRow, Version]]:
    """Return all rows that a statement sees, in the order of the heap."""
    results = []
    in_order, last = True, 0
    for row in table.all_rows:
        version = snap.version(row)
        if version is not None:
            results.append((row, version))
            in_order = in_order and version.tid > last
            last = version.tid
    if not in_order:
        results.sort(key=_tid)
    return results


def _tid(pair: tuple[HeapRow, Version]) -> int:
    return pair[1].tid
