"""Statements on several rows without SQL: one command each, with its triggers, in the order of the given rows.

They have the effects of ``update … from unnest(…)``, ``delete … using unnest(…)``, ``insert … select … from unnest(…)``
and ``select … for update`` in the product's procedures. Each returns the rows that it has changed or locked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from twopc.sim.model.node import rows
from twopc.sim.model.node.after_triggers import after_statement
from twopc.sim.model.node.heap import HeapTable, Index
from twopc.sim.model.node.modes import ROW_EXCLUSIVE, ROW_SHARE, UPDATE
from twopc.sim.model.node.row_locks import take
from twopc.sim.model.node.snapshots import CommitSnapshot
from twopc.sim.model.node.triggers import RowEvent, before_statement
from twopc.sim.model.values import Steps, Values

if TYPE_CHECKING:
    from twopc.sim.model.node.tx import OpenTx

Predicate = Callable[[Values], bool]
#: Key of a row, condition on its newest version, and function that computes the new values.
Change = tuple[Values, Predicate, Callable[[Values], Values]]


def any_row(values: Values) -> bool:
    """Return True: a condition that every row fulfils."""
    return True


def update(
    tx: OpenTx, table: HeapTable, changes: Iterable[Change], *, names_keys: bool = False
) -> Steps[list[Values]]:
    """Update rows by key, and return their new values.

    Args:
        names_keys: see `twopc.sim.model.node.rows.update`.
    """
    yield from tx.lock_table(table, ROW_EXCLUSIVE)
    snap = tx.statement()
    events: list[RowEvent] = []
    yield from before_statement(tx, table, "upd")
    done = []
    for key, when, compute in changes:
        tx.read(table, (key,), exists=True)
        result = tx.find(table, key, snap)
        if result is None or not when(result[1].values):
            continue
        changed = yield from rows.update(
            tx, table, *result, snap, compute, _matching(table, key, when), events,
            names_keys=names_keys,
        )  # fmt: skip
        if changed is not None:
            done.append(changed[1])
    yield from after_statement(tx, table, "upd", events)
    return done


def delete(
    tx: OpenTx, table: HeapTable, requested: Iterable[tuple[Values, Predicate]]
) -> Steps[list[Values]]:
    """Delete rows by key, and return their values."""
    yield from tx.lock_table(table, ROW_EXCLUSIVE)
    snap = tx.statement()
    events: list[RowEvent] = []
    yield from before_statement(tx, table, "del")
    done = []
    for key, when in requested:
        tx.read(table, (key,), exists=True)
        result = tx.find(table, key, snap)
        if result is None or not when(result[1].values):
            continue
        gone = yield from rows.delete(tx, table, *result, snap, _matching(table, key, when), events)
        if gone is not None:
            done.append(gone)
    yield from after_statement(tx, table, "del", events)
    return done


def insert(tx: OpenTx, table: HeapTable, new: Iterable[Values]) -> Steps[list[Values]]:
    """Insert rows, and return those that were stored."""
    yield from tx.lock_table(table, ROW_EXCLUSIVE)
    snap = tx.statement()
    events: list[RowEvent] = []
    yield from before_statement(tx, table, "ins")
    done = []
    for values in new:
        stored = yield from rows.insert(tx, table, values, snap, events)
        if stored is not None:
            done.append(stored)
    yield from after_statement(tx, table, "ins", events)
    return done


def lock(tx: OpenTx, table: HeapTable, keys: Iterable[Values]) -> Steps[list[Values]]:
    """``select … for update`` by key, with the re-check of READ COMMITTED; return the rows that still have the key."""
    yield from tx.lock_table(table, ROW_SHARE)
    snap = tx.statement()
    done = []
    for key in keys:
        result = tx.find(table, key, snap)
        tx.read(table, (key,), exists=result is not None)
        if result is not None:
            got = yield from take(tx, *result, UPDATE, snap)
            if got is not None and _matching(table, key, any_row)(got.values):
                done.append(got.values)
    return done


def _matching(table: HeapTable, key: Values, when: Predicate) -> Predicate:
    """Return a predicate: whether a row has the key and satisfies the condition."""
    index = table.primary
    assert index is not None
    return lambda values: index.key(values) == key and when(values)


def seen(
    tx: OpenTx, table: HeapTable, index: Index, key: Values, snap: CommitSnapshot
) -> list[Values]:
    """Return the rows with a unique key that a snapshot sees."""
    results = []
    for row in index.entries.get(key, ()):
        version = snap.version(row)
        if version is not None and index.key(version.values) == key:
            results.append(version.values)
    return results
