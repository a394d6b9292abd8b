"""A lean connection that is made when it is needed, and again when it broke.

For what may be said twice. It must not know what is said.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import psycopg
from psycopg import AsyncConnection, pq, sql

from twopc.drivers.database import ANSWER_TIMEOUT_S, cut_after
from twopc.drivers.lean import Lean


class SerialConnection:
    """Says one thing at a time.

    Args:
        connect: makes the connection, in autocommit mode.
    """

    def __init__(self, connect: Callable[[], Awaitable[AsyncConnection[Any]]]) -> None:
        self._connect = connect
        self._lean: Lean | None = None

    async def run(self, command: sql.Composed) -> list[pq.abc.PGresult]:
        """The results of one message; a refusal is one of them.

        Raises:
            psycopg.OperationalError: the connection does not come about, or broke, and nobody knows whether
                the command was carried out; or it was, and the synchronous standby was not waited for.
        """
        lean = self._lean
        if lean is not None and not lean.alive():
            await self.close()
            lean = None
        if lean is None:
            lean = self._lean = Lean(await self._connect(), set())
        with cut_after(lean.connection, ANSWER_TIMEOUT_S):
            results = await lean.run(command.as_bytes(lean.connection))
        task = asyncio.current_task()
        if task is not None and task.cancelling():  # an answer is awaited to its end
            raise asyncio.CancelledError
        if lean.lost:
            raise psycopg.OperationalError(lean.lost)
        if lean.unsynced:
            raise psycopg.OperationalError("it is done, but not on the synchronous standby")
        return results

    async def close(self) -> None:
        """Close the connection; idempotent. `run` makes another."""
        lean, self._lean = self._lean, None
        if lean is not None:
            await lean.close()
