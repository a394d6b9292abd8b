"""The decision log on servers: a table in the distribution database, written by one session, in groups.

Decisions that arrive while an insert is in progress are written together by the next one. An epoch names the
session that writes for it, and is fenced only after that session has ended, so a decision of a fenced epoch cannot
be written. This module must not depend on the meaning of a decision.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg
from psycopg import AsyncConnection, pq, sql

from twopc.drivers.database import ANSWER_TIMEOUT_S, Database, cut_after, own_session
from twopc.drivers.lean import Lean, first_error
from twopc.drivers.log_client import LogClient, LogEntry
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


class ServerEntry(LogEntry):
    """See `LogEntry`."""

    __slots__ = ("_waiter",)

    def __init__(self, epoch: int, sequence: int, record: Record) -> None:
        super().__init__(epoch, sequence, record)
        self._waiter: asyncio.Future[None] | None = None

    def settle(self, state: str, reason: str = "") -> None:
        """See `LogEntry`."""
        super().settle(state, reason)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        """See `LogEntry`; not interrupted by cancellation, like `Lean.answer`."""
        while not self.state:
            self._waiter = asyncio.get_running_loop().create_future()
            with suppress(asyncio.CancelledError):
                await self._waiter


class DecisionLog(LogClient[Lean]):
    """See `twopc.drivers.log_client.LogClient`."""

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
        opening = asyncio.Lock()
        super().__init__(coordinator, branches, lambda: opening)
        self._answer_timeout_s = answer_timeout_s
        self._busy = busy if busy is not None else set()
        self._points = points or Points()
        self._dsn = dsn
        self.database = Database(
            "distribution", dsn, f"twopc ledger {coordinator}", answer_timeout_s=answer_timeout_s
        )
        """Connection for reading and forgetting, in addition to the session that writes."""
        self._closed = False
        self._flight: list[LogEntry] = []
        self._reserved = False
        self.key = Key()
        """Key by which participants recognise this process."""

    async def close(self) -> None:
        """Release the epochs; results of writes in progress become unknown. The log cannot be opened again."""
        self._closed = True
        lean, self._wire = self._wire, None
        if lean is not None:
            with suppress(psycopg.Error):  # recovery deletes the remaining records
                await self.forget_now()
            lean.on_answer = None
            await lean.close()
        self._break_off("the decision log was closed")
        await self.database.close()

    # -- writing -----------------------------------------------------------------------------------

    def append(self, epoch: int, sequence: int, record: Record) -> ServerEntry:
        """See `LogClient`."""
        entry = ServerEntry(epoch, sequence, record)
        if self._enqueue(entry) and self._wire and not self._flight and not self._reserved:
            self._send(self._wire)
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
                ",".join([entry.record.kind for entry in flight]),
                ",".join(['"' + ",".join(entry.record.participants) + '"' for entry in flight]),
            ).encode()
        )

    def _arrived(self, results: Sequence[pq.abc.PGresult]) -> None:
        lean, flight = self._wire, self._flight
        if lean is None:
            return
        if lean.lost:
            self._break_off(lean.lost)
            return
        _, refusal = first_error(results, "")
        self._flight = []
        if self._queue:
            self._send(lean)
        if refusal is None:
            self._answered(flight, None)
        else:
            self._answered(flight, refusal.sqlstate, str(refusal))

    def _break_off(self, why: str) -> None:
        flight, self._flight = self._flight, []
        self._break(flight, why)

    async def forget_now(self) -> int:
        """See `LogClient`."""
        count = await super().forget_now()
        if count and self._points.armed:
            await self._points.reach("coordinator.after_forget")
        return count

    async def _delete(self, keys: Sequence[tuple[int, int]]) -> None:
        """See `LogClient`. The commit does not wait for the disk."""
        if self._points.armed:
            await self._points.reach("coordinator.before_forget")
        async with self.database.use() as connection, connection.transaction():
            await connection.execute("set local synchronous_commit = off")
            await connection.execute(_FORGET, ([e for e, _ in keys], [s for _, s in keys]))

    async def _read(self, key: tuple[int, int]) -> Record | None:
        rows = await self.database.fetch(_READ, key)
        return record_of(RecordKind(rows[0][0]), tuple(rows[0][1])) if rows else None

    # -- reconnecting ------------------------------------------------------------------------------

    @property
    def lean(self) -> Lean | None:
        """The connection that writes, for detection of connections that do not answer."""
        return self._wire

    async def _connect(self) -> None:
        if self._closed:
            raise psycopg.OperationalError("the decision log was closed")
        if self._wire is not None and self._wire.alive():
            return
        if self._wire is not None:
            await self._wire.close()
        # Commits wait for this connection: a server that does not answer must not block them for ever. Opening the
        # session and resuming the epochs each end after the time limit.
        timeout_s, name = self._answer_timeout_s, f"twopc decisions {self._coordinator}"
        connection = await own_session("the decision log", self._dsn, name, timeout_s)
        try:
            with cut_after(connection, timeout_s):
                await self._resume(partial(_resume, connection))
        except BaseException:
            await connection.close()
            raise
        lean = Lean(connection, self._busy)
        lean.on_answer = self._arrived
        self._wire = lean

    def _fence(self, epoch: int) -> None:
        if epoch not in self.fenced:
            _log.warning("epoch fenced", coordinator=self._coordinator, epoch=epoch)
        super()._fence(epoch)

    async def _open_epoch(self, variant: str) -> EpochIds:
        lean = self._wire
        assert lean is not None
        # after the current insert
        self._reserved = True
        while self._flight:
            await self._flight[0].wait()
        lean.on_answer = None
        results = await lean.run(
            sql.SQL("select msrepl.open_epoch({}, {})")
            .format(sql.Literal(self._coordinator), sql.Literal(variant))
            .as_bytes(None)
        )
        lean.on_answer = self._arrived
        self._reserved = False
        if lean.lost:
            self._break_off(lean.lost)
        elif self._queue:
            self._send(lean)
        _, refusal = first_error(results, "")
        value = results[0].get_value(0, 0) if results and refusal is None else None
        if value is None:
            raise psycopg.OperationalError(str(refusal or lean.lost))
        return EpochIds(self._coordinator, int(value), self._branches, self.key.prove)


async def _resume(connection: AsyncConnection[Any], epoch: int) -> bool:
    cursor = await connection.execute("select msrepl.resume_epoch(%s)", (epoch,))
    row = await cursor.fetchone()
    return row is not None and bool(row[0])
