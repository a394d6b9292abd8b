"""A scenario's sessions on real servers: coordinated at a Subscriber, plain at the Publisher.

See `twopc.sim.scenario.stage.StageSession` for what each method does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from twopc.errors import (
    ConfigurationError,
    DeliveryError,
    InDoubtError,
    LocalProtocolError,
    RejectedError,
    SubscriptionError,
    TransactionError,
    from_sqlstate,
)
from twopc.sim.scenario import sqltext
from twopc.sim.scenario.stage import NOT_SUBSCRIBED, Result, SetUpError, SyncError
from twopc.sim.sessions.waits import Observer
from twopc.sim.topology import Topology

_ONLY_PLAIN = "only a plain session takes a script"
_ONLY_SYNCS = "the agents' session only syncs: it has no transactions"


class Session:
    """What both kinds of session have in common."""

    def __init__(self, topology: Topology, node: str, observer: Observer) -> None:
        self._topology = topology
        self.node = node
        self._observer = observer
        self.at = ""
        self.pid = 0
        self.gid = ""
        self._count = 0
        self._open = False
        self._committed = False
        self.join: Callable[[str], Awaitable[None]] = topology.subscribe
        """Makes a Subscriber one, as its scenario says."""
        self.synced: tuple[str, ...] = ()
        """The Subscribers whose agents work for it now."""

    async def cancel(self) -> None:
        """Cancel the running statement at this session's own node."""
        for node, pid in await self.syncing():
            await self._observer.cancel(node, pid)
        for node, pid in self.pids.items():
            if pid:
                await self._observer.cancel(node, pid)

    @property
    def pids(self) -> Mapping[str, int]:
        """Its process at each node that it works at."""
        return {self.node: self.pid}

    async def syncing(self) -> list[tuple[str, int]]:
        """Node and process of the agents at work for this session."""
        found = []
        for name in self.synced:
            found += await self._topology.agents.processes(name)
        return found

    async def sync(self, subscribers: Sequence[str]) -> None:
        own = () if self.node == self._topology.publisher else (self.node,)
        self.synced = tuple(subscribers or own or self._topology.subscribers)
        try:
            await self._topology.sync(*self.synced)
        except DeliveryError as error:
            self._observer.is_disturbed = True
            state = error.sqlstate or ("08006" if self._observer.cut else "")
            raise SyncError(
                str(error), node=error.node, sqlstate=state, number=error.number
            ) from error
        except SubscriptionError as error:
            self._observer.is_disturbed = True
            raise SyncError(str(error), node=self.node, sqlstate=NOT_SUBSCRIBED) from error
        except (psycopg.OperationalError, ConfigurationError) as error:
            if not self._observer.cut:
                raise
            at = self._observer.cut[0]
            raise SyncError(f"{at} cannot be reached", node=at, sqlstate="08006") from error
        finally:
            self.synced = ()

    @property
    def notices(self) -> int:
        return self._count

    @property
    def is_open(self) -> bool:
        return self._open

    @property
    def has_committed(self) -> bool:
        return self._committed and not self.is_open

    def _noticed(self, _: object) -> None:
        self._count += 1

    async def script(self, text: str) -> Result:
        raise LocalProtocolError(_ONLY_PLAIN)

    def _error(self, error: psycopg.Error) -> TransactionError:
        """A server's refusal, as one of our exceptions."""
        return refusal(error, node=self.node, gid=self.gid)

    async def reinitialise(self) -> None:
        await self._change(self._topology.reinitialise(self.node))

    async def subscribe(self) -> None:
        await self._change(self.join(self.node))

    async def unsubscribe(self) -> None:
        await self._change(self._topology.unsubscribe(self.node))

    async def _change(self, work: Awaitable[None]) -> None:
        """Have something become of a subscription; it may wait for those who use its tables.

        Raises:
            RejectedError: it could not be, and nothing has changed.
        """
        self.pid = (await self._topology.admin(self.node)).info.backend_pid
        try:
            await work
        except TransactionError:
            raise
        except psycopg.Error as error:
            self._observer.is_disturbed = True
            raise self._error(error) from error
        except (SetUpError, ConfigurationError) as error:
            self._observer.is_disturbed = True
            state = _state_of(error)
            raise RejectedError(str(error), node=self.node, sqlstate=state) from error
        finally:
            self.pid = 0


def _state_of(error: BaseException | None) -> str:
    """What a server has said, if that is behind it."""
    while error is not None and not isinstance(error, psycopg.Error):
        error = error.__cause__
    return (error.sqlstate or "08006") if error is not None else NOT_SUBSCRIBED


