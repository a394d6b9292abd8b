"""Locks: of rows (four modes, first come first), of tables, and waits for the end of a transaction.

Each waiting session has one `LockQueueWait`, which is ended by exactly one of: the lock, lock_timeout, the deadlock
check, a cancel, the end of its session, the crash of the node. This module knows neither values nor visibility.

When a row's lock is released it is granted to the first wait in the queue; PostgreSQL gets the same order with a
lock on the tuple (README.tuplock). As there, a new request whose mode is compatible with the holders does not
queue.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable
from typing import Any

from twopc.sim.model.clocks import right
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.node.heap import HeapRow, HeapTable, Version
from twopc.sim.model.node.lock_waits import LockQueueWait, Queue
from twopc.sim.model.node.modes import CONFLICTS, ROW_EXCLUSIVE, SHARE, TABLE_CONFLICTS, TABLE_SHARE
from twopc.sim.model.node.transactions import ABORTED, RUNNING, TopXact, Xact
from twopc.sim.model.values import Cause, Delay, Label, RequestLostError, SqlError, Steps


def _number(one: tuple[int, Callable[[], None]]) -> int:
    return one[0]


class Locks:
    """The locks of one node."""

    def __init__(self, node: str, kernel: SimpyKernel, deadlock_timeout: Delay) -> None:
        self._node = node
        self._kernel = kernel
        self._deadlock_timeout = deadlock_timeout
        self._begun = 0
        self._lock_undo = self._undo_lock
        """The undo function of a row lock: one object, which is compared by identity."""
        self.assign: Callable[[Xact], None] = lambda xact: None
        """Assigns a transaction id to a transaction."""
        self.lasts: Callable[[float], float] = right
        """Converts a duration in seconds by the node's clock to virtual time."""

    def _notify_change(self) -> None:
        if self._kernel.record_access is not None:
            self._kernel.record_access(f"at {self._node}", True)
            self._kernel.record_access(f"given up at {self._node}", True)

    def _notify_undo(self) -> None:
        """Report an undo for which no session waits: its order relative to a commit is irrelevant."""
        if self._kernel.record_access is not None:
            self._kernel.record_access(f"given up at {self._node}", True)

    # -- rows ----------------------------------------------------------------------------------------

    def try_row(self, xact: Xact, row: HeapRow, mode: int) -> bool:
        """Take a row's lock unless another transaction holds a conflicting one; whether it was taken."""
        if self._kernel.record_access is not None:
            self._notify_change()
        held = row.holders
        if held:
            top, bad, had = xact.top, CONFLICTS[mode], False
            for other, others in held.items():
                if other.top is top:
                    had = had or others >= mode
                elif others in bad:
                    return False
            if had:
                return True
        if not xact.xid:
            self.assign(xact)
        if held is None:
            held = row.holders = {}
        before = held.get(xact, 0)
        held[xact] = mode
        xact.undo.append((self._lock_undo, xact, (row, before)))
        return True

    def row(
        self, session: Any, xact: Xact, row: HeapRow, mode: int, seen: Version | None = None
    ) -> Steps[None]:
        """Take a row's lock, waiting for it if necessary. Raise 55P03, 40P01, 57014 or 57P01.

        Args:
            seen: a version; once a committed one has replaced it, the wait ends.
        """
        while not self.try_row(xact, row, mode):
            if (yield from self._queue(session, xact, row, mode, seen)) == "granted":
                return

    def _queue(
        self, session: Any, xact: Xact, row: HeapRow, mode: int, seen: Version | None
    ) -> Steps[str]:
        """Wait for a row's lock and return ``granted``, or ``over`` if the holder has ended and the caller must
        retry.
        """
        self.assign(xact)
        wait = LockQueueWait(session, xact, mode)
        wait.row, wait.seen = row, seen
        queue = row.queue
        if queue is None:
            queue = row.queue = Queue()
        # A transaction that already holds a lock does not queue behind the others, except for the first: the two
        # wait for the holders themselves.
        if any(other.top is xact.top for other in row.holders or ()):
            wait.member = True
            place = next((at for at, one in enumerate(queue) if not one.member), -1)
            queue.insert(place + 1, wait)
        else:
            queue.append(wait)
        queue.mixed += wait.loose
        try:
            return (yield from self._wait(wait))
        except BaseException:
            if wait in queue:
                queue.remove(wait)
                queue.mixed -= wait.loose
                self.wake(row)
            elif wait.on is not None and wait.on.waiters and wait in wait.on.waiters:
                wait.on.waiters.remove(wait)
            raise

    def keep_waiting(self, sub: Xact) -> None:
        """Let waits for rows of a released savepoint, which is about to be rolled back, wait for the transaction.

        New requests find such a row free.
        """
        back, top = self._lock_undo, sub.top
        for function, holder, what in sub.undo:
            if function is not back or not holder.joined or not what[0].queue:
                continue
            row = what[0]
            waiting, row.queue = row.queue, None
            for wait in waiting:
                wait.on = top
            top.waiters = [*(top.waiters or ()), *waiting]

    def _undo_lock(self, xact: Xact, what: tuple[HeapRow, int]) -> None:
        row, before = what
        held = row.holders
        if not held or xact not in held:
            return
        if before:
            held[xact] = before
        else:
            del held[xact]
            if not held:
                row.holders = None

    def take_back(self, xact: Xact) -> None:
        """Undo all changes of a transaction or a savepoint, newest first, and then release its locks.

        Waits end in the order in which they began, as in `release`.
        """
        back, undo = self._lock_undo, xact.undo
        if undo:
            self._notify_undo()
        rows: dict[HeapRow, None] = {}
        while undo:
            function, one, other = undo.pop()
            function(one, other)
            if function is back:
                rows[other[0]] = None
        wake: list[tuple[int, Callable[[], None]]] = [
            (row.queue[0].number, functools.partial(self.wake, row)) for row in rows if row.queue
        ]
        self._wake(wake, xact)

    def _wake(self, wake: list[tuple[int, Callable[[], None]]], xact: Xact) -> None:
        waiters, xact.waiters = xact.waiters, None
        if wake or waiters:
            self._notify_change()
        wake += [(wait.number, functools.partial(wait.end, "over")) for wait in waiters or ()]
        if len(wake) > 1:
            wake.sort(key=_number)
        for _, act in wake:
            act()

    def release(self, xact: Xact) -> None:
        """Release the row locks of a transaction that has ended, and end the waits for it.

        Waits end in the order in which they began, as in PostgreSQL, where all of them wait for the transaction.
        """
        if xact.undo and self._kernel.record_access is not None:
            self._kernel.record_access(f"at {self._node}", True)  # order with an undo is irrelevant
        back = self._lock_undo
        wake: list[tuple[int, Callable[[], None]]] = []
        for function, holder, what in xact.undo:
            if function is back:
                row = what[0]
                held = row.holders
                if held and held.pop(holder, None) is not None and not held:
                    row.holders = None
                if row.queue:
                    wake.append((row.queue[0].number, functools.partial(self.wake, row)))
        xact.undo.clear()
        self._wake(wake, xact)

    def kept(self, xact: Xact) -> list[Any]:
        """Return the undo entries of a transaction's changes, without those of its locks."""
        back = self._lock_undo
        return [undo for undo in xact.undo if undo[0] is not back]

    def wake(self, row: HeapRow) -> None:
        """Grant a row's lock to the waits whose turn it is."""
        queue = row.queue
        if not queue:
            return
        dead = not row.versions
        if not dead:
            ended = row.versions[-1].xmax
            dead = ended is not None and bool(ended.top.commit_no)
        stay: set[int] = set()
        place = 0
        while place < len(queue):
            wait = queue[place]
            given_up = wait.event is not None and wait.event.triggered
            behind = not wait.member and not stay.isdisjoint(CONFLICTS[wait.mode])
            over = given_up or dead or wait.refused
            if over or (not behind and self.try_row(wait.xact, row, wait.mode)):
                del queue[place]
                queue.mixed -= wait.loose
                wait.end("granted")
                continue
            if not wait.member:
                stay.add(wait.mode)
            if not queue.mixed:
                break  # each excludes all waits behind it
            place += 1
        if not queue:
            row.queue = None
            return
        for wait in [*queue] if queue.mixed else (queue[0],):
            if wait.aim is not wait.target():
                self._begin_wait(wait)  # blocked by another transaction now: a new wait begins

    # -- transactions --------------------------------------------------------------------------------

    def xact(
        self, session: Any, xact: Xact, on: Xact, table: HeapTable | None = None
    ) -> Steps[None]:
        """Wait until another transaction has ended, or its subtransaction is rolled back."""
        if self._kernel.record_access is not None:
            self._kernel.record_access(f"at {self._node}", False)
            self._kernel.record_access(f"given up at {self._node}", False)
        while on.state < 2 and on.top.state < 2:
            wait = LockQueueWait(session, xact, SHARE)
            wait.on, wait.table = on, table
            whose = _awaited_xact(on)
            if whose.waiters is None:
                whose.waiters = []
            whose.waiters.append(wait)
            try:
                yield from self._wait(wait)
            except BaseException:
                whose = _awaited_xact(on)
                if whose.waiters and wait in whose.waiters:
                    whose.waiters.remove(wait)
                raise
            if on.state == ABORTED:
                return

    def over(self, xact: Xact) -> None:
        """End the waits for a transaction that has ended, or for a subtransaction that was rolled back."""
        waiters, xact.waiters = xact.waiters, None
        for wait in waiters or ():
            wait.end("over")

    # -- tables --------------------------------------------------------------------------------------

    def try_table(self, top: TopXact, table: HeapTable, mode: int) -> bool:
        """Take a table's lock unless another transaction holds or awaits a conflicting one; whether it was taken."""
        if self._kernel.record_access is not None:
            self._kernel.record_access(f"tables at {self._node}", mode >= TABLE_SHARE)
        held = top.tables.get(table.name, 0)
        if held & mode:
            return True
        if mode > ROW_EXCLUSIVE or table.strong or table.waiting:
            bits = TABLE_CONFLICTS[mode]
            for other, others in table.locks.items():
                if others & bits and other is not top:
                    return False
            if table.waiting and not held and any(wait.mode & bits for wait in table.waiting):
                return False
            if mode >= TABLE_SHARE > held:
                table.strong += 1
        table.locks[top] = top.tables[table.name] = held | mode
        return True

    def table(self, session: Any, top: TopXact, table: HeapTable, mode: int) -> Steps[None]:
        """Take a table's lock, waiting for it if necessary."""
        if self.try_table(top, table, mode):
            return
        wait = LockQueueWait(session, top, mode)
        wait.table = table
        table.waiting.append(wait)
        try:
            yield from self._wait(wait)
        except BaseException:
            if wait in table.waiting:
                table.waiting.remove(wait)
                self.wake_table(table)
            raise

    def release_table(self, top: TopXact, table: HeapTable) -> None:
        """Release a table's locks when the transaction has ended."""
        if self._kernel.record_access is not None:
            strong = top.tables.get(table.name, 0) >= TABLE_SHARE
            self._kernel.record_access(f"tables at {self._node}", strong)
        if table.locks.pop(top, 0) >= TABLE_SHARE:
            table.strong -= 1
        if table.waiting:
            self.wake_table(table)

    def wake_table(self, table: HeapTable) -> None:
        """Grant a table's lock to the waits whose turn it is."""
        waiting, table.waiting = table.waiting, deque()
        while waiting:
            wait = waiting.popleft()
            if wait.event is not None and wait.event.triggered:
                continue
            if self.try_table(wait.xact.top, table, wait.mode):
                wait.end("granted")
            else:
                table.waiting.append(wait)

    # -- waiting -------------------------------------------------------------------------------------

    def _wait(self, wait: LockQueueWait) -> Steps[str]:
        session = wait.session
        self._notify_change()
        if self._kernel.record_access is not None:
            self._kernel.record_access(f"waits at {self._node}", True)
        wait.timeout_s = session.lock_timeout_s
        event = wait.event = self._kernel.event()
        self._begin_wait(wait)
        session.wait = wait
        how: str = "lost"
        try:
            how = yield event
        finally:
            session.wait = None
            self._notify_change()
            self._stop_timers(wait)
            if not event.triggered:
                wait.event = None
        if session.dead is not None and how in ("granted", "over"):
            raise RequestLostError("the node went down")
        if how not in ("granted", "over"):
            error = _ERRORS[how]()
            table = wait.row.table if wait.row is not None else wait.table
            error.context = table.name if table is not None else ""
            raise error
        return how

    def _begin_wait(self, wait: LockQueueWait) -> None:
        self._stop_timers(wait)
        wait.since = self._kernel.now
        wait.aim = wait.target()
        self._begun += 1
        wait.number = self._begun
        actor = f"session:{wait.session.application_name or wait.session.pid}"
        touches = frozenset({self._node})
        if wait.timeout_s > 0:
            label = Label(
                actor=actor,
                cause=Cause.LOCK_TIMEOUT,
                what=f"lock_timeout at {self._node}",
                touches=touches,
            )
            wait.timeout = self._kernel.delay(self.lasts(wait.timeout_s), label)
            assert wait.timeout.callbacks is not None
            wait.timeout.callbacks.append(lambda _: wait.end("timeout"))
        label = Label(
            actor=actor,
            cause=Cause.DEADLOCK,
            what=f"deadlock check at {self._node}",
            touches=touches,
        )
        wait.deadlock = self._kernel.delay(self._deadlock_timeout, label)
        assert wait.deadlock.callbacks is not None
        wait.deadlock.callbacks.append(lambda _: self._check(wait))

    def _stop_timers(self, wait: LockQueueWait) -> None:
        for event in (wait.timeout, wait.deadlock):
            if event is not None and not event.processed:
                self._kernel.cancel(event)
        wait.timeout = wait.deadlock = None

    def _check(self, wait: LockQueueWait) -> None:
        """Check for a deadlock, once for each wait as in PostgreSQL: the session that finds the cycle is the
        victim.
        """
        if wait.xact.top.state == RUNNING and in_cycle(wait):
            wait.end("deadlock")


