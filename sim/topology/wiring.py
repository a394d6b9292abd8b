"""The nodes of a topology and the administrators' connections to them, from creation to removal.

Independent of articles and transactions.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Self

import psycopg
from psycopg import AsyncConnection

from twopc import names
from twopc.drivers.install import install_decision_log, install_participant
from twopc.errors import ConfigurationError
from twopc.log import get_logger
from twopc.names import BranchId
from twopc.publisher import publication
from twopc.publisher.distribution import install as install_distribution
from twopc.sim.topology.nodes import AnyServer, Node, Nodes, fresh_name
from twopc.together import together

_log = get_logger(__name__)


class NodeWiring(ABC):
    """Nodes by name, with the administrator's connection to each, opened one at a time per node and kept."""

    def __init__(self, nodes: Nodes, *, attached: bool) -> None:
        self._nodes = nodes
        self.attached = attached
        """Whether the nodes existed already with all objects."""
        self.unreachable: Mapping[str, str] = {}
        """Nodes of an existing topology that cannot be reached, with the reason, if it is to be used without them."""
        self._open: dict[str, AsyncConnection[Any]] = {}
        self._making: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name."""
        return self._nodes.nodes

    async def open(self) -> None:
        """Create the nodes and install what they need, or attach to existing nodes."""
        if self.attached:
            await self._nodes.attach(self.unreachable)
        else:
            await self._nodes.create()
            await self.install()

    @abstractmethod
    async def install(self) -> None:
        """Install what nodes need before anything is published."""

    def node(self, name: str) -> Node:
        """Return the node with this name. Raises ConfigurationError if there is none."""
        if name not in self.nodes:
            raise ConfigurationError(f"no node {name!r}; nodes are {', '.join(self.nodes)}")
        return self.nodes[name]

    async def admin(self, name: str) -> AsyncConnection[Any]:
        """Return the administrator's connection to a node; open a new one if it is broken."""
        node = self.node(name)
        async with self._making[name]:
            connection = self._open.get(name)
            if connection is not None and connection.closed:
                # a broken connection is `closed` although `close` was not called
                await connection.close()
                connection = None
            if connection is None:
                connection = self._open[name] = await node.connect()
            return connection

    async def execute(self, node: str, statement: str, params: Any = None) -> list[tuple[Any, ...]]:
        """Run SQL at a node as its administrator, for setup and inspection."""
        connection = await self.admin(node)
        async with connection.cursor() as cursor:
            await cursor.execute(statement.encode(), params)
            return await cursor.fetchall() if cursor.description else []

    async def disconnect(self) -> None:
        """Close every connection; idempotent."""
        for connection in self._open.values():
            await connection.close()
        self._open.clear()


