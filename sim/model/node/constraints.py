"""Constraints on rows: NOT NULL, CHECK, unique keys and foreign keys.

Each check waits as in PostgreSQL: a unique key for the transaction that may have entered the same key, a foreign
key for a transaction that deletes the referenced row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twopc.sim.model.node.heap import HeapRow, HeapTable, Index
from twopc.sim.model.node.modes import KEY_SHARE
from twopc.sim.model.node.row_locks import take
from twopc.sim.model.node.snapshots import CommitSnapshot
from twopc.sim.model.node.transactions import Xact
from twopc.sim.model.values import SqlError, Steps, Values

if TYPE_CHECKING:
    from twopc.sim.model.node.triggers import RowEvent
    from twopc.sim.model.node.tx import OpenTx


def check_row(table: HeapTable, values: Values) -> None:
    """Raise 23502 or 23514 if a row violates NOT NULL or CHECK."""
    if None in values:
        for column, value in zip(table.columns, values, strict=True):
            if value is None and column.not_null:
                raise SqlError(
                    "23502",
                    f'null value in column "{column.name}" of relation "{bare(table)}" violates not-null constraint',
                    detail=f"Failing row contains ({shown(table, values)}).",
                )
    for name, check in table.checks:
        if check(values) is False:
            raise SqlError(
                "23514",
                f'new row for relation "{bare(table)}" violates check constraint "{name}"',
                detail=f"Failing row contains ({shown(table, values)}).",
                constraint=name,
            )


def bare(table: HeapTable) -> str:
    """Return a table's name without the schema."""
    return table.name.rpartition(".")[2]


def shown(table: HeapTable, values: Values) -> str:
    """Return a row as it appears in an error's DETAIL."""
    return ", ".join(
        "null" if value is None else str(column.type.output(value))
        for column, value in zip(table.columns, values, strict=True)
    )


# -- unique keys ---------------------------------------------------------------------------------------


def meets(tx: OpenTx, index: Index, values: Values, own: HeapRow | None) -> Xact | HeapRow | None:
    """Return what occupies a key: a row, or a running transaction that decides about it; None if the key is free."""
    key = index.key(values)
    if index.distinct and None in key:
        return None
    top = tx.top
    for row in index.entries.get(key, ()):
        if row is own:
            continue
        for version in row.versions:
            if index.key(version.values) != key:
                continue
            if index.where is not None and not index.where(version.values):
                continue
            born, ended = version.xmin.top, version.xmax
            if born is not top and not born.commit_no:
                return version.xmin  # even if replaced or deleted again by that transaction
            if ended is None:
                return row
            if ended.top is not top and not ended.top.commit_no:
                return ended
    for claim in index.claims.get(key, ()):
        if claim.top is not top:
            result: Xact = claim
            return result
    return None


def are_free(indexes: Sequence[Index], values: Values) -> bool:
    """Whether no row has or had one of a row's keys and none is claimed, so that no wait and no later check is
    needed.
    """
    for index in indexes:
        key = index.key(values)
        if key in index.entries or key in index.claims or index.deferrable:
            return False
    return True


def enter_keys(
    tx: OpenTx, table: HeapTable, indexes: Sequence[Index], values: Values, own: HeapRow | None,
    events: list[RowEvent],
) -> Steps[None]:  # fmt: skip
    """Check a row's keys one index after the other: during a wait, keys of earlier indexes are already claimed."""
    if len(indexes) == 1:
        yield from check_unique(tx, table, indexes[0], values, own, events)
        return
    claimed: list[tuple[Index, Values]] = []
    try:
        for index in indexes:
            yield from check_unique(tx, table, index, values, own, events)
            if index.deferrable or (index.where is not None and not index.where(values)):
                continue
            key = index.key(values)
            index.claims.setdefault(key, []).append(tx.sub)
            claimed.append((index, key))
    finally:
        for index, key in claimed:
            claims = index.claims[key]
            claims.remove(tx.sub)
            if not claims:
                del index.claims[key]


def check_unique(
    tx: OpenTx,
    table: HeapTable,
    index: Index,
    values: Values,
    own: HeapRow | None,
    events: list[RowEvent],
) -> Steps[None]:
    """Raise 23505 if a key exists, after waiting for a transaction that may have it. Deferrable keys are checked
    later.
    """
    if index.where is not None and not index.where(values):
        return
    if index.deferrable:
        if not tx.replica:
            key = index.key(values)
            if index.deferred != tx.made_otherwise(index.name):
                tx.top.deferred.append(_KeyRecheck(table, index, key, tx))
            else:
                events.append(_KeyRecheck(table, index, key, tx))  # type: ignore[arg-type] # fired with them
        return
    while True:
        other = meets(tx, index, values, own)
        if other is None:
            return
        if isinstance(other, HeapRow):
            raise duplicate(table, index, index.key(values))
        tx.assign()
        yield from tx.locks.xact(tx.session, tx.sub, other, table)


