"""A libpq connection without psycopg's cursors: its socket, watched by the event loop, and COPY over it.

`Channel` is the base class of all such connections; `lean` sends command strings over one, the distribution agents
groups of statements, `CopyChannel` blocks of rows. None of them depends on the content.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

import psycopg
from psycopg import AsyncConnection, pq
from psycopg.errors import error_from_result

#: Statuses of results that are errors.
ERRORS: Final = frozenset((pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE))


class Channel:
    """One connection, which psycopg's cursors may use while it is not watched.

    Args:
        connection: a connection in autocommit mode.
    """

    __slots__ = ("_fd", "_loop", "_watched", "_writing", "connection", "lost", "pgconn")

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self.connection = connection
        self.pgconn = connection.pgconn
        self.lost = ""
        """Reason why nothing can be sent any more; empty while the connection works."""
        self._fd = self.pgconn.socket
        self._loop = asyncio.get_running_loop()
        self._watched = False
        self._writing = False

    def watch(self, readable: Callable[[], None]) -> None:
        """Call `readable` whenever data has arrived, until `unwatch`."""
        self._loop.add_reader(self._fd, readable)
        self._watched = True

    def unwatch(self) -> None:
        """Stop watching the socket. Idempotent."""
        # Only if watched here: the descriptor of a socket that psycopg closed may have been reused.
        if self._watched:
            self._loop.remove_reader(self._fd)
            self._watched = False
        if self._writing:
            self._loop.remove_writer(self._fd)
            self._writing = False

    def _write(self) -> None:
        """Send queued data: at once as much as the socket accepts, the rest from the event loop."""
        if self.pgconn.flush() and not self._writing:
            self._loop.add_writer(self._fd, self._writable)
            self._writing = True

    def _writable(self) -> None:
        try:
            if self.pgconn.flush():
                return
        except psycopg.Error as error:
            self._lose(str(error))
            return
        self._loop.remove_writer(self._fd)
        self._writing = False

    def _lose(self, reason: str) -> None:
        """Close the connection, which is unusable; a subclass notifies the waiting task."""
        self.lost = " ".join(reason.split()) or "the connection is lost"
        self.unwatch()
        self.pgconn.finish()

    async def close(self) -> None:
        """Close the connection in any state; idempotent."""
        self.unwatch()
        if not self.lost:
            self.lost = "the connection was closed"
        await self.connection.close()


class CopyChannel(Channel):
    """COPY in either direction and in both, used by one task; after an exception only `close` is allowed.

    psycopg's cursors return rows one by one and cannot copy in both directions; this class transfers blocks.
    """

    __slots__ = ("_consumed", "_waiter")

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        super().__init__(connection)
        self._consumed = False
        self._waiter: asyncio.Future[None] | None = None

    async def send(self, command: bytes) -> None:
        """Send a string of commands."""
        self.pgconn.send_query(command)
        await self.flush()

    async def result(self) -> pq.abc.PGresult | None:
        """Return the next result; None after the last one.

        Raises:
            psycopg.Error: the result is an error, or the connection is lost.
        """
        while self.pgconn.is_busy():
            await self.readable()
            self.pgconn.consume_input()
        result = self.pgconn.get_result()
        if result is not None and result.status in ERRORS:
            raise error_from_result(result, "utf-8")
        return result

    async def run(self, command: bytes, payloads: Sequence[Sequence[bytes]] = ()) -> None:
        """Send commands, and for each COPY FROM among them the next of the payloads."""
        await self.send(command)
        waiting = iter(payloads)
        while (result := await self.result()) is not None:
            if result.status == pq.ExecStatus.COPY_IN:
                self.pgconn.put_copy_data(b"".join(next(waiting)))
                self.pgconn.put_copy_end()
                await self.flush()

    async def begin_copy(self, command: bytes) -> None:
        """Send commands of which the last one is a COPY, and wait until the COPY is open."""
        copying = (pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT, pq.ExecStatus.COPY_BOTH)
        await self.send(command)
        while (result := await self.result()) is not None:
            if result.status in copying:
                return
        raise psycopg.InternalError(f"the server has not begun to copy: {command[:80]!r}")

    async def copy_in(self, parts: Sequence[bytes]) -> None:
        """Send data of an open COPY FROM."""
        self.pgconn.put_copy_data(b"".join(parts))
        await self.flush()

    async def end_copy(self) -> None:
        """End an open COPY FROM."""
        self.pgconn.put_copy_end()
        await self.flush()

    def copied(self) -> memoryview | None:
        """Return the next block of an open COPY TO that has arrived; None if no further one has.

        Raises:
            EndOfCopy: the copy has ended.
            psycopg.Error: the server reports an error, or the connection is lost.
        """
        get = self.pgconn.get_copy_data
        length, data = get(1)
        if length == 0:
            self.pgconn.consume_input()
            length, data = get(1)
            if length == 0:
                return None
        if length == -1:
            raise EndOfCopy
        return data

    async def finish(self) -> None:
        """Read the results that follow the data."""
        while await self.result() is not None:
            pass

    async def flush(self) -> None:
        """Wait until all data is sent; incoming data is consumed meanwhile, because otherwise both ends could wait
        for each other.
        """
        while self.pgconn.flush():
            self._loop.add_writer(self._fd, self._writable)
            self._writing = True
            await self._ready(None)
            self.pgconn.consume_input()
            self._consumed = True

    async def readable(self, stop: asyncio.Future[Any] | None = None) -> None:
        """Wait until data arrives, or `stop` is done."""
        if self._consumed:
            # data may have been consumed while sending: the socket would not become readable again
            self._consumed = False
            return
        await self._ready(stop)

    async def _ready(self, stop: asyncio.Future[Any] | None) -> None:
        waiter = self._waiter = self._loop.create_future()
        self.watch(self._wake)
        try:
            if stop is None:
                await waiter
            else:
                await asyncio.wait((waiter, stop), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.unwatch()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    _writable = _wake


class EndOfCopy(Exception):  # noqa: N818 # not an error
    """An open COPY TO has ended without error."""
