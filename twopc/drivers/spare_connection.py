"""A lean connection that is opened on demand, and reopened when it breaks.

For commands that may be repeated. This module must not depend on the commands.
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
    """Runs one command at a time.

    Args:
        connect: opens the connection, in autocommit mode.
    """

    def __init__(self, connect: Callable[[], Awaitable[AsyncConnection[Any]]]) -> None:
        self._connect = connect
        self._lean: Lean | None = None

    async def run(self, command: sql.Composed) -> list[pq.abc.PGresult]:
        """Return the results of one message; a refusal is one of them.

        Raises:
            psycopg.OperationalError: the connection cannot be opened, or broke, so that it is unknown whether the
                command was executed; or it was executed, but the wait for the synchronous standby was interrupted.
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
        if task is not None and task.cancelling():
            # `Lean.answer` is not interrupted by a cancellation
            raise asyncio.CancelledError
        if lean.lost:
            raise psycopg.OperationalError(lean.lost)
        if lean.unsynced:
            raise psycopg.OperationalError("it is done, but not on the synchronous standby")
        return results

    async def close(self) -> None:
        """Close the connection; idempotent. `run` opens another."""
        lean, self._lean = self._lean, None
        if lean is not None:
            await lean.close()
