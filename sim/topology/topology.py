"""A running system: one Publisher, its Subscribers, and what connects them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

from psycopg import AsyncConnection, sql

from publisher import publication, subscriptions
from sim.topology.nodes import Node, Nodes, fresh_name, grant_tables
from subscriber import subscription, tables
from subscriber.triggers import Sites
from twopc.articles import Article
from twopc.drivers.coordinator import PostgresCoordinator
from twopc.drivers.in_doubt import InDoubtBranch
from twopc.drivers.install import install_decision_log, install_participant
from twopc.drivers.oneshot import Done
from twopc.drivers.participant import ParticipantAddress
from twopc.drivers.points import Points
from twopc.drivers.recovery import Settled
from twopc.drivers.transaction import Transaction
from twopc.errors import ConfigurationError, SubscriptionError
from twopc.names import BranchId
from twopc.protocol.effects import Effect
from twopc.protocol.events import Event
from twopc.server import Server
from twopc.sql import fragments as f
from twopc.sql.describe import describe


class Topology:
    """One Publisher and its Subscribers, as real PostgreSQL databases; an async context manager.

    Args:
        publisher: the Publisher's name.
        subscribers: the Subscribers' names.
        servers: ``one`` embedded server for all nodes, or one for ``each``.
        dsns: an administrator's connection string per node, for servers that run already; nodes
            without one are embedded.
        server: an embedded server to put the databases on, instead of starting one.
        durable: embedded servers flush to disk.
        shipping: ``eager`` sends each statement's call at once, ``lazy`` sends them at commit.
        commit: ``presumed_abort``, ``presumed_commit``, ``presumed_nothing`` or ``last_agent``.
        lock_timeout_ms: how long a change may wait for a row at the Publisher.
        name: of the topology, and in the names of its databases and roles; None: a fresh one.
        keep: leave databases and servers behind at the end.
        points: protocol points of the coordinator; None: those that the environment arms.
        observe: sees every effect and event of the coordinator's machines.

    Raises:
        ConfigurationError: something is missing; nothing is left half-installed.
    """

    def __init__(
        self,
        *,
        publisher: str = "pub",
        subscribers: Sequence[str] = ("sub1", "sub2"),
        servers: str = "one",
        dsns: Mapping[str, str] | None = None,
        server: Server | None = None,
        durable: bool = False,
        shipping: str = "eager",
        commit: str = "presumed_abort",
        lock_timeout_ms: int = 5000,
        name: str | None = None,
        keep: bool = False,
        points: Points | None = None,
        observe: Callable[[str, Effect | Event], None] | None = None,
    ) -> None:
        kinds = {publisher: "publisher"}
        for subscriber in subscribers:
            if subscriber in kinds:
                raise ConfigurationError(f"two nodes are called {subscriber!r}")
            kinds[subscriber] = "subscriber"
        if "distribution" in kinds:
            raise ConfigurationError("'distribution' is the name of the distribution database")
        kinds["distribution"] = "distribution"
        self.publisher = publisher
        self.subscribers = tuple(subscribers)
        self.name = name or fresh_name()
        self.shipping = shipping
        self.commit = commit
        self.lock_timeout_ms = lock_timeout_ms
        self.points = points
        self.observe = observe
        self._keep = keep
        self._nodes = Nodes(
            name=self.name,
            kinds=kinds,
            dsns=dsns or {},
            servers=servers,
            server=server,
            durable=durable,
        )
        self._connections: dict[str, AsyncConnection[Any]] = {}
        self._articles: dict[tuple[str, str], Article] = {}
        self._coordinator: PostgresCoordinator | None = None
        self._opening = asyncio.Lock()

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name, the distribution database among them."""
        return self._nodes.nodes

    async def __aenter__(self) -> Self:
        try:
            await self._nodes.create()
            await self._install()
        except BaseException:
            await self.close()
            raise
        return self

    async def _install(self) -> None:
        """What Publisher and distribution database need before anything is published."""
        publisher, distribution = self.node(self.publisher), self.node("distribution")
        here = await self.admin(self.publisher)
        await publication.install(here)
        await install_participant(
            here, publication.owner_role(publisher.database), publisher.coordinator_role
        )
        await install_decision_log(await self.admin("distribution"), distribution.coordinator_role)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End everything that was started; harmless twice."""
        coordinator, self._coordinator = self._coordinator, None
        if coordinator is not None:
            await coordinator.close()
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()
        if not self._keep:
            await self._nodes.drop(self._is_ours)

    def _is_ours(self, gid: str) -> bool:
        branch = BranchId.parse(gid)
        return branch is not None and branch.global_id.coordinator == self.name

    def node(self, name: str) -> Node:
        """The node of that name.

        Raises:
            ConfigurationError: there is none.
        """
        try:
            return self.nodes[name]
        except KeyError:
            raise ConfigurationError(
                f"no node {name!r}; nodes are {', '.join(self.nodes)}"
            ) from None

    async def admin(self, name: str) -> AsyncConnection[Any]:
        """The administrator's connection to a node, kept for the topology's life."""
        connection = self._connections.get(name)
        if connection is None or connection.closed or connection.broken:
            connection = await self.node(name).connect()
            self._connections[name] = connection
        return connection

    async def execute(self, node: str, statement: str, params: Any = None) -> list[tuple[Any, ...]]:
        """Run SQL at a node as its administrator, for setting up and for looking."""
        connection = await self.admin(node)
        async with connection.cursor() as cursor:
            await cursor.execute(statement.encode(), params)
            return await cursor.fetchall() if cursor.description else []

    # -- transactions ------------------------------------------------------------------------------

    async def coordinator(self) -> PostgresCoordinator:
        """The coordinator of this process, opened at its first use.

        Raises:
            ConfigurationError: the decision log cannot be reached.
        """
        async with self._opening:
            if self._coordinator is None:
                made = PostgresCoordinator(
                    self.name,
                    distribution=self.node("distribution").coordinator_dsn,
                    publisher=self._address(self.publisher),
                    subscribers={name: self._address(name) for name in self.subscribers},
                    lock_timeout_ms=self.lock_timeout_ms,
                    points=self.points,
                    observe=self.observe,
                )
                await made.open()
                self._coordinator = made
        return self._coordinator

    def _address(self, name: str) -> ParticipantAddress:
        node = self.node(name)
        return ParticipantAddress(name=name, dsn=node.coordinator_dsn, application_dsn=node.app_dsn)

    @asynccontextmanager
    async def transaction(
        self,
        *subscribers: str,
        isolation: str | None = None,
        shipping: str | None = None,
        commit: str | None = None,
        role: str | None = None,
    ) -> AsyncIterator[Transaction]:
        """A global transaction at a Subscriber: committed at the end, rolled back on an exception.

        Args:
            subscribers: one Subscriber.
            isolation: ``read committed``, ``repeatable read`` or ``serializable``.
            shipping: ``eager`` or ``lazy``; None: the topology's.
            commit: the protocol's variant; None: the topology's.
            role: to take at the Subscriber; None: the application's role.

        Raises:
            ConfigurationError: no Subscriber, an unknown one, or several (see below).
            RejectedError: it was rolled back at both sites.
            InDoubtError: the outcome is not known; it will be the same at both sites.

        Several subscription databases in one transaction are refused: the loopback mark is kept per
        transaction, so one Subscriber's mark would overwrite the other's (seed 002, Warning).
        """
        coordinator = await self.coordinator()
        async with coordinator.transaction(
            self._only(subscribers),
            isolation=isolation,
            shipping=shipping or self.shipping,
            commit=commit or self.commit,
            role=role,
        ) as transaction:
            yield transaction

    def _only(self, subscribers: tuple[str, ...]) -> str:
        if len(subscribers) == 1:
            return subscribers[0]
        if not subscribers:
            raise ConfigurationError(
                f"a transaction needs a Subscriber; there are {', '.join(self.subscribers)}"
            )
        raise ConfigurationError(
            f"a transaction over {' and '.join(subscribers)} names {len(subscribers)} subscription "
            "databases: each would mark it as its own, and the last mark would overwrite the others. "
            "Use a transaction for each"
        )

    async def run(
        self,
        subscriber: str,
        statement: str,
        params: Sequence[Any] = (),
        *,
        isolation: str | None = None,
        shipping: str | None = None,
        commit: str | None = None,
        role: str | None = None,
    ) -> Done:
        """A whole transaction of one statement, in as few messages as there can be.

        Args:
            statement: with ``$1``, ``$2`` ... for parameters; the rest as for `transaction`.

        Raises:
            RejectedError: it was rolled back at both sites.
            InDoubtError: the outcome is not known.
        """
        coordinator = self._coordinator or await self.coordinator()
        return await coordinator.run(
            subscriber,
            statement,
            params,
            isolation=isolation,
            shipping=shipping or self.shipping,
            commit=commit or self.commit,
            role=role,
        )

    async def recover(self) -> list[Settled]:
        """One pass of recovery now; returns what it has settled."""
        return await (await self.coordinator()).recover()

    async def in_doubt(self) -> list[InDoubtBranch]:
        """Every prepared branch at any node, oldest first, with what will become of it."""
        return await (await self.coordinator()).in_doubt()

    # -- publishing and subscribing ----------------------------------------------------------------

    def sites(self, subscriber: str) -> Sites:
        """The names under which a Subscriber and the Publisher take part in transactions."""
        return Sites(publisher=self.publisher, subscriber=subscriber)

    async def publish(
        self,
        table: str,
        *,
        schema: str = "public",
        columns: Sequence[str] | None = None,
        row_filter: str | None = None,
    ) -> Article:
        """Publish a table; see `publisher.publication.publish`."""
        connection = await self.admin(self.publisher)
        article = await publication.publish(
            connection,
            schema,
            table,
            columns=tuple(columns) if columns is not None else None,
            row_filter=row_filter,
        )
        await grant_tables(connection, schema, table, self.node(self.publisher).app_role)
        self._articles[schema, table] = article
        return article

    async def unpublish(self, table: str, *, schema: str = "public") -> None:
        """Take an article back; see `publisher.publication.unpublish`."""
        await publication.unpublish(await self.admin(self.publisher), schema, table)
        self._articles.pop((schema, table), None)

    async def subscribe(self, subscriber: str) -> None:
        """Give a Subscriber every article: tables, rows, link and triggers.

        Raises:
            SubscriptionError: it subscribes already, or a table of its own is in the way. Nothing is
                left half-installed at either end.
        """
        node, publisher = self.node(subscriber), await self.admin(self.publisher)
        if node.kind != "subscriber":
            raise ConfigurationError(f"{subscriber!r} is the {node.kind}, not a Subscriber")
        here = await self.admin(subscriber)
        articles = await publication.articles(publisher)
        if not articles:
            raise SubscriptionError("nothing is published yet: publish a table first")
        registered, password = await subscriptions.add_subscription(publisher, subscriber)
        sites = self.sites(subscriber)
        link = subscription.LinkAddress(
            options=self.node(self.publisher).link_options,
            role=registered.link_role,
            password=password,
            lock_timeout_ms=self.lock_timeout_ms,
        )
        try:
            async with here.transaction():
                await subscription.install(here, sites, link)
                await self._copy(publisher, here, articles, node)
                for article in articles:
                    await subscription.subscribe(here, article, sites)
                await subscription.register_role(here, node.app_role, node.coordinator_role)
                await install_participant(
                    here, subscription.owner_role(node.database), node.coordinator_role
                )
        except BaseException:
            await subscriptions.drop_subscription(publisher, subscriber)
            raise
        await publisher.execute(
            sql.SQL("grant {} to {}").format(
                sql.Identifier(registered.link_role), sql.Identifier(node.coordinator_role)
            )
        )

    async def _copy(
        self,
        publisher: AsyncConnection[Any],
        here: AsyncConnection[Any],
        articles: Sequence[Article],
        node: Node,
    ) -> None:
        """Tables and rows, all as of one moment at the Publisher."""
        async with publisher.transaction():
            await publisher.execute("set transaction isolation level repeatable read, read only")
            for article in articles:
                if await _exists(here, article):
                    held = await describe(here, article.schema, article.table)
                    await tables.adopt_table(here, article, held)
                else:
                    await tables.create_table(here, article)
                held = await describe(here, article.schema, article.table)
                columns = tables.copied_columns(article, held)
                await tables.fill(here, article, columns, _rows_of(publisher, article, columns))
                await grant_tables(here, article.schema, article.table, node.app_role)
        for article in articles:
            for key in article.references:
                await here.execute(tables.foreign_key_text(key).encode())

    async def activate(self, subscriber: str) -> None:
        """Let a Subscriber's changes through again once nothing keeps our triggers from firing first.

        Raises:
            SubscriptionError: something still does.
        """
        articles = await publication.articles(await self.admin(self.publisher))
        await subscription.activate(await self.admin(subscriber), articles, self.sites(subscriber))

    async def unsubscribe(self, subscriber: str) -> None:
        """Take a subscription away at both ends; the rows stay."""
        here, publisher = await self.admin(subscriber), await self.admin(self.publisher)
        articles = await publication.articles(publisher)
        async with here.transaction():
            for article in articles:
                await subscription.unsubscribe(here, article, self.sites(subscriber))
        await subscriptions.drop_subscription(publisher, subscriber)


async def _exists(connection: AsyncConnection[Any], article: Article) -> bool:
    found = await connection.execute(
        "select to_regclass(%s) is not null",
        (f.table_of(article).as_string(connection),),
    )
    row = await found.fetchone()
    return row is not None and bool(row[0])


async def _rows_of(
    connection: AsyncConnection[Any], article: Article, columns: Sequence[str]
) -> AsyncIterator[bytes]:
    """COPY text of the rows that belong to an article."""
    condition = f.raw(article.row_filter) if article.row_filter else sql.SQL("true")
    command = sql.SQL("copy (select {} from {} where {}) to stdout").format(
        f.identifiers(columns), f.table_of(article), condition
    )
    async with connection.cursor() as cursor, cursor.copy(command) as copy:
        async for block in copy:
            yield bytes(block)
