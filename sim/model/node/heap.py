"""Tables: rows as chains of versions, and the indexes that find rows by key.

This module knows which transactions created and ended a version, but neither visibility (`snapshots`) nor
permission to change a version (`locks`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any

from twopc.sim.model.node.transactions import Xact
from twopc.sim.model.values import Values


class Version:
    """One version of a row."""

    __slots__ = ("cmax", "cmin", "keys_updated", "tid", "values", "xmax", "xmin")

    def __init__(self, tid: int, values: Values, xmin: Xact, cmin: int) -> None:
        self.tid = tid
        self.values = values
        self.xmin = xmin
        self.cmin = cmin
        self.xmax: Xact | None = None
        """The (sub)transaction that has replaced or deleted this version."""
        self.cmax = 0
        self.keys_updated = False
        """Whether the end of this version changed a key or deleted the row."""


class HeapRow:
    """A row with all its versions, oldest first. Locks are on the row, independently of its newest version."""

    __slots__ = ("holders", "queue", "table", "versions")

    def __init__(self, table: HeapTable) -> None:
        self.table = table
        self.versions: list[Version] = []
        self.holders: dict[Xact, int] | None = None
        """Lock mode of each (sub)transaction that holds a lock on the row."""
        self.queue: Any = None
        """The waits for the row (`locks.LockQueueWait`), first come first."""


class Index:
    """A unique key: the rows that have, had, or may get each of its values."""

    __slots__ = (
        "claims",
        "constraint",
        "deferrable",
        "deferred",
        "distinct",
        "entries",
        "key",
        "name",
        "places",
        "primary",
        "where",
    )

    def __init__(
        self, name: str, places: Sequence[int], *, primary: bool = False, deferrable: bool = False,
        deferred: bool = False, distinct: bool = True,
        where: Callable[[Values], bool] | None = None,
    ) -> None:  # fmt: skip
        self.name = name
        self.places = tuple(places)
        self.key: Callable[[Values], Values] = _columns(self.places)
        """Returns the values of the key's columns in a row."""
        self.primary = primary
        self.deferrable = deferrable
        self.deferred = deferred
        """Whether the key is checked at the commit."""
        self.distinct = distinct
        """Whether nulls are distinct."""
        self.where = where
        """Condition of a partial index."""
        self.constraint = True
        """Whether the index belongs to a constraint; False after CREATE UNIQUE INDEX."""
        self.entries: dict[Values, list[HeapRow]] = {}
        self.claims: dict[Values, list[Any]] = {}
        """Transactions that have entered a key here and still wait to enter the same row in another index."""

    def add(self, row: HeapRow, values: Values) -> None:
        """Add the key of a row's new version."""
        key = self.key(values)
        rows = self.entries.get(key)
        if rows is None:
            self.entries[key] = [row]
        elif row not in rows:
            rows.append(row)

    def forget(self, row: HeapRow, values: Values) -> None:
        """Remove the key of a version that is gone, unless another version of the row has the same key."""
        key = self.key(values)
        for version in row.versions:
            if self.key(version.values) == key:
                return
        rows = self.entries.get(key)
        if rows is not None and row in rows:
            rows.remove(row)
            if not rows:
                del self.entries[key]


class HeapColumn:
    """A column: its type and its default value."""

    __slots__ = (
        "always",
        "default",
        "draws",
        "generated",
        "identity",
        "name",
        "next",
        "not_null",
        "type",
    )

    def __init__(self, name: str, type_: Any) -> None:
        self.name = name
        self.type = type_
        """A `twopc.sim.model.sql.types.SqlType`."""
        self.not_null = False
        self.default: Callable[[Any], Any] | None = None
        self.generated: Callable[[Values], Any] | None = None
        """Computes the value of a STORED generated column from its row."""
        self.identity = False
        self.next = 1
        """Next value of the column's sequence."""
        self.draws: Callable[[], int] | None = None
        """Returns the next value, instead of the column's sequence."""
        self.always = False
        """Whether the column is GENERATED ALWAYS AS IDENTITY."""