def duplicate(table: HeapTable, index: Index, key: Values) -> SqlError:
    """Return the error for a key that exists already."""
    names = ", ".join(table.columns[place].name for place in index.places)
    types = [table.columns[place].type for place in index.places]
    text = ", ".join(
        "null" if value is None else str(type_.output(value))
        for type_, value in zip(types, key, strict=True)
    )
    return SqlError(
        "23505",
        f'duplicate key value violates unique constraint "{index.name}"',
        detail=f"Key ({names})=({text}) already exists.",
        constraint=index.name,
    )


class _KeyRecheck:
    """The later check of a deferrable unique key."""

    __slots__ = ("index", "key", "table", "tx")

    def __init__(self, table: HeapTable, index: Index, key: Values, tx: OpenTx) -> None:
        self.table = table
        self.index = index
        self.key = key
        self.tx = tx

    def fire(self, tx: OpenTx) -> Steps[None]:
        """Raise 23505 if two rows have the key."""
        index = self.index
        while True:
            alive, wait = 0, None
            for row in index.entries.get(self.key, ()):
                if not row.versions or index.key(row.versions[-1].values) != self.key:
                    continue
                newest = row.versions[-1]
                born, ended = newest.xmin.top, newest.xmax
                if born is not tx.top and not born.commit_no:
                    wait = newest.xmin
                elif ended is None:
                    alive += 1
                elif ended.top is not tx.top and not ended.top.commit_no:
                    wait = ended
            if alive > 1:
                raise duplicate(self.table, index, self.key)
            if not alive or wait is None:
                return
            yield from tx.locks.xact(tx.session, tx.sub, wait, self.table)


# -- foreign keys --------------------------------------------------------------------------------------


class ModelForeignKey:
    """A foreign key: the referencing columns, the referenced unique key, and its referential actions."""

    __slots__ = (
        "child", "deferrable", "deferred", "index", "name", "on_delete", "on_update", "parent", "places",
    )  # fmt: skip

    def __init__(
        self, name: str, child: HeapTable, places: tuple[int, ...], parent: HeapTable, index: Index
    ) -> None:
        self.name = name
        self.child = child
        self.places = places
        self.parent = parent
        self.index = index
        """Index of the parent's key, with columns in the order of `places`."""
        self.on_delete = "no action"
        self.on_update = "no action"
        self.deferrable = False
        self.deferred = False

    def key(self, values: Values) -> Values | None:
        """Return the key to which a child's row refers; None if one of its columns is null."""
        key = tuple([values[place] for place in self.places])
        return None if None in key else key

    def missing(self, key: Values) -> SqlError:
        """Return the error for a child whose parent does not exist."""
        names = ", ".join(self.child.columns[place].name for place in self.places)
        text = ", ".join(str(value) for value in key)
        return SqlError(
            "23503",
            f'insert or update on table "{bare(self.child)}" violates foreign key constraint "{self.name}"',
            detail=f'Key ({names})=({text}) is not present in table "{bare(self.parent)}".',
            constraint=self.name,
        )

    def referenced(self, key: Values, *, restrict: bool) -> SqlError:
        """Return the error for the removal of a parent to which a child still refers."""
        names = ", ".join(self.parent.columns[place].name for place in self.index.places)
        text = ", ".join(str(value) for value in key)
        kind = "RESTRICT setting of foreign key" if restrict else "foreign key"
        verb = "is referenced" if restrict else "is still referenced"
        return SqlError(
            "23001" if restrict else "23503",
            f'update or delete on table "{bare(self.parent)}" violates {kind} constraint '
            f'"{self.name}" on table "{bare(self.child)}"',
            detail=f'Key ({names})=({text}) {verb} from table "{bare(self.child)}".',
            constraint=self.name,
        )


def fresh(tx: OpenTx) -> CommitSnapshot:
    """Return a snapshot of all that is committed by now and of the transaction's own changes."""
    tx.top.cid += 1
    return CommitSnapshot(tx.node.commit_no, tx.top, tx.top.cid)


def check_child(tx: OpenTx, key: ModelForeignKey, values: Values, row: HeapRow) -> Steps[None]:
    """Check that the row to which a child refers exists, and lock it. Raise 23503 or 40001."""
    requested = key.key(values)
    newest = row.versions[-1] if row.versions else None
    if (
        requested is None
        or newest is None
        or newest.values is not values
        or newest.xmax is not None
    ):
        return  # changed again since: the later change has its own check
    snap = tx.statement()
    for parent in list(key.index.entries.get(requested, ())):
        version = snap.version(parent)
        if version is None or key.index.key(version.values) != requested:
            continue
        got: Any = yield from take(tx, parent, version, KEY_SHARE, snap)
        if got is not None and key.index.key(got.values) == requested:
            return
    raise key.missing(requested)


def children(
    tx: OpenTx, key: ModelForeignKey, requested: Values, snap: CommitSnapshot
) -> list[Any]:
    """Return the rows that refer to a key, in a snapshot."""
    results = []
    for row in key.child.all_rows:
        version = snap.version(row)
        if version is not None and key.key(version.values) == requested:
            results.append((row, version))
    return results
