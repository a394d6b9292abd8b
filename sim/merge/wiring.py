"""The nodes of a topology of merge replication, and the connections to them."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from psycopg import AsyncConnection

from twopc.drivers.merge import neighbours, tracking
from twopc.drivers.points import Points
from twopc.errors import ConfigurationError
from twopc.merge.protections import MergeProtection
from twopc.sim.merge.logins import AgentLogin
from twopc.sim.merge.shape import MergeTree
from twopc.sim.merge.subscriptions import MergePair
from twopc.sim.topology import roles
from twopc.sim.topology.nodes import AnyServer, Node, Nodes, fresh_name
from twopc.sim.topology.wiring import NodeWiring

Connection = AsyncConnection[Any]


class MergeWiring(NodeWiring):
    """The nodes of a topology; see `twopc.sim.merge.topology.MergeTopology` for the arguments."""

    def __init__(
        self,
        *,
        tree: MergeTree,
        servers: str,
        server: AnyServer | None,
        dsns: Mapping[str, str] | None,
        name: str | None,
        attach: bool,
        points: Points | None,
        lock_timeout_ms: int,
        without: Set[MergeProtection],
    ) -> None:
        if dsns and name is None and not attach:
            raise ConfigurationError("servers that are there already need the topology's name=")
        self.tree = tree
        self.name = name or fresh_name()
        self.points = points or Points()
        self.lock_timeout_ms = lock_timeout_ms
        self.without = without
        nodes = Nodes(
            name=self.name,
            kinds={tree.root: "publisher"} | dict.fromkeys(tree.subscribers, "subscriber"),
            dsns=dict(dsns or {}),
            servers=servers,
            server=server,
            durable=False,
            distribute=False,
        )
        super().__init__(nodes, attached=attach)
        self._keep = bool(dsns)
        self._logins: dict[tuple[str, str], AgentLogin] = {}

    @property
    def running(self) -> list[Node]:
        """Nodes whose databases are to be dropped when the topology is closed, and whose servers run."""
        if self._keep:
            return []
        return [node for node in self.nodes.values() if node.server.is_running()]

    # -- lifetime ----------------------------------------------------------------------------------

    async def install(self) -> None:
        """Enable merge replication in the Publisher's database (sp_replicationdboption). Idempotent.

        Raises:
            ArticleError: the database publishes or subscribes in another way (21063).
        """
        connection = await self.at_root()
        await tracking.install(connection)
        await neighbours.name_self(connection, self.tree.root)

    async def uninstall(self) -> None:
        """Remove everything of merge replication from the Publisher's database, once nothing is published.

        Raises:
            ArticleError: a table is still merged.
        """
        await tracking.uninstall(await self.at_root())

    async def disconnect(self) -> None:
        """Close every connection; idempotent."""
        await super().disconnect()
        for login in self._logins.values():
            await login.close()

    async def drop(self) -> None:
        """Drop databases, roles and servers that were created; idempotent."""
        running = self.running
        if self._keep:
            return
        above = {(self.tree.publisher_of(name), name) for name in self.tree.subscribers}
        pairs = {*above, *((name, publisher) for publisher, name in above)}
        await self._nodes.drop(lambda gid: False)
        for node in running:
            agents = [
                neighbours.agent_role(node.database, other)
                for at, other in pairs
                if at == node.name
            ]
            if node.server.is_running() and agents:
                await roles.drop([node], agents)
        self._logins.clear()

    # -- nodes -------------------------------------------------------------------------------------

    async def at_root(self) -> Connection:
        """Return the administrator's connection to the topmost Publisher."""
        return await self.admin(self.tree.root)

    async def merges(self, node: str) -> bool:
        """Whether a node currently tracks changes."""
        [(is_there,)] = await self.execute(
            node, "select to_regclass('msrepl.sysmergesubscriptions') is not null"
        )
        return bool(is_there)

    async def members(self) -> dict[str, Connection]:
        """Return administrators' connections to the nodes that currently track changes, the topmost Publisher's
        first.

        Nodes that are known to be unreachable are left out.
        """
        return {
            name: await self.admin(name)
            for name in (self.tree.root, *self.tree.subscribers)
            if name not in self.unreachable and await self.merges(name)
        }

    async def subscribed(self) -> list[str]:
        """Return the current Subscribers, those of a republisher before it, so that one round uploads all changes."""
        held = {
            name: await neighbours.subscriber_names(await self.admin(name))
            for name in self.tree.publishers
            if await self.merges(name)
        }
        return [
            name for name in self.tree.upwards if name in held.get(self.tree.publisher_of(name), ())
        ]

    async def pair(self, subscriber: str) -> MergePair:
        """Return a Subscriber and its Publisher, with administrators' connections.

        Raises:
            SubscriptionError: the node is the topmost Publisher.
        """
        publisher = self.tree.publisher_of(subscriber)
        return MergePair(
            publisher=publisher,
            subscriber=subscriber,
            above=await self.admin(publisher),
            below=await self.admin(subscriber),
            connect_above=self.node(publisher).connect,
            app_role=self.node(subscriber).app_role,
            without=self.without,
        )

    # -- logins of agents --------------------------------------------------------------------------

    def login(self, node: str, other: str) -> AgentLogin:
        """Return the login of the agent at a node for another node."""
        return self._logins.setdefault((node, other), AgentLogin(self.node(node), other))

    async def make_logins(self, pair: MergePair) -> None:
        """Create the roles of both agents of a pair."""
        for node, other in _ends(pair):
            await self.login(node, other).make(await self.admin(node))

    async def forget_logins(self, pair: MergePair) -> None:
        """Close the kept connections of the agents of a pair."""
        for ends in _ends(pair):
            if (login := self._logins.pop(ends, None)) is not None:
                await login.close()


def _ends(pair: MergePair) -> tuple[tuple[str, str], tuple[str, str]]:
    """Return each end's node with its neighbour."""
    return (pair.publisher, pair.subscriber), (pair.subscriber, pair.publisher)
