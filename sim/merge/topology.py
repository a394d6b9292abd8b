"""A Publisher and its Subscribers of merge replication: each node works independently, and sessions synchronise
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from twopc.drivers.points import Points
from twopc.merge.handlers import MergeHandler
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.sim.merge.conflicts import ConflictDesk
from twopc.sim.merge.publication import MergePublication
from twopc.sim.merge.sessions import MergeSessions
from twopc.sim.merge.shape import MergeTree
from twopc.sim.merge.snapshots import MergeSnapshots
from twopc.sim.merge.subscription_life import MergeSubscriptions
from twopc.sim.merge.upkeep import MergeUpkeep
from twopc.sim.merge.wiring import MergeWiring
from twopc.sim.topology.nodes import AnyServer
from twopc.sim.topology.wiring import TopologyLifetime


class MergeTopology(TopologyLifetime):
    """One Publisher and its Subscribers; an async context manager.

    There is no coordinator, no distribution database and no log reader: every node is changed by ordinary local
    transactions, and `sync` is a session of the Merge Agent. The most frequent operations are methods of this
    class; its parts, each an attribute, provide the rest.

    Args:
        publisher: the Publisher's name.
        subscribers: the Subscribers' names.
        tree: in place of both, the Subscribers of each node that publishes, the topmost first. A node that
            subscribes and publishes is a republisher.
        servers: ``one`` embedded server for all nodes, or one for ``each``.
        server: server on which the databases are created and dropped, instead of starting one.
        dsns: administrators' connection strings of nodes with existing databases, by name. What is created there is
            kept.
        name: of the topology, in its roles and databases; needed with `dsns`.
        attach: all objects exist already: see `twopc.sim.merge.attachment`.
        points: protocol points of sessions (`twopc.drivers.points.MERGE_POINTS`).
        lock_timeout_ms: how long a session may wait for a row that an application has locked.
        without: protections that are switched off, to show their purpose.

    Raises:
        ConfigurationError: an option is invalid; nothing is left half-installed.
    """

    wiring: MergeWiring

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
        self.wiring = wiring = MergeWiring(
            tree=MergeTree(tree if tree is not None else {publisher: subscribers}),
            servers=servers,
            server=server,
            dsns=dsns,
            name=name,
            attach=attach,
            points=points,
            lock_timeout_ms=lock_timeout_ms,
            without=without,
        )
        self.tree, self.name, self.points = wiring.tree, wiring.name, wiring.points
        self.publisher, self.subscribers = wiring.tree.root, wiring.tree.subscribers
        self.node, self.admin, self.execute = wiring.node, wiring.admin, wiring.execute
        self.install, self.uninstall = wiring.install, wiring.uninstall
        self.members, self.subscribed = wiring.members, wiring.subscribed
        self.pair, self.merges = wiring.pair, wiring.merges
        self._assemble(wiring)

    def _assemble(self, wiring: MergeWiring) -> None:
        """Create the parts, each with those that it needs, and make the most frequent of their methods methods of
        this class.
        """
        self.publication = publication = MergePublication(wiring)
        self.publish, self.unpublish = publication.publish, publication.unpublish
        self.add_column, self.drop_column = publication.add_column, publication.drop_column
        self.widen_column = publication.widen_column

        self.agent = agent = MergeSessions(wiring)
        self.sync, self.settle, self.rewound = agent.sync, agent.settle, agent.rewound
        self.agent_processes = agent.agent_processes
        self.assert_converged = agent.assert_converged

        self.snapshots = snapshots = MergeSnapshots(wiring)
        self.snapshot = snapshots.snapshot
        self.let_subscribers_start_snapshots = snapshots.let_subscribers_start_snapshots
        self.subscriptions = subscriptions = MergeSubscriptions(wiring, agent, snapshots)
        self.subscribe, self.unsubscribe = subscriptions.subscribe, subscriptions.unsubscribe
        self.reinitialise = subscriptions.reinitialise

        self.desk = desk = ConflictDesk(wiring)
        self.conflicts, self.resolve = desk.conflicts, desk.resolve
        self.clean_conflicts = desk.clean_conflicts

        self.upkeep = upkeep = MergeUpkeep(wiring)
        self.partitions, self.add_partition = upkeep.partitions, upkeep.add_partition
        self.check_partitions, self.check = upkeep.check_partitions, upkeep.check
        self.set_retention, self.clean_up = upkeep.set_retention, upkeep.clean_up
        self.status, self.sessions = upkeep.status, upkeep.sessions
        self.ranges, self.regenerate = upkeep.ranges, upkeep.regenerate
        self.validate, self.show_row = upkeep.validate, upkeep.show_row
        self.dummy_update, self.age = upkeep.dummy_update, upkeep.age
        self.back_up, self.restore_backup = upkeep.back_up, upkeep.restore_backup

    @property
    def handlers(self) -> dict[str, MergeHandler]:
        """Handlers called for each row that sessions propagate, by table (``name``, or ``schema.name``)."""
        return self.agent.handlers

    @handlers.setter
    def handlers(self, handlers: dict[str, MergeHandler]) -> None:
        self.agent.handlers = handlers

    async def close(self) -> None:
        """Disconnect, and drop databases, roles and servers that were created; idempotent."""
        await self.wiring.disconnect()
        await self.upkeep.drop_backups()
        await self.wiring.drop()
