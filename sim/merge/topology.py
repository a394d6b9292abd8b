"""A Publisher and its Subscribers that merge: each works by itself, and sessions bring them together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

from psycopg import AsyncConnection

from twopc.drivers.merge import neighbours, tracking
from twopc.drivers.merge.engine import Ask, MergeReport, MergeSession
from twopc.drivers.merge.schema_changes import replay
from twopc.drivers.merge.server import ServerMergeEnd
from twopc.drivers.points import Points
from twopc.errors import ConfigurationError
from twopc.merge.articles import MergeArticle, options_of
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.merge.ranges import IdentityRanges
from twopc.merge.schema_changes import SchemaChange
from twopc.publisher.merge import publication
from twopc.publisher.merge.filters import Filters, Join
from twopc.sim.merge.backups import drop_backup
from twopc.sim.merge.column_changes import MergeAltering
from twopc.sim.merge.convergence import MergeConvergence
from twopc.sim.merge.desk import ConflictDesk
from twopc.sim.merge.logins import AgentLogin
from twopc.sim.merge.shape import MergeTree
from twopc.sim.merge.subscription_life import MergeSubscribing
from twopc.sim.merge.subscriptions import MergePair
from twopc.sim.merge.upkeep import MergeUpkeep
from twopc.sim.topology import roles
from twopc.sim.topology.blocking_twin import blocking
from twopc.sim.topology.grants import grant_tables
from twopc.sim.topology.nodes import AdminConnections, AnyServer, Node, Nodes, fresh_name

Connection = AsyncConnection[Any]


class MergeTopology(ConflictDesk, MergeAltering, MergeConvergence, MergeSubscribing, MergeUpkeep):
    """One Publisher and its Subscribers; an async context manager.

    There is no coordinator, no distribution database and no log reader: every node is changed by ordinary local
    transactions, and `sync` is a session of the Merge Agent.

    Args:
        publisher: the Publisher's name.
        subscribers: the Subscribers' names.
        tree: in place of both, for each node that publishes its Subscribers, the topmost first. One that subscribes
            and publishes is a republisher.
        servers: ``one`` embedded server for all nodes, or one for ``each``.
        server: to make the databases on, and drop them, instead of starting one.
        dsns: of nodes whose databases are there, by name, an administrator's each. What is made there stays.
        name: of the topology, in its roles and databases; needed with `dsns`.
        attach: everything is there: see `twopc.sim.merge.attachment`.
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
        tree: Mapping[str, Sequence[str]] | None = None,
        servers: str = "one",
        server: AnyServer | None = None,
        dsns: Mapping[str, str] | None = None,
        name: str | None = None,
        attach: bool = False,
        points: Points | None = None,
        lock_timeout_ms: int = 5000,
        without: Set[MergeProtection] = NOTHING_LEFT_OUT,
    ) -> None:
        self.tree = MergeTree(tree if tree is not None else {publisher: subscribers})
        if dsns and name is None and not attach:
            raise ConfigurationError("servers that are there already need the topology's name=")
        self.name = name or fresh_name()
        self.publisher = self.tree.root
        self.subscribers = self.tree.subscribers
        self.points = points or Points()
        self.lock_timeout_ms = lock_timeout_ms
        self._without = without
        self.handlers = {}
        self._nodes = Nodes(
            name=self.name,
            kinds={self.publisher: "publisher"} | dict.fromkeys(self.subscribers, "subscriber"),
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
        self.backed_up = set()
        self._connections = AdminConnections()
        self._logins = {}

    # -- its life ----------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        if self._attach:
            await self._nodes.attach(self.unreachable)
            return self
        try:
            await self._nodes.create()
            await self.install()
        except BaseException:
            await self.close()
            raise
        return self

    async def install(self) -> None:
        """Have the Publisher's database merge (sp_replicationdboption). Idempotent.

        Raises:
            ArticleError: it publishes or subscribes in another way (21063).
        """
        connection = await self.admin(self.publisher)
        await tracking.install(connection)
        await neighbours.name_self(connection, self.publisher)

    async def uninstall(self) -> None:
        """Remove everything of merge replication from the Publisher's database, which publishes nothing any more.

        Raises:
            ArticleError: a table is still merged.
        """
        await tracking.uninstall(await self.admin(self.publisher))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Disconnect, and drop databases, roles and servers that were made; idempotent."""
        await self._connections.close()
        for login in self._logins.values():
            await login.close()
        if self._keep:
            return
        running = [node for node in self.nodes.values() if node.server.is_running()]
        for node in running:
            if node.name in self.backed_up:
                await drop_backup(node)
        above = {(self.tree.publisher_of(name), name) for name in self.tree.subscribers}
        pairs = {*above, *((name, publisher) for publisher, name in above)}
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
        return await self._connections.get(self.node(name))

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
        row_filter: str | None = None,
        join: Join | Sequence[Join] = (),
        precomputed: bool = True,
        partition: int = 0,
        realigns: bool = True,
        identity: IdentityRanges | None = None,
        **options: Any,
    ) -> MergeArticle:
        """Merge a table of the Publisher; see `twopc.publisher.merge.publication.publish`.

        Args:
            row_filter: which rows go to which Subscribers: a condition over the columns, in which
                ``msrepl.host_name()`` and ``msrepl.suser_sname()`` are a Subscriber's.
            join: its rows go where the rows of another article go that they belong to.
            partition: a `PartitionOption`: what a Subscriber may do to the partition of a row.
            realigns: False: rows that leave a Subscriber's partition stay there, and are not brought up to date.
            identity: the ranges from which nodes draw the values of its identity or serial column; None: Subscribers
                name values themselves.
            precomputed: False: partitions are worked out of all rows each time, not of those that were changed.
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
        if subscribed := await neighbours.subscriber_names(connection):
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
            filters=Filters(
                row_filter=row_filter,
                joins=(join,) if isinstance(join, Join) else join,
                precomputed=precomputed,
                partition=partition,
                realigns=realigns,
            ),
            identity=identity,
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
        if subscribed := await neighbours.subscriber_names(connection):
            raise ConfigurationError(
                f"table {schema}.{table}: {', '.join(subscribed)} subscribe to it: unsubscribe first"
            )
        await publication.unpublish(connection, schema, table)

    async def pair(self, subscriber: str) -> MergePair:
        """A Subscriber and its Publisher, with administrators' connections.

        Raises:
            SubscriptionError: it is the topmost Publisher, and subscribes nowhere.
        """
        publisher = self.tree.publisher_of(subscriber)
        return MergePair(
            publisher=publisher,
            subscriber=subscriber,
            above=await self.admin(publisher),
            below=await self.admin(subscriber),
            connect_above=self.node(publisher).connect,
            app_role=self.node(subscriber).app_role,
            without=self._without,
        )

    # -- sessions ----------------------------------------------------------------------------------

    def login(self, node: str, other: str) -> AgentLogin:
        """How the agent at a node for another logs in."""
        return self._logins.setdefault((node, other), AgentLogin(self.node(node), other))

    def _end(self, node: str, other: str) -> ServerMergeEnd:
        login = self.login(node, other)

        async def make_change(change: SchemaChange) -> None:
            async with await self.node(node).connect() as connection:
                await replay(connection, change, lock_timeout_ms=self.lock_timeout_ms)

        return ServerMergeEnd(
            node, login.connect, login.keep, make_change, lock_timeout_ms=self.lock_timeout_ms
        )

    def _session(self, subscriber: str, ask: Ask | None, *, only_upload: bool) -> MergeSession:
        self.node(subscriber)
        publisher = self.tree.publisher_of(subscriber)
        above, below = (
            self._end(node, other)
            for node, other in ((publisher, subscriber), (subscriber, publisher))
        )
        return MergeSession(
            above, below, self.points, handlers=self.handlers, ask=ask, only_upload=only_upload, without=self._without
        )  # fmt: skip

    async def sync(
        self, subscriber: str, *, ask: Ask | None = None, only_upload: bool = False
    ) -> MergeReport:
        """The Merge Agent, once: what the Subscriber has changed goes up, then what the Publisher has comes down.

        Args:
            ask: decides about conflicts interactively; it may be a coroutine function.
            only_upload: nothing comes down (the original's ExchangeType 1).

        Raises:
            MergeError: another session is under way, an end is not what it was, or the session ended early, and the
                next continues.
        """
        return await self._session(subscriber, ask, only_upload=only_upload).run()

    async def rewound(self, node: str) -> None:
        """Tell a node that it was restored from a backup, before its applications write.

        It takes another number at once, so that no change of now has a version that was given before the restore.
        Without this the next session notices. In either case it compares everything.

        Raises:
            SubscriptionError: nobody merges with it.
        """
        others = self.tree.subscribers_of(node)
        neighbour = others[0] if node == self.tree.root and others else self.tree.publisher_of(node)
        end = self._end(node, neighbour)
        await end.open(alone=False)
        try:
            await end.rewind()
        finally:
            await end.close()

    async def agent_processes(self, subscriber: str) -> list[tuple[str, int]]:
        """Node and process of each end of the session that is under way with a Subscriber."""
        results = []
        for node, other in ((self.publisher, subscriber), (subscriber, self.publisher)):
            connection = await self.admin(node)
            results += [(node, pid) for pid in await neighbours.agent_processes(connection, other)]
        return results
