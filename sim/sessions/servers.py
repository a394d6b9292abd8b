"""Sessions on real servers: coordinated at a Subscriber, plain at the Publisher.

See `twopc.sim.sessions.interface.ClientSession` for what each method does.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import pq, sql

from twopc.drivers import PostgresCoordinator
from twopc.drivers.transaction import Transaction
from twopc.errors import (
    ConfigurationError,
    DeliveryError,
    InDoubtError,
    LocalProtocolError,
    RejectedError,
    ScenarioError,
    SubscriptionError,
    TransactionError,
    from_sqlstate,
)
from twopc.sim.scenario import sqltext
from twopc.sim.sessions.interface import NOT_SUBSCRIBED, ONLY_PLAIN, ONLY_SYNCS, SyncError
from twopc.sim.sessions.results import Result, Rows
from twopc.sim.sessions.scripts import SessionMessage, message_of
from twopc.sim.sessions.waits import Observer
from twopc.sim.topology import Topology

#: As rows have it.
_XID = b"select (pg_current_xact_id_if_assigned()::text::bigint % 4294967296)::text"
#: What a server's error becomes, for the node where it was and the global transaction that it was in.
Refusal = Callable[..., Exception]


class PostgresSession:
    """What all kinds of session have in common; as it stands it is nobody's, who only syncs.

    Args:
        name: by which its application is known at the servers; empty: by none.
        refusal: makes an exception of a server's error; without it, one of `twopc.errors`.
    """

    def __init__(
        self,
        topology: Topology,
        node: str,
        observer: Observer,
        *,
        name: str = "",
        refusal: Refusal | None = None,
    ) -> None:
        self._topology = topology
        self.node = node
        self._observer = observer
        self._name = name
        self._refusal = refusal or refused
        self.at = ""
        self.pid = 0
        self.gid = ""
        self.messages: list[SessionMessage] = []
        self.printable: list[dict[str, Any]] = []
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

    async def xid(self) -> str:
        """See `twopc.sim.sessions.interface.ClientSession`: a coordinated transaction has markers."""
        return ""

    async def syncing(self) -> list[tuple[str, int]]:
        """Node and process of the agents at work for this session."""
        results = []
        for name in self.synced:
            results += await self._topology.agents.processes(name)
        return results

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
    def is_open(self) -> bool:
        return self._open

    @property
    def has_committed(self) -> bool:
        return self._committed and not self.is_open

    def collect(self) -> None:
        """Take in what has arrived while nothing ran."""

    def _noticed(self, arrived: psycopg.errors.Diagnostic | psycopg.Notify) -> None:
        self.messages.append(message_of(arrived))

    async def begin(self, level: str, role: str = "") -> None:
        raise LocalProtocolError(ONLY_SYNCS)

    async def execute(self, text: str, params: Mapping[str, Any]) -> Result:
        used = {name: params[name] for name in sqltext.parameters(text)}
        return await self.send(sqltext.placeholders(text) if used else text, used or None)

    async def send(self, query: Any, params: Any = None) -> Result:
        """One statement, and its parameters, as the client library takes them."""
        try:
            return await self._send(query, params)
        except psycopg.Error as error:
            raise self._error(error) from error

    async def _send(self, query: Any, params: Any) -> Result:
        raise LocalProtocolError(ONLY_SYNCS)

    async def script(self, text: str) -> Result:
        raise LocalProtocolError(ONLY_PLAIN)

    async def commit(self) -> None:
        raise LocalProtocolError(ONLY_SYNCS)

    async def rollback(self) -> None:
        """Nothing is open."""

    async def close(self) -> None:
        """Leave; what is open is rolled back."""

    def _error(self, error: psycopg.Error) -> Exception:
        """A server's refusal, as its application is told."""
        return self._refusal(error, node=self.node, gid=self.gid)

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
        except (ScenarioError, ConfigurationError) as error:
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


