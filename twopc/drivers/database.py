"""A persistent connection to one database, reconnected when it breaks; one caller at a time.

For work outside transactions: recovery, queries, forgetting. Every query sent through it must allow repetition.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, LiteralString

import psycopg
from psycopg import AsyncConnection

from twopc.errors import ConfigurationError
from twopc.sql import path

_CONNECT_TIMEOUT_S = 5
#: Time without an answer after which a connection is closed.
ANSWER_TIMEOUT_S = 30.0
#: Statement for sessions that make decisions or finish branches, whatever the server, database or role has set: a
#: result that is passed on must not be lost with the server. Stricter settings are left unchanged.
DURABLE: LiteralString = """
select set_config('synchronous_commit', 'on', false)
where current_setting('synchronous_commit') not in ('on', 'remote_apply')
"""


def connect_timeout(answer_timeout_s: float) -> int:
    """Return a connection timeout in whole seconds; libpq accepts none below two."""
    return max(2, min(_CONNECT_TIMEOUT_S, math.ceil(answer_timeout_s)))


class Database:
    """One database, under one role.

    Args:
        node: name of the node in the topology.
        dsn: connection string.
        application_name: name of the session at the server.
        answer_timeout_s: time without an answer after which the connection is cut; 30 s at most.
        unreachable: reason why the server could not be reached just now; no further attempt is made, which would
            take as long.
    """

    def __init__(
        self,
        node: str,
        dsn: str,
        application_name: str,
        *,
        answer_timeout_s: float = ANSWER_TIMEOUT_S,
        unreachable: str = "",
    ) -> None:
        self._unreachable = unreachable
        self._answer_timeout_s = min(answer_timeout_s, ANSWER_TIMEOUT_S)
        self.node = node
        self._dsn = dsn
        self._application_name = application_name
        self._connection: AsyncConnection[Any] | None = None
        self._is_closed = False
        self._lock = asyncio.Lock()

    @asynccontextmanager
    async def use(self) -> AsyncIterator[AsyncConnection[Any]]:
        """Yield the connection, in autocommit mode, for several statements in sequence.

        Raises:
            psycopg.OperationalError: the server cannot be reached.
        """
        async with self._lock:
            connection = await self._connected()
            with cut_after(connection, self._answer_timeout_s):
                yield connection

    async def fetch(self, query: LiteralString, params: Any = None) -> list[tuple[Any, ...]]:
        """Return all rows of a query, which is repeated once if the connection turns out to be broken.

        Raises:
            psycopg.Error: the query failed, or the server cannot be reached.
        """
        async with self._lock:
            was_open = self._connection is not None
            try:
                return await self._fetch(query, params)
            except psycopg.OperationalError:
                if not was_open or (self._connection and not self._connection.closed):
                    raise
            return await self._fetch(query, params)

    async def close(self) -> None:
        """Close the connection for good; later callers get an error. Idempotent.

        A connection that is being opened meanwhile is closed at the end of its checks.
        """
        self._is_closed = True
        await self._disconnect()

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _connected(self) -> AsyncConnection[Any]:
        if self._connection is not None and self._connection.closed:
            await self._disconnect()
        if self._is_closed:
            raise psycopg.OperationalError(f"the connection to {self.node} was closed")
        if self._unreachable:
            raise psycopg.OperationalError(self._unreachable)
        if self._connection is None:
            self._connection = await own_session(
                self.node, self._dsn, self._application_name, self._answer_timeout_s
            )
            if self._is_closed:  # closed during the attempt
                await self._disconnect()
                raise psycopg.OperationalError(f"the connection to {self.node} was closed")
        return self._connection

    async def _fetch(self, query: LiteralString, params: Any) -> list[tuple[Any, ...]]:
        connection = await self._connected()
        with cut_after(connection, self._answer_timeout_s):
            async with connection.cursor() as cursor:
                await cursor.execute(query, params)
                return await cursor.fetchall() if cursor.description else []


async def own_session(
    node: str, dsn: str, application_name: str, answer_timeout_s: float
) -> AsyncConnection[Any]:
    """Open a session of ours, which is durable and has our settings; see `direct` for `node`.

    Raises:
        psycopg.Error: the server cannot be reached, or does not answer in time.
        ConfigurationError: the connection leads through a pooler.
    """
    connection = await AsyncConnection.connect(
        dsn,
        autocommit=True,
        application_name=application_name,
        connect_timeout=connect_timeout(answer_timeout_s),
    )
    try:
        with cut_after(connection, answer_timeout_s):
            await connection.execute(DURABLE)
            [(pid,)] = await (await connection.execute("select pg_backend_pid()")).fetchall()
            direct(node, connection, pid)
            await connection.execute(path.SET)
    except BaseException:
        await connection.close()
        raise
    return connection


def direct(node: str, connection: AsyncConnection[Any], pid: int) -> None:
    """Check that the connection does not lead through a pooler: a session's settings, locks and role must persist
    between commands.

    Args:
        pid: process id of the backend that answered; libpq received one, too, when the connection was made.

    Raises:
        ConfigurationError: the process ids differ.
    """
    text = connection.info.backend_pid
    if pid != text:
        raise ConfigurationError(
            f"the connection to {node} leads through a pooler (process {pid} answers, {text} was said to): a "
            "coordinator has session state, an epoch that lives by it and the role that finishes a branch; "
            f"give it the address of {node}'s server itself"
        )


@contextmanager
def cut_after(connection: AsyncConnection[Any], seconds: float) -> Iterator[None]:
    """Cut the connection if the work in the block takes too long; a cancel request would need an answer, too."""
    timer = asyncio.get_running_loop().call_later(seconds, _cut, connection)
    try:
        yield
    finally:
        timer.cancel()


def _cut(connection: AsyncConnection[Any]) -> None:
    if not connection.closed:
        with socket.socket(fileno=os.dup(connection.fileno())) as wire:
            wire.shutdown(socket.SHUT_RDWR)
