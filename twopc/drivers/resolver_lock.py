"""The lock of a Subscriber's database by which clients detect whether their resolver is asleep, and their
notifications.

`twopc.drivers.resolver_watch` decides when the lock is taken.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from psycopg import AsyncConnection, errors, sql

from twopc.drivers.database import ANSWER_TIMEOUT_S, cut_after
from twopc.log import get_logger

_log = get_logger(__name__)

#: The same lock is used by refuse_unprepared.
_TRY_LOCK = "select pg_try_advisory_lock(1836282471, 0)"
_LOCK = "select pg_advisory_lock(1836282471, 0)"
#: Limit of the wait for the lock, during which branches wait to be finished.
_SET_TIMEOUT = "set lock_timeout = '20ms'"
_UNLOCK = "select pg_advisory_unlock(1836282471, 0)"
_RETRY_S = 0.5


class ServerLock:
    """See `twopc.drivers.resolver_watch.LockPort`.

    Args:
        connect: connects to the Subscriber.
        channel: the channel on which its clients notify.
    """

    def __init__(
        self, connect: Callable[[], Awaitable[AsyncConnection[Any]]], channel: str
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._connection: AsyncConnection[Any] | None = None

    async def open(self) -> None:
        """Connect and listen on the channel; idempotent.

        Raises:
            psycopg.Error: the Subscriber cannot be reached.
        """
        if self._connection is None or self._connection.closed:
            connection = await self._connect()
            try:
                with cut_after(connection, ANSWER_TIMEOUT_S):
                    await connection.execute(
                        sql.SQL("listen {}").format(sql.Identifier(self._channel))
                    )
                    await connection.execute(_SET_TIMEOUT.encode())
            except BaseException:
                await connection.close()
                raise
            self._connection = connection

    async def close(self) -> None:
        """Close the connection, which releases the lock; idempotent. `keep` must have been cancelled before."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def keep(self, watch: Callable[[], Awaitable[None]]) -> None:
        """Run `watch` until cancelled, with a new connection whenever one is lost."""
        while True:
            try:
                await self.open()
                await watch()
            except psycopg.Error as error:
                _log.warning("resolver does not hear", reason=" ".join(str(error).split()))
            except Exception:
                # a programming error must not end the watch
                _log.exception("resolver does not hear")
            await self.close()
            await asyncio.sleep(_RETRY_S)

    async def try_lock(self) -> bool:
        """See `LockPort`."""
        return await self._ask(_TRY_LOCK)

    async def take(self) -> bool:
        """See `LockPort`."""
        try:
            await self._ask(_LOCK)
        except errors.LockNotAvailable:
            return False
        return True

    async def give(self) -> None:
        """See `LockPort`."""
        await self._ask(_UNLOCK)

    async def hear(self, timeout_s: float | None) -> None:
        """See `LockPort`."""
        assert self._connection is not None
        async for _ in self._connection.notifies(timeout=timeout_s, stop_after=1):
            pass

    async def _ask(self, question: str) -> bool:
        connection = self._connection
        assert connection is not None
        with cut_after(connection, ANSWER_TIMEOUT_S):
            cursor = await connection.execute(question.encode())
            row = await cursor.fetchone()
        return bool(row and row[0])
