"""Waits for a row, a table or a transaction, and the transactions that block each wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import simpy

from twopc.sim.model.node.heap import HeapRow, HeapTable, Version
from twopc.sim.model.node.modes import CONFLICTS, ROW_NAMES, SHARE, TABLE_CONFLICTS, TABLE_NAMES
from twopc.sim.model.node.transactions import TopXact, Xact


class LockQueueWait:
    """One wait of a session."""

    __slots__ = ("aim", "deadlock", "event", "member", "mode",
        "number", "on", "row", "seen", "session", "since", "table", "timeout",
                 "timeout_s", "xact")  # fmt: skip

    def __init__(self, session: Any, xact: Xact, mode: int) -> None:
        self.session = session
        self.xact = xact
        self.mode = mode
        self.row: HeapRow | None = None
        self.table: HeapTable | None = None
        self.on: Xact | None = None
        self.event: simpy.Event | None = None
        self.seen: Version | None = None
        """Above READ COMMITTED: the version that must not have been replaced."""
        self.member = False
        """Whether the transaction already holds the row's lock in a weaker mode, and so does not queue."""
        self.number = 0
        """Position in the order in which waits began."""
        self.aim: TopXact | None = None
        """The transaction for which the wait began."""
        self.since = 0.0
        self.timeout_s = 0.0
        self.timeout: simpy.Event | None = None
        self.deadlock: simpy.Event | None = None

    @property
    def loose(self) -> bool:
        """Whether the lock may be granted before that of earlier waits."""
        return self.member or self.mode <= SHARE or self.seen is not None

    @property
    def refused(self) -> bool:
        """Whether the version that the transaction saw is replaced by a committed one, so that waiting is useless."""
        ended = self.seen.xmax if self.seen is not None else None
        return ended is not None and ended.top.commit_no > 0

    def end(self, how: str) -> None:
        """End the wait; only the first call has an effect."""
        if self.event is not None and not self.event.triggered:
            self.event.succeed(how)

    def conflicts(self) -> Iterator[Xact]:
        """Yield the transactions that hold a conflicting lock (without those before this wait in the queue).

        Of several holders that share a row, only the oldest: PostgreSQL waits for them one by one, by transaction
        id.
        """
        if self.on is not None:
            yield self.on
            return
        top = self.xact.top
        held: dict[Xact, int] = {}
        if self.row is not None:
            bad = CONFLICTS[self.mode]
            held = {x: m for x, m in (self.row.holders or {}).items() if m in bad}
        elif self.table is not None:
            bits = TABLE_CONFLICTS[self.mode]
            held = {x: m for x, m in self.table.locks.items() if m & bits}
        results = [xact for xact in held if xact.top is not top]
        if self.row is not None and len(results) > 1:
            yield min(results, key=_xid)
        else:
            yield from results

    def _ahead(self) -> Iterator[LockQueueWait]:
        """Yield the conflicting waits before this one in the queue."""
        if self.on is not None:
            return
        if self.row is not None:
            bad = CONFLICTS[self.mode]
            for other in self.row.queue or ():
                if other is self or self.member:
                    return
                if other.mode in bad and not other.member:
                    yield other
        elif self.table is not None:
            bits = TABLE_CONFLICTS[self.mode]
            for other in self.table.waiting:
                if other is self:
                    return
                if other.mode & bits:
                    yield other

    @property
    def queues(self) -> bool:
        """Whether a conflicting wait is before this one."""
        return next(self._ahead(), None) is not None

    def nearest(self) -> list[TopXact]:
        """Return enough blocking transactions to find a cycle: queued waits all lead to the same lock."""
        first = next(self._ahead(), None)
        results = [xact.top for xact in self.conflicts()]
        return results if first is None else [first.xact.top, *results]

    def target(self) -> TopXact | None:
        """Return the transaction that blocks this wait first; when it changes, a new wait begins."""
        return next(iter(self.nearest()), None)

    def blockers(self) -> list[TopXact]:
        """Return the blocking transactions, as pg_blocking_pids reports them."""
        ahead = [wait.xact.top for wait in self._ahead()]
        if ahead and self.row is not None:
            return list(dict.fromkeys(ahead))
        return list(dict.fromkeys([*(xact.top for xact in self.conflicts()), *ahead]))

    def lock(self) -> tuple[str, str]:
        """Return the mode and type as in pg_locks, and the relation if pg_locks shows one."""
        if self.row is not None:
            if self.queues:
                return f"{ROW_NAMES[self.mode]}Lock on tuple", self.row.table.name
            return "ShareLock on transactionid", self.row.table.name
        if self.table is not None:
            if self.on is not None:
                return "ShareLock on transactionid", ""
            return f"{TABLE_NAMES[self.mode]}Lock on relation", self.table.name
        return "ShareLock on transactionid", ""


class Queue(deque[LockQueueWait]):
    """The waits for a row, first come first."""

    mixed = 0
    """Number of waits in the queue that are `loose`."""


def _xid(xact: Xact) -> int:
    return xact.xid
