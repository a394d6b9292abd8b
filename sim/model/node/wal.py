"""The node's log: records in order, forced by group commit, cut by a crash behind what is durable.

Knows positions and time, not what a record means to sessions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import simpy

from twopc.sim.model.ports import Kernel
from twopc.sim.model.values import (
    Cause,
    CommittedTransaction,
    Delay,
    Label,
    RequestLostError,
    RowChange,
    Steps,
)

#: After how long a record that nobody forces is written (wal_writer_delay).
LAZY_S = 0.2
#: 2000-01-01 in seconds since 1970: where PostgreSQL's time begins.
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
        """Until it is durable: what a crash would have to take back."""
        self.undo: list[Any] = []
        """Of what others see already although it is not durable."""
        self.changes: list[tuple[Any, str, Any, Any]] | None = None
        """Of rows: table, operation, old, new; None where nothing is committed."""
        self.time_s = 0.0
        """By the node's clock."""
        self.gid = ""
        self.xid = 0
        self._committed: CommittedTransaction | None = None

    @property
    def committed(self) -> CommittedTransaction | None:
        """What a log reader sees; made when one looks."""
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
    """A node's log."""

    def __init__(
        self, node: str, kernel: Kernel, flush: Delay, settled: Callable[[int], None]
    ) -> None:
        self._node = node
        self._kernel = kernel
        self._flush = flush.given
        self._settled = settled
        self.records: list[WalRecord] = []
        """Those that nobody has trimmed."""
        self._young: deque[WalRecord] = deque()
        """Not durable yet."""
        self._end = 0x1000
        self._reached = 0x1000
        self.flushes = 0
        self.forces = 0
        """How often somebody had to wait for the disk; those who wait at a time share a flush."""
        self._label = Label(
            actor=f"node:{node}",
            cause=Cause.FLUSH,
            what=f"flush at {node}",
            touches=frozenset({node}),
        )
        self._running: simpy.Event | None = None
        """Succeeds when the flush under way has ended."""
        self._timer: simpy.Event | None = None
        self._lazy: simpy.Event | None = None
        self._waiting: list[simpy.Event] = []
        self._target = 0
        """Up to where it writes."""
        self._cuts = 0
        """How often it was cut."""

    @property
    def end(self) -> int:
        """Behind the last record."""
        self._tell(changed=False)
        return self._end

    @property
    def durable(self) -> int:
        """What is before it survives a crash."""
        self._tell(changed=False)
        return self._reached

    def append(self, kind: str, xact: Any, size: int) -> WalRecord:
        """A record at the end."""
        record = WalRecord(kind, self._end, self._end + 64 + 32 * size, xact)
        self._end = record.end_lsn
        self.records.append(record)
        self._young.append(record)
        self._tell(changed=True)
        return record

    def _tell(self, *, changed: bool) -> None:
        """The search is notified that it has changed, or that somebody looks how far it is."""
        if self._kernel.watch is not None:
            self._kernel.watch(f"log at {self._node}", changed)

    def force(self, lsn: int) -> Steps[None]:
        """Until everything before a position is durable. LostError if the node goes down meanwhile."""
        cuts = self._cuts
        self.forces += 1
        self._tell(changed=self._reached < lsn)
        while self._reached < lsn:
            self._start()
            assert self._running is not None
            yield self._running
            if self._cuts != cuts:
                raise RequestLostError(f"{self._node} went down")

    def reached(self, lsn: int) -> Steps[None]:
        """As `force`, but the disk is left to others. LostError"""
        cuts = self._cuts
        self._tell(changed=self._reached < lsn)
        while self._reached < lsn:
            waiting = self._kernel.event()
            self._waiting.append(waiting)
            yield waiting
            if self._cuts != cuts:
                raise RequestLostError(f"{self._node} went down")

    def soon(self) -> None:
        """Nobody waits for it: it is written when the writer looks."""
        self._tell(changed=True)
        if self._lazy is None and self._running is None:
            self._lazy = self._kernel.delay(LAZY_S, self._label)
            assert self._lazy.callbacks is not None
            self._lazy.callbacks.append(self._wake)

    def _wake(self, _: simpy.Event) -> None:
        self._lazy = None
        self._tell(changed=True)
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
        self._tell(changed=True)
        running, self._running, self._timer = self._running, None, None
        self.flushes += 1
        self._durable(target)
        if running is not None:
            running.succeed()

    def _durable(self, lsn: int) -> None:
        self._reached = max(self._reached, lsn)
        young = self._young
        while young and young[0].end_lsn <= self._reached:
            record = young.popleft()
            record.xact = None
            record.undo = []
        self._settled(self._reached)
        self._look_again()

    def _look_again(self) -> None:
        """Those who wait for the disk without asking for it."""
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.succeed()

    def cut(self, kept: int | None) -> tuple[list[WalRecord], list[WalRecord]]:
        """The node goes down: what the disk has although nobody was told, and what is lost with it.

        Args:
            kept: a position; not before what is durable.
        """
        self._cuts += 1
        for event in (self._timer, self._lazy):
            if event is not None:
                self._kernel.cancel(event)
        running, self._running, self._timer, self._lazy = self._running, None, None, None
        end = self._reached if kept is None else max(self._reached, min(kept, self._end))
        results = [record for record in self._young if record.end_lsn <= end]
        lost = [record for record in self._young if record.end_lsn > end]
        self._young.clear()
        if lost:
            del self.records[-len(lost) :]
        self._end = self._reached = results[-1].end_lsn if results else self._reached
        if running is not None:
            running.fail(RequestLostError(f"{self._node} went down"))
            running.defused = True
        self._look_again()
        return results, lost

    def young(self) -> tuple[int, ...]:
        """Ends of the records that a crash may cut: every place where the disk may stop."""
        return tuple(record.end_lsn for record in self._young)

    def trim(self, lsn: int) -> None:
        """Nobody will ask for what ended before a position."""
        records, upto = self.records, min(lsn, self._reached)
        gone = 0
        while gone < len(records) and records[gone].end_lsn <= upto:
            gone += 1
        del records[:gone]

    def unforced(self) -> tuple[WalRecord, ...]:
        """Records that are not durable yet."""
        return tuple(self._young)

    def settle(self) -> None:
        """Everything is durable now, outside of time: for setting up."""
        self._durable(self._end)