class PublisherSession(PostgresSession):
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
            name = f"twopc/{self._name} {self._topology.name}"[:63] if self._name else None
            timeout_ms = self._topology.wiring.lock_timeout_ms
            try:
                self._connection = await psycopg.AsyncConnection.connect(
                    self.dsn,
                    autocommit=True,
                    options=f"-c lock_timeout={timeout_ms}",
                    application_name=name,
                )
            except psycopg.Error as error:
                raise self._error(error) from error
            self.pid = self._connection.info.backend_pid
            self._connection.add_notice_handler(self._noticed)
            self._connection.add_notify_handler(self._noticed)
        return self._connection

    async def _send(self, query: Any, params: Any) -> Result:
        connection = (
            self._connection if self._open else None
        )  # never another one: it has no transaction
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
            return ""  # whatever comes next tells why
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
        """The connection was lost while it was to commit: nobody has said how it ended."""
        return InDoubtError(
            f"the connection to {self.node} is lost: {str(error).strip()}; {self._settles}",
            gid=self.gid,
            node=self.node,
        )

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()


class SubscriberSession(PostgresSession):
    """Coordinated transactions of a Subscriber, and of further ones with it.

    Args:
        also: the further ones.
        place, options: see `PostgresSession`.
    """

    _transaction: Transaction | None = None

    def __init__(self, *place: Any, also: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*place, **options)
        self._also = also

    @property
    def pids(self) -> Mapping[str, int]:
        if self._transaction is None or not self._also:
            return super().pids
        return {part.subscriber: part.pid for part in self._transaction.parts}

    async def begin(self, level: str, role: str = "") -> None:
        topology = self._topology
        made = transaction_at(
            await topology.coordinator(),
            (self.node, *self._also),
            isolation=level,
            shipping=topology.shipping,
            commit=topology.commit,
            role=role or None,
        )
        try:
            self._transaction = await made.begin()
        except psycopg.Error as error:
            raise self._error(error) from error
        self.pid, self.gid = made.at(self.node).pid, made.gid
        self._open, self._committed = True, False

    async def _send(self, query: Any, params: Any) -> Result:
        if self._transaction is None:
            raise LocalProtocolError(f"no transaction is open at {self.node}")
        here = self._transaction.at(self.at or self.node)
        return await result_of(await here.execute(query, params))

    async def commit(self) -> None:
        transaction = self._transaction
        if transaction is None:
            raise LocalProtocolError(f"no transaction is open at {self.node}")
        self._open = False
        try:
            await transaction.commit()
            self._committed = True
        finally:
            self._leave()

    async def rollback(self) -> None:
        transaction = self._transaction
        if transaction is None:
            return
        try:
            await transaction.rollback()
        finally:
            self._leave()

    def _leave(self) -> None:
        self._transaction, self.pid, self._open = None, 0, False

    async def close(self) -> None:
        await self.rollback()


def transaction_at(
    coordinator: PostgresCoordinator, subscribers: Sequence[str], **options: Any
) -> Transaction:
    """A transaction of one Subscriber, or of several."""
    if len(subscribers) > 1:
        return coordinator.several(subscribers, **options)
    return coordinator.transaction(subscribers[0], **options)


def refused(error: psycopg.Error, *, node: str, gid: str) -> TransactionError:
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


async def result_of(cursor: Any) -> Result:
    """What the statement, or the last one of several, has returned."""
    names = tuple(column.name for column in cursor.description or ())
    rows = await cursor.fetchall() if cursor.description else ()
    return Result(
        rows=Rows(dict(zip(names, row, strict=True)) for row in rows),
        rowcount=cursor.rowcount,
        tag=cursor.statusmessage or "",
        columns=names,
    )


def _level(level: str) -> sql.Composable:
    if level not in ("read committed", "repeatable read", "serializable"):
        raise ConfigurationError(f"isolation level {level!r} is not known")
    return sql.SQL(level)
