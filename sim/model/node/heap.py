"""Tables: rows as chains of versions, and the indexes that find them by key.

Knows which transaction made and ended a version, not what anybody may see of it (`snapshots`) nor who may
change it (`locks`).
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
        """Who has replaced or deleted it."""
        self.cmax = 0
        self.keys_updated = False
        """Whoever ended it changed a key, or deleted it."""


class HeapRow:
    """A row through all its versions, oldest first; locks are of the row, whichever version is newest."""

    __slots__ = ("holders", "queue", "table", "versions")

    def __init__(self, table: HeapTable) -> None:
        self.table = table
        self.versions: list[Version] = []
        self.holders: dict[Xact, int] | None = None
        """Mode of each (sub)transaction that has it locked."""
        self.queue: Any = None
        """`locks.Wait`s, first come first."""

    @property
    def newest(self) -> Version:
        """Whoever made it."""
        return self.versions[-1]


class Index:
    """A unique key: the rows that have, had, or may get each value of it."""

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
        """Its columns of a row."""
        self.primary = primary
        self.deferrable = deferrable
        self.deferred = deferred
        """Checked at the commit."""
        self.distinct = distinct
        """Nulls are distinct."""
        self.where = where
        """Of a partial index."""
        self.constraint = True
        """It stands behind a constraint; False: CREATE UNIQUE INDEX has made it."""
        self.entries: dict[Values, list[HeapRow]] = {}
        self.claims: dict[Values, list[Any]] = {}
        """Transactions that have entered a key here and still wait to enter the same row in another index."""

    def add(self, row: HeapRow, values: Values) -> None:
        """A version with these values is in the table."""
        key = self.key(values)
        rows = self.entries.get(key)
        if rows is None:
            self.entries[key] = [row]
        elif row not in rows:
            rows.append(row)

    def forget(self, row: HeapRow, values: Values) -> None:
        """A version with these values is gone; another of the row may have the same key."""
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
    """A column: its type, and what it holds where nothing is said."""

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
        """`twopc.sim.model.sql.types.SqlType`."""
        self.not_null = False
        self.default: Callable[[Any], Any] | None = None
        self.generated: Callable[[Values], Any] | None = None
        """STORED, computed from the row."""
        self.identity = False
        self.next = 1
        """Of its sequence."""
        self.draws: Callable[[], int] | None = None
        """Somebody else gives its values, instead of its sequence."""
        self.always = False
        """GENERATED ALWAYS AS IDENTITY."""


class HeapTable:
    """A table of the node."""

    def __init__(self, name: str, number: int) -> None:
        self.name = name
        """``schema.table`` outside public."""
        self.number = number
        """In the order of creation."""
        self.columns: list[HeapColumn] = []
        self.at: dict[str, int] = {}
        """Place of each column."""
        self.indexes: list[Index] = []
        self.primary: Index | None = None
        self.checks: list[tuple[str, Callable[[Values], Any]]] = []
        self.references: list[Any] = []
        """`constraints.ForeignKey`s of its own."""
        self.referenced: list[Any] = []
        """Those that point here."""
        self.triggers: list[Any] = []
        """In the order of their names."""
        self.triggers_of: dict[tuple[str, str], list[Any]] = {}
        """The same by when they fire and for which operation."""
        self.fires_by_statement = False
        """A trigger fires once for all rows of a statement, after them."""
        self.all_rows: dict[HeapRow, None] = {}
        self.key_places: frozenset[int] = frozenset()
        """Columns whose change takes the strongest row lock."""
        self.temporary = False
        self.owner = "postgres"
        """The role that may change its definition, besides superusers."""
        self.granted: dict[str, set[str]] = {}
        """Roles by the right that they were given, of those that are looked at."""
        self.locks: dict[Xact, int] = {}
        self.strong = 0
        """How many hold a lock of it that keeps those out who change rows."""
        self.waiting: deque[Any] = deque()
        self.next_tid = 1
        self.analyzed = False
        """ANALYZE has been run: plans know how small it is."""
        self.computed = False
        """It has generated columns."""
        self.plain = True
        """No trigger and no foreign key here or to here: a change has no consequences."""
        self.simple = True
        """No unique key that is checked later or holds for some rows only."""

    @property
    def key(self) -> tuple[str, ...]:
        """The primary key's columns."""
        return tuple(self.columns[p].name for p in self.primary.places) if self.primary else ()

    @property
    def uniques(self) -> list[Index]:
        """Its unique keys, the primary one first."""
        return self.indexes

    def settle(self) -> None:
        """Its definition has changed."""
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

    # -- changes: each leaves what takes it back with the (sub)transaction ---------------------------

    def insert(self, values: Values, xact: Xact, cid: int) -> HeapRow:
        """A new row."""
        row = HeapRow(self)
        row.versions.append(Version(self.next_tid, values, xact, cid))
        self.next_tid += 1
        self.all_rows[row] = None
        for index in self.indexes:
            index.add(row, values)
        xact.undo.append((_undo_version, row, values))
        return row

    def replace(self, row: HeapRow, values: Values, xact: Xact, cid: int, *, keys: bool) -> None:
        """A new version of a row."""
        old = row.versions[-1]
        old.xmax, old.cmax, old.keys_updated = xact, cid, keys
        row.versions.append(Version(self.next_tid, values, xact, cid))
        self.next_tid += 1
        if keys or not self.simple:
            for index in self.indexes:
                index.add(row, values)
        xact.undo.append((_undo_replace, row, values))

    def delete(self, row: HeapRow, xact: Xact, cid: int) -> None:
        """Its newest version ends."""
        old = row.versions[-1]
        old.xmax, old.cmax, old.keys_updated = xact, cid, True
        xact.undo.append((_undo_delete, row, old))

    def prune(self, row: HeapRow, seen_by_all: int) -> bool:
        """Throw away the versions that nobody can see any more; True if nothing old is left."""
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
        """The rows as a new snapshot would see them."""
        for version in self.newest():
            yield version.values

    def newest(self) -> Iterator[Version]:
        """The same with who wrote them."""
        for row in self.all_rows:
            for version in reversed(row.versions):
                if version.xmin.top.commit_no:
                    if version.xmax is None or not version.xmax.top.commit_no:
                        yield version
                    break

    def rows(self) -> list[Values]:
        """What is committed, by key."""
        results = list(self.committed())
        if self.primary is not None:
            results.sort(key=self.primary.key)
        return results


def _columns(places: tuple[int, ...]) -> Callable[[Values], Values]:
    if len(places) != 1:
        return lambda values: tuple([values[place] for place in places])
    (only,) = places
    return itemgetter(slice(only, only + 1))  # a tuple of one, without a call of Python's


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
