"""A Publisher and its Subscribers that merge: each works by itself, and sessions bring them together."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from psycopg import AsyncConnection, sql

from twopc import names
from twopc.drivers.merge import neighbours, tracking
from twopc.drivers.merge.engine import MergeReport, MergeSession
from twopc.drivers.merge.neighbours import MergeNeighbour
from twopc.drivers.merge.server import ServerMergeEnd
from twopc.drivers.points import Points
from twopc.errors import ConfigurationError, SubscriptionError
from twopc.merge.articles import MergeArticle, options_of
from twopc.merge.marks import Generation
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.publisher.merge import publication
from twopc.publisher.selection import article_of
from twopc.sim.merge.desk import ConflictDesk
from twopc.sim.merge.logins import AgentLogin
from twopc.sim.topology import roles
from twopc.sim.topology.blocking import blocking
from twopc.sim.topology.nodes import AnyServer, Node, Nodes, fresh_name, grant_tables
from twopc.sql import path
from twopc.sql.describe import describe
from twopc.sql.fragments import identifiers, qualified
from twopc.subscriber.merge import subscription

Connection = AsyncConnection[Any]

_METADATA = """
select m.rowguid, m.gone, msrepl.merge_lineage(m.lineage, r.replica, m.own)::text,
       msrepl.merge_colv(m.colv, r.replica)::text, coalesce(m.writer, r.replica)
