"""A scenario's sessions on real servers: coordinated at a Subscriber, plain at the Publisher.

See `sim.scenario.stage.StageSession` for what each method does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from sim.scenario import sqltext
from sim.scenario.stage import Result, SyncError
from sim.scenario.waits import Observer
from sim.topology import Topology
from twopc.errors import (
    ConfigurationError,
    DeliveryError,
    LocalProtocolError,
    TransactionError,
    from_sqlstate,
)

_ONLY_SYNCS = "the agents' session only syncs: it has no transactions"


class _Session:
    """What both kinds of session have in common."""

    def __init__(self, topology: Topology, node: str, observer: Observer) -> None:
        self._topology = topology
        self.node = node
        self._observer = observer
        self.pid = 0
        self.gid = ""
        self._synced: tuple[str, ...] = ()

    async def cancel(self) -> None:
        """Cancel the running statement at this session's own node."""
        for node, pid in await self.syncing():
            await self._observer.cancel(node, pid)
        if self.pid:
            await self._observer.cancel(self.node, self.pid)

    async def syncing(self) -> list[tuple[str, int]]:
        """Node and process of the agents at work for this session."""
        found = []
        for name in self._synced:
            found += await self._topology.agent_processes(name)
        return found

    async def sync(self, subscribers: Sequence[str]) -> None:
        own = () if self.node == self._topology.publisher else (self.node,)
        self._synced = tuple(subscribers or own or self._topology.subscribers)
        try:
            await self._topology.sync(*self._synced)
        except DeliveryError as error:
            raise SyncError(
                str(error), node=error.node, sqlstate=error.sqlstate, number=error.number
            ) from error
        finally:
            self._synced = ()

    def _error(self, error: psycopg.Error) -> TransactionError:
        """A server's refusal, as one of our exceptions."""
        if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
            raise error  # the client library was used wrongly: a fault of ours
        return from_sqlstate(
            error.sqlstate or "08006",
            error.diag.message_primary or str(error),
            detail=error.diag.message_detail or "",
            hint=error.diag.message_hint or "",
            node=self.node,
            gid=self.gid,
        )

    async def reinitialise(self) -> None:
        await self._topology.reinitialise(self.node)


class PublisherSession(_Session):
    """Plain transactions at the Publisher."""

    _connection: psycopg.AsyncConnection[Any] | None = None

    async def begin(self, level: str) -> None:
        connection = await self._connect()
        try:
            await connection.execute(sql.SQL("begin isolation level {}").format(_level(level)))
        except psycopg.Error as error:
            raise self._error(error) from error

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is None or self._connection.closed:
            node = self._topology.nodes[self.node]
            timeout_ms = self._topology.lock_timeout_ms
            try:
                self._connection = await psycopg.AsyncConnection.connect(
                    node.app_dsn, autocommit=True, options=f"-c lock_timeout={timeout_ms}"
                )
            except psycopg.Error as error:
                raise self._error(error) from error
            self.pid = self._connection.info.backend_pid
        return self._connection

    async def execute(self, text: str, params: Mapping[str, Any]) -> Result:
        connection = await self._connect()
        try:
            return await _executed(connection, text, params)
        except psycopg.Error as error:
            raise self._error(error) from error

    async def commit(self) -> None:
        await self._end("commit")

    async def rollback(self) -> None:
        await self._end("rollback")

    async def _end(self, how: str) -> None:
        if self._connection is not None and not self._connection.closed:
            try:
                await self._connection.execute(how.encode())
            except psycopg.Error as error:
                raise self._error(error) from error

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


class AgentsSession(_Session):
    """Nobody's: it syncs, and has no transactions."""

    async def begin(self, level: str) -> None:
        raise LocalProtocolError(_ONLY_SYNCS)

    async def execute(self, text: str, params: Mapping[str, Any]) -> Result:
        raise LocalProtocolError(_ONLY_SYNCS)

    async def commit(self) -> None:
        raise LocalProtocolError(_ONLY_SYNCS)

    async def rollback(self) -> None:
        """Nothing is ever open."""

    async def close(self) -> None:
        """Nothing is ever open."""


class SubscriberSession(_Session):
    """Coordinated transactions of a Subscriber."""

    _context: Any = None
    _transaction: Any = None

    async def begin(self, level: str) -> None:
        self._context = self._topology.transaction(self.node, isolation=level)
        try:
            self._transaction = await self._context.__aenter__()
        except psycopg.Error as error:
            raise self._error(error) from error
        self.pid, self.gid = self._transaction.pid, self._transaction.gid

    async def execute(self, text: str, params: Mapping[str, Any]) -> Result:
        try:
            return await _executed(self._transaction, text, params)
        except psycopg.Error as error:
            raise self._error(error) from error

    async def commit(self) -> None:
        try:
            await self._transaction.commit()
        finally:
            await self._leave()

    async def rollback(self) -> None:
        if self._transaction is None:
            return
        try:
            await self._transaction.rollback()
        finally:
            await self._leave()

    async def _leave(self) -> None:
        context, self._context, self._transaction, self.pid = self._context, None, None, 0
        if context is not None:
            await context.__aexit__(None, None, None)

    async def close(self) -> None:
        await self.rollback()


async def _executed(connection: Any, text: str, params: Mapping[str, Any]) -> Result:
    used = {name: params[name] for name in sqltext.parameters(text)}
    query = sqltext.placeholders(text) if used else text
    cursor = await connection.execute(query, used or None)
    names = [column.name for column in cursor.description or ()]
    rows = await cursor.fetchall() if cursor.description else None
    return Result(
        rows=None if rows is None else tuple(dict(zip(names, row, strict=True)) for row in rows),
        rowcount=cursor.rowcount,
        tag=cursor.statusmessage or "",
    )


def _level(level: str) -> sql.Composable:
    if level not in ("read committed", "repeatable read", "serializable"):
        raise ConfigurationError(f"isolation level {level!r} is not known")
    return sql.SQL(level)
