"""Commands of the commit protocol over libpq without a cursor: one message out, all results back.

psycopg's cursors spend most of a short command's time on features that the protocol does not need. The same libpq
connection is used; between two cursor calls of an application it may be used by this module, which must not depend
on the meaning of the commands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, pq

from twopc.drivers.channel import ERRORS, Channel

_FIELD = pq.DiagnosticField
_T = TypeVar("_T")


async def unbroken(work: Coroutine[Any, Any, _T]) -> _T:
    """Await `work` to its end even if the task is cancelled meanwhile; see `Lean.answer`."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """A server's error report, or psycopg's message if no server answered."""

    message: str
    sqlstate: str = ""
    detail: str = ""
    hint: str = ""
    context: str = ""

    @property
    def remote(self) -> bool:
        """Whether another server raised the error, which came over the link."""
        return "dblink" in self.context

    def __str__(self) -> str:
        return f"{self.message} ({self.sqlstate})" if self.sqlstate else self.message


def report_of(error: psycopg.Error) -> ServerReport:
    """Return the report contained in an exception of psycopg."""
    diag = error.diag
    return ServerReport(
        message=diag.message_primary or str(error),
        sqlstate=error.sqlstate or "",
        detail=diag.message_detail or "",
        hint=diag.message_hint or "",
        context=diag.context or "",
    )


def report(result: pq.abc.PGresult, encoding: str = "utf-8") -> ServerReport | None:
    """Return the error in a result; None if the result is a success."""
    if result.status not in ERRORS:
        return None

    def field(which: pq.DiagnosticField) -> str:
        value = result.error_field(which)
        return value.decode(encoding, "replace") if value else ""

    return ServerReport(
        message=field(_FIELD.MESSAGE_PRIMARY) or result.get_error_message(encoding),
        sqlstate=field(_FIELD.SQLSTATE),
        detail=field(_FIELD.MESSAGE_DETAIL),
        hint=field(_FIELD.MESSAGE_HINT),
        context=field(_FIELD.CONTEXT),
    )


def first_error(results: Sequence[pq.abc.PGresult], lost: str) -> tuple[int, ServerReport | None]:
    """Return the number of results before the first error, and the error; the loss of the connection counts as one.

    Args:
        lost: reason why the connection is lost; empty if it is not.
    """
    for place, result in enumerate(results):
        outcome = report(result)
        if outcome is not None:
            return place, outcome
    return len(results), ServerReport(message=lost, sqlstate="08006") if lost else None


def is_unsynced(diagnostic: psycopg.errors.Diagnostic) -> bool:
    """Return whether a notice reports that the wait for a synchronous standby was interrupted."""
    # Neither the text, which is translated, nor the SQLSTATE distinguishes this warning from others.
    return diagnostic.source_function == "SyncRepWaitForLSN"


class Lean(Channel):
    """Sends command strings over one connection, one at a time.

    Args:
        connection: a connection in autocommit mode. Psycopg's cursors may use it between `release` and the next
            `send` only: to have the event loop watch it again costs as much as half a message.
        busy: set that contains this object while it waits for an answer, so that connections which wait for too
            long can be closed.
    """

    __slots__ = ("_busy", "_done", "_results", "_waiter", "on_answer", "sent_at", "unsynced")

    def __init__(self, connection: AsyncConnection[Any], busy: set[Lean]) -> None:
        super().__init__(connection)
        self._busy = busy
        self.unsynced = False
        """Whether the wait for a synchronous standby was interrupted: the commit is durable at the server, but
        perhaps not at the standby.
        """
        self.sent_at = 0.0
        """Time at which the last command was sent, by the loop's clock."""
        self.on_answer: Callable[[list[pq.abc.PGresult]], None] | None = None
        """Called with the results of each answer (with an empty list when an idle connection is lost), for a user
        that has no task of its own.
        """
        self._results: list[pq.abc.PGresult] = []
        self._done = True
        self._waiter: asyncio.Future[None] | None = None
        connection.add_notice_handler(self._noticed)
        self.watch(self._readable)

    async def run(self, command: bytes) -> list[pq.abc.PGresult]:
        """Send a string of commands and return the results that arrived; `lost` is set if the rest never will."""
        self.send(command)
        return await self.answer()

    async def run_one(self, command: bytes) -> list[pq.abc.PGresult]:
        """Send a single command; the server refuses a string of several, and executes none of them."""
        self._send(lambda: self.pgconn.send_query_params(command, None))
        return await self.answer()

    def send(self, command: bytes) -> None:
        """Send a string of commands without waiting."""
        self._send(lambda: self.pgconn.send_query(command))

    def _send(self, sending: Callable[[], None]) -> None:
        if not self._done:
            raise RuntimeError("the previous command has not been answered")
        self._results = []
        self._done = False
        self.unsynced = False
        if self.lost:
            self._finish()
            return
        self.sent_at = self._loop.time()
        self._busy.add(self)
        try:
            sending()
            self._write()
        except psycopg.Error as error:
            self._lose(str(error))
            return
        if not self._watched:
            self.watch(self._readable)

    async def answer(self) -> list[pq.abc.PGresult]:
        """Return the results of the commands sent.

        Not interrupted by cancellation: an interrupted caller would not know the outcome. The caller checks
        `asyncio.Task.cancelling` afterwards.
        """
        while not self._done:
            self._waiter = self._loop.create_future()
            with suppress(asyncio.CancelledError):
                await self._waiter
        return self._results

    def release(self) -> None:
        """Leave the connection to psycopg's cursors, until the next `send`."""
        self.unwatch()

    def alive(self) -> bool:
        """Return whether the connection still works, as far as this side can see.

        The socket of an idle connection is read here even if the loop watches it: the loop may not have run since
        the connection ended.
        """
        if self._done and not self.lost:
            try:
                # The first read may return the server's last message, the second the end of file.
                self.pgconn.consume_input()
                self.pgconn.is_busy()
                self.pgconn.consume_input()
            except psycopg.Error as error:
                self._lose(str(error))
        return not self.lost

    def abort(self, why: str) -> None:
        """Close the connection; a waiting task gets the results that have arrived."""
        if not self.lost:
            self._lose(why)

    def _readable(self) -> None:
        pgconn = self.pgconn
        try:
            pgconn.consume_input()
            while not pgconn.is_busy():
                result = pgconn.get_result()
                if result is None:
                    break
                self._results.append(result)
            else:
                return
        except psycopg.Error as error:
            self._lose(str(error))
            return
        if pgconn.status != pq.ConnStatus.OK:
            self._lose("the server closed the connection")
        elif not self._done:
            self._finish()

    def _lose(self, reason: str) -> None:
        super()._lose(reason)
        self._finish()

    def _finish(self) -> None:
        self._busy.discard(self)
        self._done = True
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)
        if self.on_answer is not None:
            self.on_answer(self._results)

    def _noticed(self, diagnostic: psycopg.errors.Diagnostic) -> None:
        if is_unsynced(diagnostic):
            self.unsynced = True
