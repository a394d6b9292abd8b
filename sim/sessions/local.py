"""Sessions of one node on a real server, independent of the kind of replication.

See `twopc.sim.sessions.interface.ClientSession` for the methods.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import pq, sql

from twopc.errors import (
    ConfigurationError,
    InDoubtError,
    LocalProtocolError,
    RejectedError,
    TransactionError,
    from_sqlstate,
)
from twopc.sim.scenario import sqltext
from twopc.sim.sessions.interface import ONLY_SYNCS, ClientSession
from twopc.sim.sessions.results import Result, Rows
from twopc.sim.sessions.scripts import SessionMessage, message_of
from twopc.sim.sessions.waits import Observer

if TYPE_CHECKING:
    from twopc.sim.merge import MergeTopology
    from twopc.sim.topology import Topology

LEVELS = ("read committed", "repeatable read", "serializable")
#: The transaction ID in the form of xmin: 32 bits, without the epoch.
_XID = b"select (pg_current_xact_id_if_assigned()::text::bigint % 4294967296)::text"
#: Converts a server's error into an exception, given the node and the global transaction.
Refusal = Callable[..., Exception]


class OneNodeSession(ClientSession):
    """Common part of all kinds of session on servers; has no transactions itself.

    Args:
        refusal: converts a server's error into an exception; default: one of `twopc.errors`.
    """

    gid = ""

    def __init__(self, node: str, observer: Observer, *, refusal: Refusal | None = None) -> None:
        super().__init__(node)
        self._observer = observer
        self._refusal = refusal or refused
        self.messages: list[SessionMessage] = []

    async def cancel(self) -> None:
        """Cancel the running statement at this session's own node."""
        for node, pid in await self.syncing():
            await self._observer.cancel(node, pid)
        for node, pid in self.pids.items():
            if pid:
                await self._observer.cancel(node, pid)

    def _noticed(self, arrived: psycopg.errors.Diagnostic | psycopg.Notify) -> None:
        self.messages.append(message_of(arrived))

    async def execute(self, text: str, params: Mapping[str, Any]) -> Result:
        used = {name: params[name] for name in sqltext.parameters(text)}
        return await self.send(sqltext.placeholders(text) if used else text, used or None)

    async def send(self, query: Any, params: Any = None) -> Result:
        """Run one statement, with parameters in the form of the client library."""
        try:
            return await self._send(query, params)
        except psycopg.Error as error:
            raise self._error(error) from error

    async def _send(self, query: Any, params: Any) -> Result:
        raise LocalProtocolError(ONLY_SYNCS)

    def _error(self, error: psycopg.Error) -> Exception:
        """Return a server's error as the application sees it."""
        return self._refusal(error, node=self.node, gid=self.gid)


class LocalSession(OneNodeSession):
    """Plain transactions at one node."""

    _topology: Topology | MergeTopology
    _connection: psycopg.AsyncConnection[Any] | None = None
    _settles = "whether it is committed, its rows tell"
    """How the outcome of a transaction is determined whose connection was lost at COMMIT; part of a message."""

    @property
    def dsn(self) -> str:
        """Connection string of the application's role."""
        return self._topology.node(self.node).app_dsn

    @property
    def application(self) -> str | None:
        """The connection's application_name; None: not set."""
        return None

    async def begin(self, level: str, role: str = "") -> None:
        before, connection = self._connection, await self._connect()
        begin = sql.SQL("begin isolation level {}").format(_level(level))
        if role:
            begin += sql.SQL("; set local role {}").format(sql.Identifier(role))
        try:
            await connection.execute(begin)
        except psycopg.Error as error:
            if not connection.closed:
                await connection.rollback()
            elif connection is before:  # terminated while idle: no transaction is lost
                await self.begin(level, role)
                return
            raise self._error(error) from error
        self._open, self._committed = True, False

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is None or self._connection.closed:
            try:
                self._connection = await psycopg.AsyncConnection.connect(
                    self.dsn,
                    autocommit=True,
                    options=f"-c lock_timeout={self._topology.wiring.lock_timeout_ms}",
                    application_name=self.application,
                )
            except psycopg.Error as error:
                raise self._error(error) from error
            self.pid = self._connection.info.backend_pid
            self._connection.add_notice_handler(self._noticed)
            self._connection.add_notify_handler(self._noticed)
        return self._connection

    async def _send(self, query: Any, params: Any) -> Result:
        # a new connection would not be in the transaction
        connection = self._connection if self._open else None
        connection = connection or await self._connect()
        return await result_of(await connection.execute(query, params))

    async def xid(self) -> str:
        connection = self._connection
        if connection is None or connection.info.transaction_status != pq.TransactionStatus.INTRANS:
            return ""
        try:
            cursor = await connection.execute(_XID)
            row = await cursor.fetchone()
        except psycopg.Error:
            return ""  # the next statement reports the cause
        return row[0] or "" if row else ""

    async def commit(self) -> None:
        connection, self._open = self._connection, False
        if connection is None or connection.closed:
            raise RejectedError(
                f"the connection to {self.node} was lost before COMMIT was sent",
                gid=self.gid,
                node=self.node,
                sqlstate="08006",
            )
        try:
            cursor = await connection.execute(b"commit")
        except psycopg.Error as error:
            if connection.closed:
                raise self._in_doubt(error) from error
            raise self._error(error) from error
        if cursor.statusmessage != "COMMIT":
            raise RejectedError(
                "the transaction was rolled back: a statement of it had failed",
                gid=self.gid,
                node=self.node,
            )
        self._committed = True

    async def rollback(self) -> None:
        self._open = False
        if self._connection is not None and not self._connection.closed:
            try:
                await self._connection.execute(b"rollback")
            except psycopg.Error as error:
                raise self._error(error) from error

    def _in_doubt(self, error: psycopg.Error) -> InDoubtError:
        """Return the error for a connection that was lost at COMMIT, so that the outcome is unknown."""
        return InDoubtError(
            f"the connection to {self.node} is lost: {str(error).strip()}; {self._settles}",
            gid=self.gid,
            node=self.node,
        )

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


def refused(error: psycopg.Error, *, node: str, gid: str) -> TransactionError:
    """Return the exception that a server's error means for its transaction."""
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        raise error  # misuse of the client library: a bug of ours
    return from_sqlstate(
        error.sqlstate or "08006",
        error.diag.message_primary or str(error),
        detail=error.diag.message_detail or "",
        hint=error.diag.message_hint or "",
        node=node,
        gid=gid,
    )


async def result_of(cursor: Any) -> Result:
    """Return the result of a statement, or of the last one of several."""
    names = tuple(column.name for column in cursor.description or ())
    rows = await cursor.fetchall() if cursor.description else ()
    return Result(
        rows=Rows(dict(zip(names, row, strict=True)) for row in rows),
        rowcount=cursor.rowcount,
        tag=cursor.statusmessage or "",
        columns=names,
    )


def _level(level: str) -> sql.Composable:
    if level not in LEVELS:
        raise ConfigurationError(f"isolation level {level!r} is not known")
    return sql.SQL(level)
