"""Statements on several rows without SQL: one command each, with its triggers, in the order of the given rows.

Implements the effects of ``update … from unnest(…)``, ``delete … using unnest(…)``, ``insert … select … from
unnest(…)`` and ``select … for update`` in the product's procedures. Independent of replication.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from twopc.sim.model.node import rows
from twopc.sim.model.node.after_triggers import after_statement
from twopc.sim.model.node.heap import HeapTable, Index
from twopc.sim.model.node.modes import ROW_EXCLUSIVE, ROW_SHARE, UPDATE
from twopc.sim.model.node.row_locks import take
from twopc.sim.model.node.snapshots import CommitSnapshot
from twopc.sim.model.node.triggers import RowEvent, before_statement
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.values import Steps, Values

#: Key of a row, condition on its newest version, and function that computes the new values.
Change = tuple[Values, Callable[[Values], bool], Callable[[Values], Values]]


def update(
    tx: OpenTx, table: HeapTable, changes: Sequence[Change], *, names_keys: bool = False
) -> Steps[int]:
    """Update rows by key, and return their number.

    Args:
        names_keys: see `twopc.sim.model.node.rows.update`.
    """
    yield from tx.lock_table(table, ROW_EXCLUSIVE)
    snap = tx.statement()
    events: list[RowEvent] = []
    yield from before_statement(tx, table, "upd")
    done = 0
    for key, when, compute in changes:
        tx.read(table, (key,), exists=True)
        result = tx.find(table, key, snap)
        if result is None or not when(result[1].values):
            continue
        changed = yield from rows.update(
            tx, table, *result, snap, compute, matching(table, key, when), events,
            names_keys=names_keys,
        )  # fmt: skip
        done += changed is not None
    yield from after_statement(tx, table, "upd", events)
    return done


def delete(
    tx: OpenTx, table: HeapTable, requested: Sequence[tuple[Values, Callable[[Values], bool]]]
) -> Steps[int]:
    """Delete rows by key, and return their number."""
    yield from tx.lock_table(table, ROW_EXCLUSIVE)
    snap = tx.statement()
    events: list[RowEvent] = []
    yield from before_statement(tx, table, "del")
    done = 0
    for key, when in requested:
        tx.read(table, (key,), exists=True)
        result = tx.find(table, key, snap)
        if result is None or not when(result[1].values):
            continue
        gone = yield from rows.delete(tx, table, *result, snap, matching(table, key, when), events)
        done += gone is not None
    yield from after_statement(tx, table, "del", events)
    return done


def insert(tx: OpenTx, table: HeapTable, new: Iterable[Values]) -> Steps[int]:
    """Insert rows, and return how many were stored."""
    yield from tx.lock_table(table, ROW_EXCLUSIVE)
    snap = tx.statement()
    events: list[RowEvent] = []
    yield from before_statement(tx, table, "ins")
    done = 0
    for values in new:
        stored = yield from rows.insert(tx, table, values, snap, events)
        done += stored is not None
    yield from after_statement(tx, table, "ins", events)
    return done


def lock(tx: OpenTx, table: HeapTable, keys: Iterable[Values]) -> Steps[None]:
    """``select … for update`` by key."""
    yield from tx.lock_table(table, ROW_SHARE)
    snap = tx.statement()
    for key in keys:
        result = tx.find(table, key, snap)
        tx.read(table, (key,), exists=result is not None)
        if result is not None:
            yield from take(tx, *result, UPDATE, snap)


def matching(
    table: HeapTable, key: Values, when: Callable[[Values], bool]
) -> Callable[[Values], bool]:
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
