"""An open transaction: its savepoints and settings, statements, and access to rows without SQL.

The `session` ends it and handles its errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twopc.sim.model.node import rows, statements
from twopc.sim.model.node.after_triggers import after_statement
from twopc.sim.model.node.heap import HeapRow, HeapTable, Version
from twopc.sim.model.node.modes import ROW_EXCLUSIVE
from twopc.sim.model.node.snapshots import CommitSnapshot
from twopc.sim.model.node.ssi import ALL, GAP
from twopc.sim.model.node.statements import any_row
from twopc.sim.model.node.transactions import ABORTED, TopXact, Xact
from twopc.sim.model.node.triggers import RowEvent, before_statement
from twopc.sim.model.values import Level, SqlError, StatementResult, Steps, Values

if TYPE_CHECKING:
    from twopc.sim.model.node.node import ModelNode
    from twopc.sim.model.node.session import NodeSession

#: Rows below which an index has one page; once such a table is analyzed, its plans are sequential scans.
SMALL_ROWS = 200


class OpenTx:
    """The open transaction of one session."""

    __slots__ = (
        "applying",
        "calls",
        "cause",
        "deferring",
        "ending",
        "locks",
        "node",
        "preparing",
        "replica",
        "running_calls",
        "session",
        "settings",
        "sub",
        "top",
    )

    def __init__(self, session: NodeSession, top: TopXact) -> None:
        self.session = session
        self.node: ModelNode = session.node
        self.locks = session.node.locks
        self.top = top
        self.sub: Xact = top
        """The current subtransaction."""
        self.settings: dict[str, str] = {}
        self.replica = session.settings.get("session_replication_role") == "replica"
        self.deferring: dict[str, bool] = {}
        """Whether SET CONSTRAINTS has inverted the declared check time of a constraint, by name."""
        self.calls = 0
        """Nesting depth of functions."""
        self.running_calls = 0
        """Nesting depth of published routines."""
        self.preparing = False
        """Whether PREPARE TRANSACTION is ending the transaction."""
        self.ending = False
        """Whether deferred checks and triggers are running."""
        self.applying = False
        """Whether a procedure of the Publisher is storing rows that a Subscriber has sent."""
        self.cause = ""
        """Description of the user's trigger that is running."""

    # -- what it is ----------------------------------------------------------------------------------

    @property
    def xid(self) -> int:
        """Transaction id; 0 until the transaction writes or locks."""
        return self.top.xid

    @property
    def level(self) -> Level:
        """Isolation level of the transaction."""
        return self.top.level  # type: ignore[return-value] # one of three

    @property
    def session_user(self) -> str:
        """The role of the session."""
        return self.session.role

    def assign(self) -> int:
        """Return the transaction id, assigning one if there is none."""
        if not self.sub.xid:
            self.node.assign(self.sub)
        return self.top.xid

    def setting(self, name: str) -> str | None:
        """Return the present value of a setting."""
        local = self.settings.get(name)
        return local if local is not None else self.session.settings.get(name)

    def set(self, name: str, value: str | None, *, local: bool) -> None:
        """Execute SET, undone with the (sub)transaction; None resets the setting."""
        if local:
            settings = self.settings
        else:
            settings = self.session.settings
            self.settings.pop(name, None)
        self.sub.undo.append((_restore, settings, (name, settings.get(name))))
        if value is None:
            settings.pop(name, None)
        else:
            settings[name] = value
        self.replica = self.setting("session_replication_role") == "replica"

    def made_otherwise(self, name: str) -> bool:
        """Whether SET CONSTRAINTS has inverted the declared check time of a constraint."""
        return self.deferring.get(name, False)

    # -- snapshots -----------------------------------------------------------------------------------

    def statement(self) -> CommitSnapshot:
        """Begin a command and return its snapshot."""
        top = self.top
        if self.node.kernel.record_access is not None:
            self.node.notify_rows_read()
        top.cid += 1
        first = top.snapshot
        if first is not None:
            return CommitSnapshot(first.no, top, top.cid)
        number = top.horizon = self.node.commit_no
        if top.level == "read committed":
            return CommitSnapshot(number, top, top.cid)
        top.snapshot = CommitSnapshot(number, top, 0)
        if self.node.keeps_snapshots:
            top.seen = self.node.snapshot_text()
        if top.level == "serializable":
            self.node.ssi.begin(top, number)
        return CommitSnapshot(number, top, top.cid)

    def read(self, table: HeapTable, keys: Sequence[Values] | None, *, exists: bool) -> None:
        """Register the rows that were read, for SERIALIZABLE.

        Args:
            keys: values of the primary key; None for all rows.
            exists: whether rows were found; only then is it checked that the transaction is not doomed.
        """
        own = self.top.ssi
        if own is None:
            return
        small = len(table.all_rows) < SMALL_ROWS
        read_keys: tuple[Values, ...]
        if keys is None or (small and table.analyzed):
            read_keys = (ALL,)
        else:
            read_keys = (*keys, GAP) if small else tuple(keys)
        if exists:
            self.node.ssi.check_read(own)
        self.node.ssi.read(own, table.name, read_keys)

    def wrote(self, table: HeapTable, values: Iterable[Values], *, placed: bool) -> None:
        """Register the rows that are changed, for SERIALIZABLE.

        Args:
            placed: whether a key was added to an index.
        """
        index = table.primary
        keys = [index.key(one) for one in values] if index is not None else [ALL]
        if placed:
            keys.append(GAP)
        new = self.node.ssi.wrote(self.top.ssi, table.name, keys)
        if new:
            self.sub.undo.append((_undo_writes, self.top.ssi.writes[table.name], new))

    # -- statements ----------------------------------------------------------------------------------

    def run(self, text: str, params: Mapping[str, Any] | None = None) -> Steps[StatementResult]:
        """Execute one SQL statement."""
        plan = self.node.plans.statement(text)
        result = yield from plan(self, params or {})
        return result

    def lock_table(self, table: HeapTable, mode: int) -> Steps[None]:
        """Lock a table until the end of the transaction."""
        if mode >= ROW_EXCLUSIVE:
            self.node.notify_rows_written()
        if not self.locks.try_table(self.top, table, mode):
            self.assign()
            yield from self.locks.table(self.session, self.top, table, mode)

    # -- rows without SQL ----------------------------------------------------------------------------

    def find(
        self, table: HeapTable, key: Values, snap: CommitSnapshot
    ) -> tuple[HeapRow, Version] | None:
        """Return a row by its primary key, with the version that a snapshot sees."""
        index = table.primary
        assert index is not None, f"{table.name} has no primary key"
        for row in index.entries.get(key, ()):
            version = snap.version(row)
            if version is not None and index.key(version.values) == key:
                return row, version
        return None

    def lock(self, table: str, key: Values) -> Steps[Values | None]:
        """Execute ``select … for update`` by primary key; return the newest row, None if there is none."""
        locked = yield from statements.lock(self, self.node.table(table), [key])
        return locked[0] if locked else None

    def get(self, table: str, key: Values) -> Values | None:
        """Return a row by primary key, as a new statement sees it."""
        there = self.node.table(table)
        result = self.find(there, key, self.statement())
        self.read(there, (key,), exists=result is not None)
        return result[1].values if result is not None else None

    def insert(self, table: str, row: Values) -> Steps[Values]:
        """Insert a row, with constraints and triggers; columns missing at its end get their defaults."""
        there = self.node.table(table)
        yield from self.lock_table(there, ROW_EXCLUSIVE)
        snap = self.statement()
        events: list[RowEvent] = []
        if there.triggers:
            yield from before_statement(self, there, "ins")
        stored = yield from rows.insert(
            self, there, self.node.complete(self, there, row), snap, events
        )
        if events or there.fires_by_statement:
            yield from after_statement(self, there, "ins", events)

        return stored if stored is not None else row

    def update(
        self, table: str, key: Values, new: Values, when: Callable[[Values], bool]
    ) -> Steps[Values | None]:
        """Replace a row if its newest version satisfies `when`."""
        return (yield from self.change(table, key, lambda old: new, when))

    def change(
        self, table: str, key: Values, compute: Callable[[Values], Values],
        when: Callable[[Values], bool] = any_row, *, names_keys: bool = False,
    ) -> Steps[Values | None]:  # fmt: skip
        """Update a row to the values that `compute` returns for its newest version; see `update`.

        Args:
            names_keys: see `twopc.sim.model.node.rows.update`.
        """
        there = self.node.table(table)

        def computed(values: Values) -> Values:
            return self.node.generated(there, compute(values))

        changed = yield from statements.update(
            self, there, [(key, when, computed)], names_keys=names_keys
        )
        return changed[0] if changed else None

    def delete(
        self, table: str, key: Values, when: Callable[[Values], bool] = any_row
    ) -> Steps[bool]:
        """Delete a row if its newest version satisfies `when`."""
        return bool((yield from statements.delete(self, self.node.table(table), [(key, when)])))

    def delete_all(self, table: str, keys: Iterable[Values]) -> Steps[int]:
        """Delete the rows with these primary keys and return their number."""
        requested = [(key, any_row) for key in keys]
        return len((yield from statements.delete(self, self.node.table(table), requested)))

    def wait_for(self, xid: int, what: str) -> Steps[None]:
        """Wait until another transaction has ended."""
        other = self.node.running(xid)
        if other is not None and other is not self.top:
            yield from self.locks.xact(self.session, self.sub, other)

    # -- savepoints ----------------------------------------------------------------------------------

    def savepoint(self, name: str) -> None:
        """Begin a subtransaction."""
        sub = Xact(self.sub, name)
        sub.changes_at = len(self.top.changes)
        sub.queued_at = len(self.top.deferred)
        sub.settings = dict(self.settings)
        self.sub = sub

    def _find_savepoint(self, name: str) -> Xact:
        sub: Xact | None = self.sub
        while sub is not None and sub.parent is not None:
            if sub.name == name:
                return sub
            sub = sub.parent
        raise SqlError("3B001", f'savepoint "{name}" does not exist')

    def rollback_to(self, name: str) -> None:
        """Undo all changes since a savepoint, which stays. Raise 3B001."""
        target = self._find_savepoint(name)
        while self.sub is not target:
            self._drop(self.sub)
        self._drop(target)
        self.savepoint(name)

    def release(self, name: str) -> None:
        """Merge a savepoint into its parent. Raise 3B001."""
        target = self._find_savepoint(name)
        while True:
            sub = self.sub
            parent = sub.parent
            assert parent is not None
            parent.undo.extend(sub.undo)
            parent.undo.append((_mark_aborted, sub, None))
            sub.undo = []
            sub.joined = True
            if sub.waiters:
                top = self.top
                top.waiters = [*(top.waiters or ()), *sub.waiters]
                sub.waiters = None
            self.sub = parent
            if sub is target:
                return

    def drop(self) -> None:
        """Undo the innermost savepoint and leave it."""
        self._drop(self.sub)

    def _drop(self, sub: Xact) -> None:
        self.take_back(sub)
        assert sub.parent is not None
        self.sub = sub.parent

    def unwind(self) -> None:
        """Undo all savepoints, but not the transaction itself."""
        while self.sub.parent is not None:
            self._drop(self.sub)

    def take_back(self, sub: Xact) -> None:
        """Undo a subtransaction; its locks are free at once."""
        if sub.state == ABORTED:
            return
        self.locks.keep_waiting(sub)
        self.locks.take_back(sub)
        sub.state = ABORTED
        del self.top.changes[sub.changes_at :]
        del self.top.deferred[sub.queued_at :]
        if sub.settings is not None:
            self.settings.clear()
            self.settings.update(sub.settings)
            self.replica = self.setting("session_replication_role") == "replica"


def _restore(settings: dict[str, str], old: tuple[str, str | None]) -> None:
    name, value = old
    if value is None:
        settings.pop(name, None)
    else:
        settings[name] = value


def _undo_writes(written: set[Values], keys: list[Values]) -> None:
    written.difference_update(keys)


def _mark_aborted(sub: Xact, nothing: None) -> None:
    sub.state = ABORTED
