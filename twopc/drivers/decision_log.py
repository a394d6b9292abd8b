"""The decision log: a table in the distribution database, written by one session, in groups.

Decisions that arrive while an insert is in progress are written together by the next one. An epoch names the
session that writes for it, and is fenced only after that session has ended, so a decision of a fenced epoch cannot
be written. This module must not depend on the meaning of a decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import AsyncConnection, pq, sql

from twopc.drivers.database import ANSWER_TIMEOUT_S, Database, cut_after, own_session
from twopc.drivers.lean import Lean, first_error
from twopc.drivers.points import Points
from twopc.log import get_logger
from twopc.names import EpochIds
from twopc.proof import Key
from twopc.protocol.effects import Record, RecordKind, record_of

_log = get_logger(__name__)

_FORGET = """
delete from msrepl.decision as d
using unnest(%s::bigint[], %s::bigint[]) as f(epoch, sequence)
where (d.epoch, d.sequence) = (f.epoch, f.sequence)
"""
_READ = "select kind, participants from msrepl.decision where (epoch, sequence) = (%s, %s)"


class LogEntry:
    """A record that is being written to the log."""

    __slots__ = ("_waiter", "epoch", "kind", "participants", "reason", "sequence", "state")

    def __init__(self, epoch: int, sequence: int, record: Record) -> None:
        self.epoch = epoch
        self.sequence = sequence
        self.kind = record.kind
        self.participants = record.participants
        self.state = ""
        """``logged``, ``failed`` (certainly not written) or ``unknown``; empty until the result is known."""
        self.reason = ""
        self._waiter: asyncio.Future[None] | None = None

    def settle(self, state: str, reason: str = "") -> None:
        """Set the result of the write."""
        self.state = state
        self.reason = reason
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """Wait until `state` is known; not interrupted by cancellation, like `Lean.answer`."""
        while not self.state:
            self._waiter = asyncio.get_running_loop().create_future()
            with suppress(asyncio.CancelledError):
                await self._waiter


class DecisionLog:
    """The log of one coordinator process."""

    def __init__(
        self,
        coordinator: str,
        dsn: str,
        branches: Iterable[str],
        points: Points | None = None,
        busy: set[Lean] | None = None,
        *,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
    ) -> None:
        self._answer_timeout_s = answer_timeout_s
        self._busy = busy if busy is not None else set()
        self._points = points or Points()
        self._coordinator = coordinator
        self._dsn = dsn
        self.database = Database(
            "distribution", dsn, f"twopc ledger {coordinator}", answer_timeout_s=answer_timeout_s
        )
        """Connection for reading and forgetting, in addition to the session that writes."""
        self._branches = tuple(branches)
        self._lean: Lean | None = None
        self._closed = False
        self._opening = asyncio.Lock()
        self._queue: list[LogEntry] = []
        self._flight: list[LogEntry] = []
        self._reserved = False
        self._forgotten: list[tuple[int, int]] = []
        self.key = Key()
        """Key by which participants recognise this process."""
        self.epochs: dict[str, EpochIds] = {}
        """The current epoch of each variant in use, by the variant's name."""
        self.own: set[int] = set()
        """All epochs that belong to this process alone."""
        self.fenced: set[int] = set()
        """Epochs that another process has fenced; `epoch` opens new ones instead."""

    async def close(self) -> None:
        """Release the epochs; results of writes in progress become unknown. The log cannot be opened again."""
        self._closed = True
        lean, self._lean = self._lean, None
        if lean is not None:
            with suppress(psycopg.Error):  # recovery deletes the remaining records
                await self.forget_now()
            lean.on_answer = None
            await lean.close()
        self._break("the decision log was closed")
        await self.database.close()

    def current(self, variant: str) -> EpochIds | None:
        """Return the ids for transactions of a variant, if an epoch exists and can be written for."""
        result, lean = self.epochs.get(variant), self._lean
        if result is None or result.epoch in self.fenced or lean is None or not lean.alive():
            return None
        return result

    async def epoch(self, variant: str) -> EpochIds:
        """Return the ids for transactions of a variant, and open an epoch at the first use.

        Raises:
            psycopg.Error: the distribution database does not answer.
        """
        async with self._opening:
            await self._connect()
            result = self.current(variant)
            if result is None:
                result = self.epochs[variant] = await self._open_epoch(variant)
            return result

    # -- writing -----------------------------------------------------------------------------------

    def append(self, epoch: int, sequence: int, record: Record) -> LogEntry:
        """Write a record, together with all others that are waiting."""
        entry = LogEntry(epoch, sequence, record)
        lean = self._lean
        if lean is None or lean.lost:
            entry.settle("failed", lean.lost if lean is not None else "the decision log is closed")
            return entry
        self._queue.append(entry)
        if not self._flight and not self._reserved:
            self._send(lean)
        return entry

    def _send(self, lean: Lean) -> None:
        self._flight, self._queue = self._queue, []
        flight = self._flight
        # Numbers, enumeration values and names from a restricted alphabet: nothing needs quoting.
        lean.send(
            "call msrepl.log_decisions('{}','{{{}}}','{{{}}}','{{{}}}','{{{}}}')".format(
                self._coordinator,
                ",".join([str(entry.epoch) for entry in flight]),
                ",".join([str(entry.sequence) for entry in flight]),
                ",".join([entry.kind for entry in flight]),
                ",".join(['"' + ",".join(entry.participants) + '"' for entry in flight]),
            ).encode()
        )

    def _answered(self, results: Sequence[pq.abc.PGresult]) -> None:
        lean, flight = self._lean, self._flight
        if lean is None:
            return
        if lean.lost:
            self._break(lean.lost)
            return
        _, refusal = first_error(results, "")
        self._flight = []
        if self._queue:
            self._send(lean)
        if refusal is None:
            for entry in flight:
                entry.settle("logged")
            return
        for entry in flight:
            if refusal.sqlstate == "55000":
                self._fence(entry.epoch)
            entry.settle("failed", str(refusal))

    def _break(self, why: str) -> None:
        flight, self._flight = self._flight, []
        queue, self._queue = self._queue, []
        for entry in flight:
            entry.settle("unknown", why)
        for entry in queue:
            entry.settle("failed", why)

    def forget(self, epoch: int, sequence: int) -> None:
        """Have a record deleted with the next batch; recovery finds a record that survives a crash."""
        self._forgotten.append((epoch, sequence))

    async def forget_now(self) -> int:
        """Delete the records that may be forgotten, and return their number. The commit does not wait for the disk.

        Raises:
            psycopg.Error: no record was deleted, and the deletion will be retried.
        """
        batch, self._forgotten = self._forgotten, []
        if not batch:
            return 0
        points = self._points
        try:
            if points.armed:
                await points.reach("coordinator.before_forget")
            async with self.database.use() as connection, connection.transaction():
                await connection.execute("set local synchronous_commit = off")
                await connection.execute(_FORGET, ([e for e, _ in batch], [s for _, s in batch]))
        except BaseException:  # also if cancelled
            self._forgotten.extend(batch)
            raise
        if points.armed:
            await points.reach("coordinator.after_forget")
        return len(batch)

    # -- reconnecting ------------------------------------------------------------------------------

    async def ensure(self) -> None:
        """Ensure that the log is connected, and that no earlier session of this process can still write.

        Raises:
            psycopg.Error: the distribution database does not answer, or an old session does not end.
        """
        async with self._opening:
            await self._connect()

    async def read_back(self, epoch: int, sequence: int) -> Record | None:
        """Return the durable record of a transaction, or None if none exists and none can be written any more.

        Raises:
            psycopg.Error: as `ensure`.
            LookupError: no record exists, but another process has fenced the epoch and may have settled the
                transaction and deleted its record.
        """
        await self.ensure()
        rows = await self.database.fetch(_READ, (epoch, sequence))
        if rows:
            return record_of(RecordKind(rows[0][0]), tuple(rows[0][1]))
        if epoch in self.fenced:
            raise LookupError(f"epoch {epoch} was fenced by another process")
        return None

    @property
    def lean(self) -> Lean | None:
        """The connection that writes, for detection of connections that do not answer."""
        return self._lean

    async def _connect(self) -> None:
        if self._closed:
            raise psycopg.OperationalError("the decision log was closed")
        if self._lean is not None and self._lean.alive():
            return
        if self._lean is not None:
            await self._lean.close()
        # Commits wait for this connection: a server that does not answer must not block them for ever. Opening the
        # session and resuming the epochs each end after the time limit.
        timeout_s, name = self._answer_timeout_s, f"twopc decisions {self._coordinator}"
        connection = await own_session("the decision log", self._dsn, name, timeout_s)
        try:
            with cut_after(connection, timeout_s):
                for ids in self.epochs.values():
                    if ids.epoch not in self.fenced:
                        await self._resume(connection, ids)
        except BaseException:
            await connection.close()
            raise
        lean = Lean(connection, self._busy)
        lean.on_answer = self._answered
        self._lean = lean

    async def _resume(self, connection: AsyncConnection[Any], ids: EpochIds) -> None:
        cursor = await connection.execute("select msrepl.resume_epoch(%s)", (ids.epoch,))
        row = await cursor.fetchone()
        if row is None or not row[0]:
            self._fence(ids.epoch)

    def _fence(self, epoch: int) -> None:
        if epoch not in self.fenced:
            _log.warning("epoch fenced", coordinator=self._coordinator, epoch=epoch)
        self.fenced.add(epoch)
        self.own.discard(epoch)

    async def _open_epoch(self, variant: str) -> EpochIds:
        lean = self._lean
        assert lean is not None
        # The epoch lives as long as the session that opens it, so the session that writes must open it, after the
        # current insert.
        self._reserved = True
        while self._flight:
            await self._flight[0].wait()
        lean.on_answer = None
        results = await lean.run(
            sql.SQL("select msrepl.open_epoch({}, {})")
            .format(sql.Literal(self._coordinator), sql.Literal(variant))
            .as_bytes(None)
        )
        lean.on_answer = self._answered
        self._reserved = False
        if lean.lost:
            self._break(lean.lost)
        elif self._queue:
            self._send(lean)
        _, refusal = first_error(results, "")
        value = results[0].get_value(0, 0) if results and refusal is None else None
        if value is None:
            raise psycopg.OperationalError(str(refusal or lean.lost))
        self.own.add(int(value))
        return EpochIds(self._coordinator, int(value), self._branches, self.key.prove)
