"""Plays scenarios on real servers: a fresh `sim.topology.Topology` for each order.

All that is particular to PostgreSQL about playing a scenario stands here; what happens when is the
runner's business.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from typing import Any, Self

import psycopg
from psycopg import sql

from sim.scenario import sqltext
from sim.scenario.model import Order, Scenario, Table
from sim.scenario.stage import Result, SetUpError, StageSession, Waits
from sim.scenario.waits import Client, Observer
from sim.topology import Topology
from twopc.errors import (
    ArticleError,
    ConfigurationError,
    ServerError,
    SubscriptionError,
    TransactionError,
    from_sqlstate,
)
from twopc.names import PREFIX, SCHEMA
from twopc.server import Server


class PostgresTheatre:
    """Makes stages on embedded servers, or on those of the DSNs given; an async context manager.

    Args:
        servers: ``one`` embedded server for all nodes and orders, or one for ``each`` node.
        dsns: an administrator's connection string per node, for servers that run already.
        server: an embedded server that runs already and is not stopped at the end.
        keep: leave servers and databases running at the end.
    """

    def __init__(
        self,
        *,
        servers: str = "one",
        dsns: Mapping[str, str] | None = None,
        server: Server | None = None,
        keep: bool = False,
    ) -> None:
        self._given = server
        self._servers = servers
        self._dsns = dict(dsns or {})
        self._keep = keep
        self._server = server

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None and self._given is None and not self._keep:
            await asyncio.to_thread(self._server.stop)

    def stage(self, scenario: Scenario, order: Order) -> AbstractAsyncContextManager[PostgresStage]:
        """See `sim.scenario.stage.Theatre`."""
        return self._stage(scenario)

    @asynccontextmanager
    async def _stage(self, scenario: Scenario) -> AsyncIterator[PostgresStage]:
        nodes = (*scenario.topology.nodes, "distribution")
        if self._servers == "one" and self._server is None and not self._dsns.keys() >= set(nodes):
            self._server = await asyncio.to_thread(Server.start)
        topology = Topology(
            publisher=scenario.topology.publisher,
            subscribers=scenario.topology.subscribers,
            servers=self._servers,
            dsns=self._dsns,
            server=self._server,
            lock_timeout_ms=scenario.topology.timeouts.lock_ms,
            shipping=scenario.topology.shipping,
            commit=scenario.topology.commit,
            keep=self._keep,
        )
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(topology)
            except psycopg.OperationalError as error:
                raise ServerError(f"a node's server cannot be used: {error}") from error
            await _refuse_existing(topology, scenario)
            if not self._keep:
                stack.push_async_callback(_clear, topology, scenario)
            await _set_up(topology, scenario)
            nodes = {name: topology.nodes[name].dsn for name in scenario.topology.nodes}
            observer = await Observer.connect(nodes)
            stack.push_async_callback(observer.close)
            await observer.look(())  # plans are made now and not while somebody waits
            yield PostgresStage(topology, scenario, observer)


class PostgresStage:
    """See `sim.scenario.stage.Stage`."""

    def __init__(self, topology: Topology, scenario: Scenario, observer: Observer) -> None:
        self._topology = topology
        self._scenario = scenario
        self._observer = observer
        self._sessions: dict[str, _Session] = {}

    @property
    def about(self) -> Mapping[str, Any]:
        """The nodes' databases."""
        return {name: node.database for name, node in self._topology.nodes.items()}

    async def open(self, session: str, node: str) -> StageSession:
        """A session of the application's role."""
        kind = PublisherSession if node == self._topology.publisher else SubscriberSession
        opened = kind(self._topology, node, self._observer)
        self._sessions[session] = opened
        return opened

    async def waits(self) -> Waits:
        """Look at every node's locks."""
        return await self._observer.look(
            Client(name=name, node=session.node, pid=session.pid, gid=session.gid)
            for name, session in self._sessions.items()
        )

    async def rows(self, node: str, table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        """A table's rows by key."""
        key = self._scenario.tables[table].key_columns
        query = sql.SQL("select {} from {} order by {}").format(
            sql.SQL(", ").join(
                sql.SQL("{}::text").format(sql.Identifier(each)) for each in columns
            ),
            sql.Identifier("public", table),
            sql.SQL(", ").join(map(sql.Identifier, key)),
        )
        rows = await self._topology.execute(node, query.as_string(None))
        return [dict(zip(columns, row, strict=True)) for row in rows]

    async def prepared(self, node: str) -> tuple[str, ...]:
        """Our gids in the node's database."""
        rows = await self._topology.execute(
            node,
            "select gid from pg_prepared_xacts "
            "where database = current_database() and starts_with(gid, %s) order by gid",
            (f"{PREFIX}:",),
        )
        return tuple(str(gid) for (gid,) in rows)

    async def markers(self, node: str) -> list[dict[str, Any]]:
        """The rows of the node's marker table."""
        query = sql.SQL("select gid, participants, fence from {} order by gid").format(
            sql.Identifier(SCHEMA, "branch_marker")
        )
        rows = await self._topology.execute(node, query.as_string(None))
        return [
            {"gid": gid, "participants": list(participants), "fence": fence}
            for gid, participants, fence in rows
        ]


class _Session:
    """What both kinds of session have in common."""

    def __init__(self, topology: Topology, node: str, observer: Observer) -> None:
        self._topology = topology
        self.node = node
        self._observer = observer
        self.pid = 0
        self.gid = ""

    async def cancel(self) -> None:
        """Cancel the running statement at this session's own node."""
        if self.pid:
            await self._observer.cancel(self.node, self.pid)

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


def _existing(topology: Topology, scenario: Scenario) -> list[str]:
    """The nodes whose databases were there before us and stay after us."""
    return [name for name in scenario.topology.nodes if not topology.nodes[name].embedded]


async def _refuse_existing(topology: Topology, scenario: Scenario) -> None:
    """A scenario makes its own tables, and takes them away again: never those of somebody else."""
    for node in _existing(topology, scenario):
        for name in scenario.tables:
            found = await topology.execute(
                node, "select to_regclass(format('public.%%I', %s::text)) is not null", (name,)
            )
            if found[0][0]:
                raise ConfigurationError(
                    f"table {name!r} is at {node} already; a scenario makes its own tables, so give "
                    "it a database without them"
                )


async def _clear(topology: Topology, scenario: Scenario) -> None:
    """Take everything of the scenario out of the databases that stay."""
    nodes = _existing(topology, scenario)
    if not nodes:
        return
    for subscriber in scenario.topology.subscribers:
        with contextlib.suppress(ConfigurationError):  # it had not got so far
            await topology.unsubscribe(subscriber)
    for name in scenario.tables:
        with contextlib.suppress(ConfigurationError):
            await topology.unpublish(name)
    tables = sql.SQL(", ").join(sql.Identifier("public", name) for name in scenario.tables)
    for node in nodes:
        drop = sql.SQL("drop table if exists {} cascade").format(tables)
        await topology.execute(node, drop.as_string(None))


@contextlib.contextmanager
def _blaming(*path: str | int) -> Iterator[None]:
    """What a server refuses in here stands at `path` in the scenario."""
    try:
        yield
    except psycopg.Error as error:
        if error.sqlstate is None:
            raise
        said = error.diag.message_primary or str(error)
        raise SetUpError(path, f"PostgreSQL says: {said} ({error.sqlstate})") from error
    except (ArticleError, SubscriptionError) as error:
        raise SetUpError(path, str(error)) from error


async def _set_up(topology: Topology, scenario: Scenario) -> None:
    """Tables and rows at the Publisher, published and subscribed."""
    publisher = scenario.topology.publisher
    for name, table in scenario.tables.items():
        with _blaming("tables", name, "columns"):
            await topology.execute(publisher, _create_table(name, table).as_string(None))
    for name, table in scenario.tables.items():
        for at, text in enumerate(table.sql):
            with _blaming("tables", name, "sql", at):
                await topology.execute(publisher, text)
    for name, table in scenario.tables.items():
        for at, row in enumerate(table.rows):
            with _blaming("tables", name, "rows", at):
                insert = _insert(name, list(row)).as_string(None)
                await topology.execute(publisher, insert, list(row.values()))
    for name in scenario.tables:
        with _blaming("tables", name):
            await topology.publish(name)
    for subscriber in scenario.topology.subscribers:
        with _blaming("tables"):
            await topology.subscribe(subscriber)


def _insert(table: str, columns: list[str]) -> sql.Composed:
    return sql.SQL("insert into {} ({}) overriding system value values ({})").format(
        sql.Identifier("public", table),
        sql.SQL(", ").join(map(sql.Identifier, columns)),
        sql.SQL(", ").join([sql.Placeholder()] * len(columns)),
    )


def _create_table(name: str, table: Table) -> sql.Composed:
    parts: list[sql.Composable] = [
        sql.SQL("{} {}").format(sql.Identifier(column), sql.SQL(text))
        for column, text in table.columns.items()
    ]
    if table.key:
        key = sql.SQL(", ").join(map(sql.Identifier, table.key))
        parts.append(sql.SQL("primary key ({})").format(key))
    return sql.SQL("create table {} ({})").format(
        sql.Identifier("public", name), sql.SQL(", ").join(parts)
    )