class HeapTable:
    """A table of a node."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        """Name, with the schema unless that is public: ``schema.table``."""
        self.number = number
        """Position in the order of creation."""
        self.columns: list[HeapColumn] = []
        self.at: dict[str, int] = {}
        """Place of each column."""
        self.indexes: list[Index] = []
        self.primary: Index | None = None
        self.checks: list[tuple[str, Callable[[Values], Any]]] = []
        self.references: list[Any] = []
        """Foreign keys of this table (`constraints.ModelForeignKey`)."""
        self.referenced: list[Any] = []
        """Foreign keys that refer to this table."""
        self.triggers: list[Any] = []
        """Triggers in the order of their names."""
        self.triggers_of: dict[tuple[str, str], list[Any]] = {}
        """Triggers by the time when they fire and by operation."""
        self.fires_by_statement = False
        """Whether a trigger fires once for all rows of a statement, after them."""
        self.all_rows: dict[HeapRow, None] = {}
        self.key_places: frozenset[int] = frozenset()
        """Columns whose change takes the strongest row lock."""
        self.temporary = False
        self.owner = "postgres"
        """The role that may change the table's definition, besides superusers."""
        self.granted: dict[str, set[str]] = {}
        """Roles by the right that was granted to them, for the rights that are checked."""
        self.locks: dict[Xact, int] = {}
        self.strong = 0
        """Number of transactions that hold a table lock which excludes writers."""
        self.waiting: deque[Any] = deque()
        self.next_tid = 1
        self.analyzed = False
        """Whether ANALYZE has been run, so that plans know the size of the table."""
        self.computed = False
        """Whether the table has generated columns."""
        self.plain = True
        """Whether a change has no consequences: no trigger, and no foreign key of or to this table."""
        self.simple = True
        """Whether no unique key is deferrable or partial."""

    @property
    def key(self) -> tuple[str, ...]:
        """Names of the primary key's columns."""
        return tuple(self.columns[p].name for p in self.primary.places) if self.primary else ()

    def settle(self) -> None:
        """Recompute derived attributes after a change of the definition."""
        self.key_places = frozenset(
            place for index in self.indexes if index.where is None for place in index.places
        )
        self.plain = not (self.triggers or self.references or self.referenced)
        self.simple = not any(index.deferrable or index.where for index in self.indexes)
        self.triggers_of = {}
        for trigger in self.triggers:
            for operation in trigger.operations:
                self.triggers_of.setdefault((trigger.when, operation), []).append(trigger)
        self.fires_by_statement = any(
            trigger.when in ("after rows", "after statement") for trigger in self.triggers
        )

    # -- changes: each adds its undo to the (sub)transaction -----------------------------------------

    def insert(self, values: Values, xact: Xact, cid: int) -> HeapRow:
        """Insert a row."""
        row = HeapRow(self)
        row.versions.append(Version(self.next_tid, values, xact, cid))
        self.next_tid += 1
        self.all_rows[row] = None
        for index in self.indexes:
            index.add(row, values)
        xact.undo.append((_undo_version, row, values))
        return row

    def replace(self, row: HeapRow, values: Values, xact: Xact, cid: int, *, keys: bool) -> None:
        """Add a new version of a row."""
        old = row.versions[-1]
        old.xmax, old.cmax, old.keys_updated = xact, cid, keys
        row.versions.append(Version(self.next_tid, values, xact, cid))
        self.next_tid += 1
        if keys or not self.simple:
            for index in self.indexes:
                index.add(row, values)
        xact.undo.append((_undo_replace, row, values))

    def delete(self, row: HeapRow, xact: Xact, cid: int) -> None:
        """Mark the newest version of a row as deleted."""
        old = row.versions[-1]
        old.xmax, old.cmax, old.keys_updated = xact, cid, True
        xact.undo.append((_undo_delete, row, old))

    def prune(self, row: HeapRow, seen_by_all: int) -> bool:
        """Remove versions that no snapshot can see; whether no old version remains."""
        versions = row.versions
        gone = 0
        for version in versions:
            ended = version.xmax
            if ended is None or not 0 < ended.top.commit_no <= seen_by_all:
                break
            gone += 1
        if gone:
            old = versions[:gone]
            del versions[:gone]
            if not versions:
                self.all_rows.pop(row, None)
            for version in old:
                for index in self.indexes:
                    index.forget(row, version.values)
        return len(versions) <= 1 and (not versions or versions[0].xmax is None)

    # -- reading without a snapshot ------------------------------------------------------------------

    def committed(self) -> Iterator[Values]:
        """Yield the rows that a new snapshot would see."""
        for version in self.newest():
            yield version.values

    def newest(self) -> Iterator[Version]:
        """Yield the versions that a new snapshot would see."""
        for row in self.all_rows:
            for version in reversed(row.versions):
                if version.xmin.top.commit_no:
                    if version.xmax is None or not version.xmax.top.commit_no:
                        yield version
                    break

    def rows(self) -> list[Values]:
        """Return the committed rows, ordered by primary key."""
        results = list(self.committed())
        if self.primary is not None:
            results.sort(key=self.primary.key)
        return results


def _columns(places: tuple[int, ...]) -> Callable[[Values], Values]:
    if len(places) != 1:
        return lambda values: tuple([values[place] for place in places])
    (only,) = places
    return itemgetter(slice(only, only + 1))  # returns a tuple of one value without a Python call


def _undo_version(row: HeapRow, values: Values) -> None:
    row.versions.pop()
    table = row.table
    if not row.versions:
        table.all_rows.pop(row, None)
    for index in table.indexes:
        index.forget(row, values)


def _undo_replace(row: HeapRow, values: Values) -> None:
    _undo_version(row, values)
    last = row.versions[-1]
    last.xmax, last.keys_updated = None, False


def _undo_delete(row: HeapRow, version: Version) -> None:
    version.xmax, version.keys_updated = None, False
