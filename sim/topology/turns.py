"""Turns of commands that change subscriptions: those of one Subscriber, and the registry, are changed by one command
at a time, whichever process runs it.

Otherwise a command that fails would withdraw what another one has just registered, and the one that removes the last
subscription would drop the slot of one that is being made. Sessions hold the locks, so a killed command holds none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection

from twopc.errors import ConfigurationError
from twopc.publisher.distribution import retention
from twopc.sql.exclusive import free_key, others

_NAME = "'msrepl changes of ' || %s"
_MAY_CHANGE = "has_table_privilege(a.usesysid, 'msrepl.mssubscriptions', 'insert')"
_FREE_KEY = free_key(_NAME, _MAY_CHANGE)
_OTHERS = others(_NAME, _MAY_CHANGE)
#: Interval at which a command that waits for its turn looks.
_LOOK_EVERY_S = 0.05


@asynccontextmanager
async def turn(
    connection: AsyncConnection[Any], what: str, *, timeout_s: float = 0.0
) -> AsyncIterator[None]:
    """Return a context in which no other command changes the same thing.

    Args:
        connection: an administrator's to the distribution database, in autocommit mode, for the turn alone.
        what: name of the thing that is changed.
        timeout_s: time to wait for another command.

    Raises:
        ConfigurationError: another command (its session is named) still changes it.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    while (holder := await _take(connection, what)) is not None:
        if loop.time() >= end:
            raise ConfigurationError(
                f"another command changes {what} at this moment ({holder}): wait until it has ended, and try again"
            )
        await asyncio.sleep(_LOOK_EVERY_S)
    yield


@asynccontextmanager
async def between_copies(
    connection: AsyncConnection[Any], *, timeout_s: float
) -> AsyncIterator[None]:
    """Return a context in which no rows are copied to any Subscriber; a copy that begins meanwhile waits.

    Args:
        connection: as for `turn`.
        timeout_s: time to wait for copies and the clean-up.

    Raises:
        ConfigurationError: they do not end in time.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_s
    while True:
        async with retention.alone(connection) as is_alone:
            if is_alone:
                yield
                return
        if loop.time() >= end:
            raise ConfigurationError(
                "the Publisher's log is to begin anew, and another command is copying rows to a Subscriber: wait until "
                "it has ended, and try again"
            )
        await asyncio.sleep(_LOOK_EVERY_S)


async def _take(connection: AsyncConnection[Any], what: str) -> str | None:
    """Take the lock until the session ends; return the session that holds it if another one does."""
    ((*key, _),) = await (await connection.execute(_FREE_KEY, (what,))).fetchall()
    ((is_taken,),) = await (
        await connection.execute("select pg_try_advisory_lock(%s, %s)", key)
    ).fetchall()
    other = await (await connection.execute(_OTHERS, (what,))).fetchone()
    if is_taken and other is None:
        return None
    if is_taken:
        await connection.execute("select pg_advisory_unlock(%s, %s)", key)
    return str(other[2]) if other is not None else "gone just now"
