"""Finds what any client has decided soon after its commit, and hands it on.

A NOTIFY of each commit would be simplest, but a server lets only one transaction that has one commit at a time,
its flush included, and with many clients that is what they all wait for. So a watch that has found something
stays awake and looks every millisecond; only while it sleeps are clients asked to notify. An advisory lock of
the Subscriber's database says which:

- asleep, it holds the lock exclusively; a client that cannot share it at its COMMIT notifies;
- so it does while it is far behind;
- a client that can share it holds it until its commit can be seen, so that nobody falls asleep over it.

Whoever else takes the lock makes us look more often, or clients notify more often; nothing is missed. It must not
know what is found, nor what is done with it.
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

#: Taken by refuse_unprepared, too.
_TRY = "select pg_try_advisory_lock(1836282471, 0)"
_TAKE = "select pg_advisory_lock(1836282471, 0)"
#: How long it waits for the lock while branches wait for it.
_PATIENCE = "set lock_timeout = '20ms'"
_GIVE = "select pg_advisory_unlock(1836282471, 0)"
#: The first pause between looks, doubled while nothing is found.
_PACE_S = 0.001
#: From which pause on it tries to fall asleep.
_DROWSY_S = 0.016
_PAUSE_MAX_S = 0.064
#: When a look has found so much, clients are held back by having to notify.
_BEHIND = 8
_RETRY_S = 0.5


class ResolverLoop:
    """Looks while there is something to find, and sleeps until it is told of more.

    Args:
        connect: to the Subscriber.
        channel: on which its clients notify.
        look: does what there is to do, and tells how much that was.
    """

    def __init__(
        self,
        connect: Callable[[], Awaitable[AsyncConnection[Any]]],
        channel: str,
        look: Callable[[], Awaitable[int]],
    ) -> None:
        self._connect = connect
        self._channel = channel
        self._look = look
        self._connection: AsyncConnection[Any] | None = None

    async def open(self) -> None:
        """Begin to listen.

        Raises:
            psycopg.Error: the Subscriber cannot be reached.
        """
        await self._listening()

    async def close(self) -> None:
        """Stop listening; idempotent. `run` was cancelled before."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                await self._watch(await self._listening())
            except psycopg.Error as error:
                _log.warning("resolver does not hear", reason=" ".join(str(error).split()))
            except Exception:
                _log.exception("resolver does not hear")  # a fault of ours must not end the watch
            await self.close()  # and with it the lock
            await asyncio.sleep(_RETRY_S)

    async def _watch(self, connection: AsyncConnection[Any]) -> None:
        pause_s = _PACE_S
        while True:
            done = await self._look()
            if done > _BEHIND:
                if await self._take(connection):
                    while await self._look() > _BEHIND:
                        pass
                    await self._ask(connection, _GIVE)
                pause_s = _PACE_S
            elif done:
                pause_s = _PACE_S
            elif pause_s >= _DROWSY_S and await self._ask(connection, _TRY):
                if not await self._look():  # what was committed before we had the lock
                    await self._hear(connection, None)
                    await self._look()
                await self._ask(connection, _GIVE)
                pause_s = _PACE_S
                continue
            else:
                pause_s = min(2 * pause_s, _PAUSE_MAX_S)
            await self._hear(connection, pause_s)

    async def _listening(self) -> AsyncConnection[Any]:
        if self._connection is None or self._connection.closed:
            connection = await self._connect()
            try:
                with cut_after(connection, ANSWER_TIMEOUT_S):
                    await connection.execute(
                        sql.SQL("listen {}").format(sql.Identifier(self._channel))
                    )
                    await connection.execute(_PATIENCE.encode())
            except BaseException:
                await connection.close()
                raise
            self._connection = connection
        return self._connection

    async def _take(self, connection: AsyncConnection[Any]) -> bool:
        """Whether it got the lock: a client may hold it for as long as its end takes, or for no reason."""
        try:
            await self._ask(connection, _TAKE)
        except errors.LockNotAvailable:
            return False
        return True

    @staticmethod
    async def _ask(connection: AsyncConnection[Any], question: str) -> bool:
        with cut_after(connection, ANSWER_TIMEOUT_S):
            cursor = await connection.execute(question.encode())
            row = await cursor.fetchone()
        return bool(row and row[0])

    @staticmethod
    async def _hear(connection: AsyncConnection[Any], timeout_s: float | None) -> None:
        """Wait for a notice, or for so long; what it says does not matter, as anybody may say it."""
        async for _ in connection.notifies(timeout=timeout_s, stop_after=1):
            pass
