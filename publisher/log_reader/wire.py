"""COPY over libpq, in either direction and in both, without a cursor.

psycopg's cursors hand rows out one by one and cannot copy in both directions; this moves blocks. It must not
know what is in them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection, pq
from psycopg.errors import error_from_result

_FAILED = frozenset((pq.ExecStatus.FATAL_ERROR, pq.ExecStatus.BAD_RESPONSE))


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Wire:
    """One connection, used by one task; after an exception it is good for nothing but `close`.

    Args:
        connection: in autocommit mode. psycopg's cursors may use it while no command of ours is open.
    """

    __slots__ = ("_fd", "_loop", "_taken_in", "connection", "pgconn")

    def __init__(self, connection: AsyncConnection[Any]) -> None:
        self.connection = connection
        self.pgconn = connection.pgconn
        self._fd = self.pgconn.socket
        self._loop = asyncio.get_running_loop()
        self._taken_in = False

    async def send(self, command: bytes) -> None:
        """Send a string of commands."""
        self.pgconn.send_query(command)
        await self.flush()

    async def result(self) -> pq.abc.PGresult | None:
        """The next result; None after the last one.

        Raises:
            psycopg.Error: it is an error, or the connection is lost.
        """
        while self.pgconn.is_busy():
            await self.readable()
            self.pgconn.consume_input()
        found = self.pgconn.get_result()
        if found is not None and found.status in _FAILED:
            raise error_from_result(found, "utf-8")
        return found

    async def run(self, command: bytes, payloads: Sequence[Sequence[bytes]] = ()) -> None:
        """Send commands, and to each COPY FROM among them the next one of the payloads."""
        await self.send(command)
        waiting = iter(payloads)
        while (found := await self.result()) is not None:
            if found.status == pq.ExecStatus.COPY_IN:
                self.pgconn.put_copy_data(b"".join(next(waiting)))
                self.pgconn.put_copy_end()
                await self.flush()

    async def begin_copy(self, command: bytes) -> None:
        """Send commands of which the last one is a COPY; returns when it is open."""
        copying = (pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT, pq.ExecStatus.COPY_BOTH)
        await self.send(command)
        while (found := await self.result()) is not None:
            if found.status in copying:
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
        """The next piece of data of an open COPY TO that has arrived; None: nothing more has.

        Raises:
            EndOfCopy: there will be nothing more.
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
        """Take the results that come after the data."""
        while await self.result() is not None:
            pass

    async def flush(self) -> None:
        """Wait until everything is sent; what arrives meanwhile is taken in, or both ends could wait."""
        while self.pgconn.flush():
            waiter = self._loop.create_future()
            self._loop.add_reader(self._fd, _wake, waiter)
            self._loop.add_writer(self._fd, _wake, waiter)
            try:
                await waiter
            finally:
                self._loop.remove_reader(self._fd)
                self._loop.remove_writer(self._fd)
            self.pgconn.consume_input()
            self._taken_in = True

    async def readable(self, stop: asyncio.Future[None] | None = None) -> None:
        """Wait until something arrives, or `stop` is done."""
        if (
            self._taken_in
        ):  # it may have arrived while we were sending: the socket would not tell again
            self._taken_in = False
            return
        waiter = self._loop.create_future()
        self._loop.add_reader(self._fd, _wake, waiter)
        try:
            if stop is None:
                await waiter
            else:
                await asyncio.wait((waiter, stop), return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._loop.remove_reader(self._fd)

    async def close(self) -> None:
        """Close the connection, whatever it is doing; harmless twice."""
        await self.connection.close()


class EndOfCopy(Exception):  # noqa: N818 # not an error
    """An open COPY TO has ended in order."""