from msrepl.msmerge_metadata as m, msrepl.msmerge_replica as r
where m.tablenick = %s
"""


class MergeTopology(ConflictDesk):
    """One Publisher and its Subscribers; an async context manager.

    There is no coordinator, no distribution database and no log reader: every node is changed by ordinary local
    transactions, and `sync` is a session of the Merge Agent.

    Args:
        publisher: the Publisher's name.
        subscribers: the Subscribers' names.
        servers: ``one`` embedded server for all nodes, or one for ``each``.
        server: to make the databases on, and drop them, instead of starting one.
        dsns: of nodes whose databases are there, by name, an administrator's each. What is made there stays.
        name: of the topology, in its roles and databases; needed with `dsns`.
        attach: everything is there: see `twopc.sim.merge.attaching`.
        points: protocol points of sessions (`twopc.drivers.points.MERGE_POINTS`).
        lock_timeout_ms: how long a session may wait for a row that an application has locked.
        without: protections that are left out, to show what they protect from.

    Raises:
        ConfigurationError: something is missing; nothing is left half-installed.
    """

    def __init__(
        self,
        *,
        publisher: str = "pub",
        subscribers: Sequence[str] = ("sub1", "sub2"),
        servers: str = "one",
        server: AnyServer | None = None,
        dsns: Mapping[str, str] | None = None,
        name: str | None = None,
        attach: bool = False,
        points: Points | None = None,
        lock_timeout_ms: int = 5000,
        without: Set[MergeProtection] = NOTHING_LEFT_OUT,
    ) -> None:
        for node in (publisher, *subscribers):
            if not names.is_node_name(node):
                raise ConfigurationError(
                    f"node {node!r}: use 1 to 63 of the characters A-Z a-z 0-9 _ . -"
                )
        if len({publisher, *subscribers}) <= len(subscribers):
            raise ConfigurationError("two nodes have one name")
        if dsns and name is None and not attach:
            raise ConfigurationError("servers that are there already need the topology's name=")
        self.name = name or fresh_name()
        self.publisher = publisher
        self.subscribers = tuple(subscribers)
        self.points = points or Points()
        self.lock_timeout_ms = lock_timeout_ms
        self._without = without
        self.handlers = {}
        self._nodes = Nodes(
            name=self.name,
            kinds={publisher: "publisher", **dict.fromkeys(subscribers, "subscriber")},
            dsns=dict(dsns or {}),
            servers=servers,
            server=server,
            durable=False,
            distribute=False,
        )
        self._keep = bool(dsns)
        self._attach = attach
        self.unreachable: Mapping[str, str] = {}
        """Why nodes of a topology that was there already cannot be reached."""
        self._connections: dict[str, Connection] = {}
        self._logins: dict[tuple[str, str], AgentLogin] = {}
        """Of the agent at one node for the other."""

    # -- its life ----------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._attach:
            await self._nodes.attach(self.unreachable)
            return self
        try:
            await self._nodes.create()
            connection = await self.admin(self.publisher)
            await tracking.install(connection)
            await neighbours.name_self(connection, self.publisher)
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect, and drop databases, roles and servers that were made; harmless twice."""
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()
        if self._keep:
            return
        running = [node for node in self.nodes.values() if node.server.is_running()]
        pairs = {*self._logins}
        await self._nodes.drop(lambda gid: False)
        agents = {
            node.name: [
                neighbours.agent_role(node.database, other)
                for at, other in pairs
                if at == node.name
            ]
            for node in running
        }
        for node in running:
            if node.server.is_running() and agents[node.name]:
                await roles.drop([node], agents[node.name])
        self._logins.clear()

    @classmethod
    def blocking(cls, **options: Any) -> AbstractContextManager[Any]:
        """The same for code without an event loop: ``with MergeTopology.blocking(...) as topology:``."""
        return blocking(cls(**options))

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name."""
        return self._nodes.nodes

    def node(self, name: str) -> Node:
        """The node of that name (ConfigurationError if there is none)."""
        if name not in self.nodes:
            raise ConfigurationError(f"no node {name!r}; nodes are {', '.join(self.nodes)}")
        return self.nodes[name]

    async def admin(self, name: str) -> Connection:
        """The administrator's connection to a node, kept for the topology's life."""
        connection = self._connections.get(name)
        if connection is None or connection.closed:
            connection = self._connections[name] = await self.node(name).connect()
        return connection

    async def execute(self, node: str, statement: str, params: Any = None) -> list[tuple[Any, ...]]:
        """Run SQL at a node as its administrator: what it changes there is a local change like an application's."""
        connection = await self.admin(node)
        async with connection.cursor() as cursor:
            await cursor.execute(statement.encode(), params)
            return await cursor.fetchall() if cursor.description else []

    # -- what is merged ----------------------------------------------------------------------------

    async def publish(
        self,
        table: str,
        *,
        schema: str = "public",
        tracking: str = "row",
        rowguid: str | None = None,
        **options: Any,
    ) -> MergeArticle:
        """Merge a table of the Publisher; see `twopc.publisher.merge.publication.publish`.

        Args:
            options: how its conflicts and failures are dealt with; see `twopc.merge.articles.options_of`.

        Raises:
            ConfigurationError: there are subscriptions: they would not get the table.
            ArticleError: it cannot be merged.
        """
        if MergeProtection.RESOLVER in self._without:
            options["resolver"] = None
        if MergeProtection.COMPENSATION in self._without:
            options["compensate"] = False
        connection = await self.admin(self.publisher)
        if subscribed := await neighbours.neighbour_names(connection):
            raise ConfigurationError(
                f"table {schema}.{table}: {', '.join(subscribed)} subscribe already, and would not get it: "
                "unsubscribe first"
            )
        article = await publication.publish(
            connection,
            schema,
            table,
            tracking_level=tracking,
            rowguid=rowguid,
            options=options_of(f"table {schema}.{table}", **options),
            without=self._without,
        )
        await grant_tables(connection, schema, table, self.node(self.publisher).app_role)
        return article

    async def unpublish(self, table: str, *, schema: str = "public") -> None:
        """Take an article back: the Publisher's table is as it was before, with its rows.

        Raises:
            ConfigurationError: there are subscriptions.
            ArticleError: it is not merged.
        """
        connection = await self.admin(self.publisher)
        if subscribed := await neighbours.neighbour_names(connection):
            raise ConfigurationError(
                f"table {schema}.{table}: {', '.join(subscribed)} subscribe to it: unsubscribe first"
            )
        await publication.unpublish(connection, schema, table)

    async def subscribe(
        self, subscriber: str, *, kind: str = "client", priority: float | None = None
    ) -> None:
        """Make a Subscriber: its tables, and the rows that the Publisher has in one snapshot.

        Nobody waits for the copy: that snapshot is the generation with which the subscription begins.

        Args:
            kind: ``client``: the first change that reaches the Publisher wins. ``server``: the subscription has a
                priority of its own, which its changes keep.
            priority: of a server subscription, from 0 to less than 100.

        Raises:
            SubscriptionError: the kind or priority is none, it subscribes already, or has such a table.
        """
        _check_kind(subscriber, kind, priority)
        above, below = await self.admin(self.publisher), await self.admin(subscriber)
        if subscriber in await neighbours.neighbour_names(above):
            raise SubscriptionError(f"{subscriber} subscribes already")
        await tracking.install(below)
        replica = await neighbours.name_self(below, subscriber)
        for node, other in ((self.publisher, subscriber), (subscriber, self.publisher)):
            await self._login(node, other).make(await self.admin(node))
        async with below.transaction():
            generation = await self._copy(above, below, is_client=kind == "client")
            await neighbours.admit(
                below,
                MergeNeighbour(
                    name=self.publisher,
                    replica=await neighbours.name_self(above, self.publisher),
                    is_publisher=True,
                    is_server=True,
                    priority=100,
                    received=generation,
                ),
            )
        async with above.transaction():
            await neighbours.admit(
                above,
                MergeNeighbour(
                    name=subscriber,
                    replica=replica,
                    is_publisher=False,
                    is_server=kind == "server",
                    priority=priority or 0,
                    sent=generation,
                ),
            )

    async def unsubscribe(self, subscriber: str) -> None:
        """End a subscription: its tables stay at the Subscriber, as ordinary tables. Changes not sent are not sent.

        Raises:
            SubscriptionError: it does not subscribe.
        """
        above, below = await self.admin(self.publisher), await self.admin(subscriber)
        if subscriber not in await neighbours.neighbour_names(above):
            raise SubscriptionError(f"{subscriber} does not subscribe")
        await neighbours.dismiss(above, subscriber)
        async with below.transaction():
            await subscription.leave(below)
        await neighbours.dismiss(below, self.publisher)
        await tracking.uninstall(below)
        for node, other in ((self.publisher, subscriber), (subscriber, self.publisher)):
            self._logins.pop((node, other), None)

    async def _copy(self, above: Connection, below: Connection, *, is_client: bool) -> Generation:
        """Copy tables, rows and what is known of them; the generation that the copy is."""
        publisher = await neighbours.name_self(above, self.publisher)
        merged = await tracking.articles(above)
        async with above.transaction():
            await above.execute("set transaction isolation level repeatable read")
            generation = await neighbours.close_generation(above)
            await above.execute(path.SET_LOCAL)
            copied = [article_of(await describe(above, each.schema, each.table)) for each in merged]
            for article in copied:
                columns = [column.name for column in article.columns if column.takes_values]
                blocks = _blocks(above, article.schema, article.table, columns)
                await subscription.receive_table(below, article, blocks)
            await subscription.join_tables(below, copied)
            for each in merged:
                metadata = await (await above.execute(_METADATA, (each.nickname,))).fetchall()
                await subscription.track(
                    below,
                    each,
                    publication.PUBLICATION,
                    publisher,
                    metadata,
                    is_client=is_client,
                    without=self._without,
                )
                await grant_tables(
                    below, each.schema, each.table, self.node(self.publisher).app_role
                )
        return generation

    # -- sessions ----------------------------------------------------------------------------------

    def _login(self, node: str, other: str) -> AgentLogin:
        """How the agent at a node for another logs in."""
        return self._logins.setdefault((node, other), AgentLogin(self.node(node), other))

    def _session(self, subscriber: str) -> MergeSession:
        if subscriber == self.publisher:
            raise SubscriptionError(f"{subscriber} is the Publisher: name a Subscriber")
        self.node(subscriber)
        above, below = (
            ServerMergeEnd(
                node, self._login(node, other).connect, lock_timeout_ms=self.lock_timeout_ms
            )
            for node, other in ((self.publisher, subscriber), (subscriber, self.publisher))
        )
        return MergeSession(above, below, self.points, handlers=self.handlers)

    async def sync(self, subscriber: str) -> MergeReport:
        """The Merge Agent, once: what the Subscriber has changed goes up, then what the Publisher has comes down.

        Raises:
            MergeError: another session is under way, an end is not what it was, or the session ended early, and the
                next continues.
        """
        return await self._session(subscriber).run()

    async def agent_processes(self, subscriber: str) -> list[tuple[str, int]]:
        """Node and process of each end of the session that is under way with a Subscriber."""
        results = []
        for node, other in ((self.publisher, subscriber), (subscriber, self.publisher)):
            connection = await self.admin(node)
            results += [(node, pid) for pid in await neighbours.agent_processes(connection, other)]
        return results

    async def settle(self, rounds_max: int = 10) -> int:
        """Sessions with every Subscriber, until a round brings nothing; how many rounds it took.

        Raises:
            ConfigurationError: it is not over after `rounds_max` rounds: changes that fail are tried again each time.
        """
        subscribed = await neighbours.neighbour_names(await self.admin(self.publisher))
        for number in range(1, rounds_max + 1):
            reports = [await self.sync(subscriber) for subscriber in subscribed]
            if not any(r.uploaded or r.downloaded or r.conflicts or r.deferred for r in reports):
                return number
        raise ConfigurationError(f"the nodes still change after {rounds_max} rounds of sessions")

    async def assert_converged(self) -> None:
        """Assert that every Subscriber has the Publisher's rows, in every table."""
        above = await self.admin(self.publisher)
        for article in await tracking.articles(above):
            table = qualified(article.schema, article.table)
            columns = identifiers([article.rowguid, *[c.name for c in article.columns]], "t")
            query = sql.SQL("select row({})::text from {} as t order by 1").format(columns, table)
            rows = {}
            for node in (self.publisher, *await neighbours.neighbour_names(above)):
                connection = await self.admin(node)
                rows[node] = await (await connection.execute(query)).fetchall()
            for node, held in rows.items():
                assert held == rows[self.publisher], f"{article.name} at {node} differs"


def _check_kind(subscriber: str, kind: str, priority: float | None) -> None:
    if kind not in ("client", "server"):
        raise SubscriptionError(f"{subscriber}: kind {kind!r}: use 'client' or 'server'")
    if kind == "client" and priority is not None:
        raise SubscriptionError(f"{subscriber}: a client subscription has no priority (20044)")
    if priority is not None and not 0 <= priority < 100:
        raise SubscriptionError(
            f"{subscriber}: priority {priority} is not from 0 to less than the Publisher's 100 (20049, 20088)"
        )


async def _blocks(
    connection: Connection, schema: str, table: str, columns: Sequence[str]
) -> AsyncIterator[bytes]:
    """The rows of a table as COPY text."""
    command = sql.SQL("copy {} ({}) to stdout").format(
        qualified(schema, table), identifiers(columns)
    )
    async with connection.cursor() as cursor, cursor.copy(command) as copy:
        async for block in copy:
            yield bytes(block)