def _awaited_xact(xact: Xact) -> Xact:
    """Return the transaction whose end a wait awaits: a released savepoint has no end of its own
    (XactLockTableWait).
    """
    return xact.top if xact.joined else xact


def _timeout() -> SqlError:
    return SqlError("55P03", "canceling statement due to lock timeout")


def _deadlock() -> SqlError:
    return SqlError("40P01", "deadlock detected")


def cancelled() -> SqlError:
    """Return the error of a statement that was cancelled."""
    return SqlError("57014", "canceling statement due to user request")


def terminated() -> SqlError:
    """Return the error of a statement whose session was terminated."""
    return SqlError("57P01", "terminating connection due to administrator command")


_ERRORS: dict[str, Callable[[], SqlError]] = {
    "timeout": _timeout, "deadlock": _deadlock, "cancel": cancelled, "terminate": terminated,
}  # fmt: skip


def in_cycle(wait: Any) -> bool:
    """Whether a wait is part of a cycle. Iterative rather than recursive, since queues are long."""
    start = wait.xact.top
    seen = set()
    stack = list(wait.nearest())
    while stack:
        top = stack.pop()
        if top is start:
            return True
        if top in seen or top.session is None:
            continue
        seen.add(top)
        other = top.session.wait
        if other is not None and other.xact.top is top and not other.event.triggered:
            stack.extend(other.nearest())
    return False