class TopologyLifetime(ABC):
    """A topology as an async context manager: its nodes are opened at the beginning of the block, and closed at its end."""

    wiring: NodeWiring

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes by name, the distribution database among them."""
        return self.wiring.nodes

    async def __aenter__(self) -> Self:
        try:
            await self.wiring.open()
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

    @abstractmethod
    async def close(self) -> None:
        """Stop and disconnect everything; idempotent."""

    @classmethod
    def blocking(cls, **options: Any) -> AbstractContextManager[Any]:
        """Return a blocking equivalent for code without an event loop: ``with Topology.blocking(...) as
        topology:``.

        Every method has the same name, and is called without ``await``; so are the methods of the transactions,
        cursors and connections that it returns (see `twopc.sim.topology.blocking_twin`).
        """
        from twopc.sim.topology.blocking_twin import blocking  # imports anyio

        return blocking(cls(**options))


class TopologyWiring(NodeWiring):
    """The nodes of a topology, the distribution database among them; see `twopc.sim.topology.Topology` for the arguments."""

    def __init__(
        self,
        *,
        publisher: str,
        subscribers: Sequence[str],
        servers: str,
        dsns: Mapping[str, str] | None,
        server: AnyServer | None,
        durable: bool,
        lock_timeout_ms: int,
        name: str | None,
        keep: bool,
        attach: bool,
        distribution: str | None,
        distribute: bool,
    ) -> None:
        distribution = distribution or "distribution"
        for node in (publisher, *subscribers, distribution, *((name,) if name else ())):
            if not names.is_node_name(node):
                raise ConfigurationError(
                    f"{node!r} cannot be part of a gid: use 1 to 63 of the characters A-Z a-z 0-9 _ . -"
                )
        if dsns and name is None and not attach:
            raise ConfigurationError(
                "servers that are there already need the topology's name: processes of one name share "
                "roles and recover for each other. Say name='...'"
            )
        kinds = {publisher: "publisher"}
        for subscriber in subscribers:
            if subscriber in kinds:
                raise ConfigurationError(f"two nodes are called {subscriber!r}")
            kinds[subscriber] = "subscriber"
        if distribution in kinds:
            raise ConfigurationError(f"{distribution!r} is the name of the distribution database")
        kinds[distribution] = "distribution"
        self.distribution = distribution
        self.publisher = publisher
        self.subscribers = tuple(subscribers)
        self.name = name or fresh_name()
        self.lock_timeout_ms = lock_timeout_ms
        self.distribute = distribute
        """Whether there is a distribution database, as far as is known; see `Registration.can_distribute`."""
        self._keep = keep or attach
        dsns = dict(dsns or {})
        if publisher in dsns and not attach:
            # as in SQL Server, the distribution database is at the Publisher unless another is given
            dsns.setdefault(distribution, dsns[publisher])
        nodes = Nodes(
            name=self.name,
            kinds=kinds,
            dsns=dsns,
            servers=servers,
            server=server,
            durable=durable,
            distribute=distribute,
        )
        super().__init__(nodes, attached=attach)
        self._brought: set[str] = set()

    async def at_publisher(self) -> AsyncConnection[Any]:
        """Return the administrator's connection to the Publisher."""
        return await self.admin(self.publisher)

    async def at_distribution(self) -> AsyncConnection[Any]:
        """Return the administrator's connection to the distribution database."""
        return await self.admin(self.distribution)

    async def admit(self, name: str) -> None:
        """Create the roles that the Publisher's node has at a Subscriber's node, if it lacks them."""
        await self._nodes.admit(name, like=self.publisher)

    async def install(self) -> None:
        """Install what Publisher and distribution database need before anything is published."""
        publisher, distribution = self.node(self.publisher), self.node(self.distribution)
        here = await self.at_publisher()
        for node in (publisher, distribution):
            known = await self.execute(node.name, "select to_regnamespace('msrepl') is not null")
            if not known[0][0]:
                self._brought.add(node.name)
        # the Publisher's part is committed last: it marks the database as a Publisher, which must then be
        # complete
        async with here.transaction():
            # two new databases can be installed at the same time
            if publisher.embedded and distribution.embedded:
                await together(self.install_distribution(), self._install_publisher(here))
            else:
                await self.install_distribution()
                await self._install_publisher(here)

    async def install_distribution(self) -> None:
        """Create the distribution database's tables, or upgrade those of an earlier version."""
        node, log = self.node(self.distribution), await self.at_distribution()
        await install_decision_log(log, node.coordinator_role, self.name)
        if self.distribute:
            await install_distribution(log, node.logreader_role, node.agent_role)

    async def _install_publisher(self, here: AsyncConnection[Any]) -> None:
        node = self.node(self.publisher)
        await publication.install(here)
        await install_participant(
            here, publication.owner_role(node.database), node.coordinator_role
        )
        if self.distribute:
            await publication.admit_log_reader(here, node.logreader_role)

    async def close(self, take_away: Callable[[], Awaitable[None]]) -> None:
        """Disconnect, and drop the nodes unless they are kept; idempotent.

        Args:
            take_away: removes the topology's objects from databases that it did not create.
        """
        await self.disconnect()  # connections may be broken and not be marked as closed
        if not self._keep:
            try:
                await take_away()
            except psycopg.OperationalError as error:
                _log.warning("a node is down: what was installed there is left", error=str(error))
        await self.disconnect()
        if not self._keep:
            await self._nodes.drop(self._is_ours)

    def keep(self) -> None:
        """Keep databases and roles when the topology is closed."""
        self._keep = True

    def leave(self) -> None:
        """Make `close` drop nothing, for a server that is removed next; servers that it has started itself are
        stopped.
        """
        self._keep = not self._nodes.has_servers

    async def take_away(self) -> None:
        """Remove what this topology installed in existing databases, once nothing is published."""
        if self.publisher in self._brought and not self.node(self.publisher).embedded:
            await publication.uninstall(await self.at_publisher())
        if self.nodes and not self.node(self.distribution).embedded:
            await self._forget_name()
        for name in sorted(self._brought):
            node = self.node(name)
            if not node.embedded and node.kind == "distribution" and self.is_apart(node):
                await self.execute(name, "drop schema if exists msrepl cascade")
        self._brought.clear()

    async def _forget_name(self) -> None:
        """Delete the topology's name from the distribution database; no effect if the name or the schema is
        missing.
        """
        there = await self.execute(
            self.distribution, "select to_regclass('msrepl.coordinator') is not null"
        )
        if there[0][0]:
            await self.execute(
                self.distribution, "delete from msrepl.coordinator where name = %s", (self.name,)
            )

    async def drop_roles(self) -> None:
        """Drop our login roles on the nodes' servers, with their privileges in the nodes' databases.

        Raises:
            ConfigurationError: a role has objects or privileges in a database that is not a node.
        """
        await self._nodes.drop_roles()

    def is_apart(self, node: Node) -> bool:
        """Whether the distribution database is another database than the Publisher's."""
        publisher = self.node(self.publisher)
        return node.server is not publisher.server or node.database != publisher.database

    def _is_ours(self, gid: str) -> bool:
        branch = BranchId.parse(gid)
        return branch is not None and branch.global_id.coordinator in self.coordinators

    @property
    def coordinators(self) -> frozenset[str]:
        """Coordinator names in the gids of this topology's branches: its own name, and those for any client."""
        return frozenset((self.name, *(f"{self.name}.{each}" for each in self.subscribers)))
