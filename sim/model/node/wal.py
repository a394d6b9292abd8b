"""The node's WAL: records in order, flushed by group commit, cut by a crash after its durable end.

This module knows positions and time, not the meaning of records for sessions.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import simpy

from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.values import (
    Cause,
    CommittedTransaction,
    Delay,
    Label,
    RequestLostError,
    RowChange,
    Steps,
)

#: Seconds after which a record that is not forced is flushed (wal_writer_delay).
LAZY_S = 0.2
#: PostgreSQL's epoch, 2000-01-01, in seconds since 1970.
EPOCH_S = 946684800


class WalRecord:
    """One record: ``commit``, ``prepare``, ``commit_prepared`` or ``rollback_prepared``."""

    __slots__ = (
        "_committed",
        "changes",
        "end_lsn",
        "gid",
        "kind",
        "lsn",
        "time_s",
        "undo",
        "xact",
        "xid",
    )

    def __init__(self, kind: str, lsn: int, end_lsn: int, xact: Any) -> None:
        self.kind = kind
        self.lsn = lsn
        self.end_lsn = end_lsn
        self.xact = xact
        """Until the record is durable: the transaction that a crash would have to undo."""
        self.undo: list[Any] = []
        """Undo entries of a commit that is visible although it is not durable."""
        self.changes: list[tuple[Any, str, Any, Any]] | None = None
        """Changes of rows: table, operation, old, new; None if the record commits nothing."""
        self.time_s = 0.0
        """Time by the node's clock."""
        self.gid = ""
        self.xid = 0
        self._committed: CommittedTransaction | None = None

    @property
    def committed(self) -> CommittedTransaction | None:
        """The transaction as a log reader sees it; built at first use."""
        result = self._committed
        if result is None and self.changes is not None:
            result = self._committed = CommittedTransaction(
                lsn=self.lsn, end_lsn=self.end_lsn, xid=self.xid,
                time_us=round((self.time_s - EPOCH_S) * 1e6), gid=self.gid,
                changes=tuple(
                    [RowChange(table.name, what, old, new) for table, what, old, new in self.changes]  # type: ignore[arg-type] # one of three
                ),
            )  # fmt: skip
        return result


class Wal:
    """The WAL of a node."""

    def __init__(self, node: str, kernel: SimpyKernel, flush: Delay) -> None:
        self._node = node
        self._kernel = kernel
        self._flush = flush.given
        self.records: list[WalRecord] = []
        """The records that are not trimmed."""
        self._unflushed: deque[WalRecord] = deque()
        """Records that are not durable yet."""
        self._end = 0x1000
        self._reached = 0x1000
        self.flushes = 0
        self.forces = 0
        """Number of waits for a flush; concurrent waits share one flush."""
        self._label = Label(
            actor=f"node:{node}",
            cause=Cause.FLUSH,
            what=f"flush at {node}",
            touches=frozenset({node}),
        )
        self._running: simpy.Event | None = None
        """Succeeds when the current flush has ended."""
        self._timer: simpy.Event | None = None
        self._lazy: simpy.Event | None = None
        self._waiting: list[simpy.Event] = []
        self._target = 0
        """Position up to which the current flush writes."""
        self._crashes = 0
        """Number of crashes."""

    @property
    def end(self) -> int:
        """Position after the last record."""
        self._notify(changed=False)
        return self._end

    @property
    def durable(self) -> int:
        """Position before which all records survive a crash."""
        self._notify(changed=False)
        return self._reached

    def append(self, kind: str, xact: Any, size: int) -> WalRecord:
        """Append a record."""
        record = WalRecord(kind, self._end, self._end + 64 + 32 * size, xact)
        self._end = record.end_lsn
        self.records.append(record)
        self._unflushed.append(record)
        self._notify(changed=True)
        return record

    def _notify(self, *, changed: bool) -> None:
        """Notify the search that the WAL has changed, or that its positions are read."""
        if self._kernel.record_access is not None:
            self._kernel.record_access(f"log at {self._node}", changed)

    def force(self, lsn: int) -> Steps[None]:
        """Flush, and wait until the WAL before a position is durable. Raise RequestLostError if the node goes down."""
        cuts = self._crashes
        self.forces += 1
        self._notify(changed=self._reached < lsn)
        while self._reached < lsn:
            self._start()
            assert self._running is not None
            yield self._running
            if self._crashes != cuts:
                raise RequestLostError(f"{self._node} went down")

    def reached(self, lsn: int) -> Steps[None]:
        """Wait until the WAL before a position is durable, without a flush. Raise RequestLostError."""
        cuts = self._crashes
        self._notify(changed=self._reached < lsn)
        while self._reached < lsn:
            waiting = self._kernel.event()
            self._waiting.append(waiting)
            yield waiting
            if self._crashes != cuts:
                raise RequestLostError(f"{self._node} went down")

    def soon(self) -> None:
        """Schedule a flush by the WAL writer."""
        self._notify(changed=True)
        if self._lazy is None and self._running is None:
            self._lazy = self._kernel.delay(LAZY_S, self._label)
            assert self._lazy.callbacks is not None
            self._lazy.callbacks.append(self._wake)

    def _wake(self, _: simpy.Event) -> None:
        self._lazy = None
        self._notify(changed=True)
        if self._reached < self._end:
            self._start()

    def _start(self) -> None:
        if self._running is not None:
            return
        self._target = self._end
        self._running = self._kernel.event()
        timer = self._timer = self._kernel.delay(self._flush, self._label)
        assert timer.callbacks is not None
        timer.callbacks.append(self._flushed)

    def _flushed(self, _: simpy.Event) -> None:
        target = self._target
        self._notify(changed=True)
        running, self._running, self._timer = self._running, None, None
        self.flushes += 1
        self._set_durable(target)
        if running is not None:
            running.succeed()

    def _set_durable(self, lsn: int) -> None:
        self._reached = max(self._reached, lsn)
        young = self._unflushed
        while young and young[0].end_lsn <= self._reached:
            record = young.popleft()
            record.xact = None
            record.undo = []
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        """End the waits of `reached`, which check the position again."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.succeed()

    def cut(self, kept: int | None) -> tuple[list[WalRecord], list[WalRecord]]:
        """Crash: return the records that become durable without acknowledgement, and those that are lost.

        Args:
            kept: the position at which the WAL ends; not before its durable end.
        """
        self._crashes += 1
        for event in (self._timer, self._lazy):
            if event is not None:
                self._kernel.cancel(event)
        running, self._running, self._timer, self._lazy = self._running, None, None, None
        end = self._reached if kept is None else max(self._reached, min(kept, self._end))
        results = [record for record in self._unflushed if record.end_lsn <= end]
        lost = [record for record in self._unflushed if record.end_lsn > end]
        self._unflushed.clear()
        if lost:
            del self.records[-len(lost) :]
        self._end = self._reached = results[-1].end_lsn if results else self._reached
        if running is not None:
            running.fail(RequestLostError(f"{self._node} went down"))
            running.defused = True
        self._wake_waiting()
        return results, lost

    def young(self) -> tuple[int, ...]:
        """Return the ends of records that are not durable: the positions at which a crash may cut the WAL."""
        return tuple(record.end_lsn for record in self._unflushed)

    def trim(self, lsn: int) -> None:
        """Discard the records that end before a position."""
        records, upto = self.records, min(lsn, self._reached)
        gone = 0
        while gone < len(records) and records[gone].end_lsn <= upto:
            gone += 1
        del records[:gone]

    def settle(self) -> None:
        """Make all records durable, outside of virtual time, for setup."""
        self._set_durable(self._end)