class PublisherSession(Session):
    """Plain transactions at the Publisher."""

    _connection: psycopg.AsyncConnection[Any] | None = None
    _settles = "whether it is committed, its rows tell"
    """What becomes of a transaction whose connection was lost at its COMMIT."""

    async def begin(self, level: str, role: str = "") -> None:
        connection = await self._connect()
        begin = sql.SQL("begin isolation level {}").format(_level(level))
        if role:
            begin += sql.SQL("; set local role {}").format(sql.Identifier(role))
        try:
            await connection.execute(begin)
        except psycopg.Error as error:
            await connection.rollback()
            raise self._error(error) from error
        self._open, self._committed = True, False

    @property
    def dsn(self) -> str:
        """As whom it connects, and where."""
        return self._topology.nodes[self.node].app_dsn

    async def _connect(self) -> psycopg.AsyncConnection[Any]:
        if self._connection is None or self._connection.closed:
            timeout_ms = self._topology.wiring.lock_timeout_ms
            try:
                self._connection = await psycopg.AsyncConnection.connect(
                    self.dsn, autocommit=True, options=f"-c lock_timeout={timeout_ms}"
                )
            except psycopg.Error as error:
                raise self._error(error) from error
            self.pid = self._connection.info.backend_pid
            self._connection.add_notice_handler(self._noticed)
            self._connection.add_notify_handler(self._noticed)
        return self._connection

    async def execute(self, text: str, params: Mapping[str, Any]) -> Result:
        connection = await self._connect()
        try:
            return await executed(connection, text, params)
        except psycopg.Error as error:
            raise self._error(error) from error

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
        """The connection was lost while it was to commit: nobody has said how it ended."""
        return InDoubtError(
            f"the connection to {self.node} is lost: {str(error).strip()}; {self._settles}",
            gid=self.gid,
            node=self.node,
        )

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


class AgentsSession(Session):
    """Nobody's: it syncs, and has no transactions."""

    async def begin(self, level: str, role: str = "") -> None:
        raise LocalProtocolError(_ONLY_SYNCS)

    async def execute(self, text: str, params: Mapping[str, Any]) -> Result:
        raise LocalProtocolError(_ONLY_SYNCS)

    async def commit(self) -> None:
        raise LocalProtocolError(_ONLY_SYNCS)

    async def rollback(self) -> None:
        """Nothing is ever open."""

    async def close(self) -> None:
        """Nothing is ever open."""


class SubscriberSession(Session):
    """Coordinated transactions of a Subscriber, and of further ones with it.

    Args:
        also: the further ones.
    """

    _context: Any = None
    _transaction: Any = None

    def __init__(
        self, topology: Topology, node: str, observer: Observer, also: Sequence[str] = ()
    ) -> None:
        super().__init__(topology, node, observer)
        self._also = also

    @property
    def pids(self) -> Mapping[str, int]:
        if self._transaction is None or not self._also:
            return super().pids
        return {part.subscriber: part.pid for part in self._transaction.parts}

    async def begin(self, level: str, role: str = "") -> None:
        self._context = self._topology.transaction(
            self.node,
            *self._also,
            isolation=level,
            role=role or None,
            several_subscriptions=bool(self._also),
        )
        try:
            self._transaction = await self._context.__aenter__()
        except psycopg.Error as error:
            raise self._error(error) from error
        here = self._transaction.at(self.node)
        self.pid, self.gid = here.pid, self._transaction.gid
        self._open, self._committed = True, False

    async def execute(self, text: str, params: Mapping[str, Any]) -> Result:
        here = self._transaction.at(self.at or self.node)
        try:
            return await executed(here, text, params)
        except psycopg.Error as error:
            raise self._error(error) from error

    async def commit(self) -> None:
        try:
            await self._transaction.commit()
            self._committed = True
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
        self._open = False
        if context is not None:
            await context.__aexit__(None, None, None)

    async def close(self) -> None:
        await self.rollback()


def refusal(error: psycopg.Error, *, node: str, gid: str) -> TransactionError:
    """What the refusal of a server means for the transaction that it was in."""
    if isinstance(error, psycopg.ProgrammingError) and error.sqlstate is None:
        raise error  # the client library was used wrongly: a fault of ours
    return from_sqlstate(
        error.sqlstate or "08006",
        error.diag.message_primary or str(error),
        detail=error.diag.message_detail or "",
        hint=error.diag.message_hint or "",
        node=node,
        gid=gid,
    )


async def executed(connection: Any, text: str, params: Mapping[str, Any]) -> Result:
    """The result of one statement of a scenario."""
    used = {name: params[name] for name in sqltext.parameters(text)}
    query = sqltext.placeholders(text) if used else text
    return await result_of(await connection.execute(query, used or None))


async def result_of(cursor: Any) -> Result:
    """What the statement, or the last one of several, has returned."""
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
