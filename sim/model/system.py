"""The whole model, built from a specification: nodes, network, decision log, coordinators, replication.

All parts meet only here. Wiring can replace them: whole classes by the fields of `twopc.sim.model.wiring.Wiring`,
single functions by name in its `parts` (`PARTS`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import blake2b
from typing import Any

from twopc.drivers.points import Points
from twopc.drivers.recovery import SettledBranch
from twopc.drivers.virtual import steps
from twopc.errors import ConfigurationError
from twopc.proc_execution import ProcArticle
from twopc.protocol.effects import Outcome
from twopc.protocol.variants import VARIANTS, Settings
from twopc.sim.deliveries import ReportedDelivery
from twopc.sim.model import proc_execution
from twopc.sim.model.any_client import ModelAnyClient, ModelAnyClients
from twopc.sim.model.builder import blaming, create_text
from twopc.sim.model.clients import PublisherClient, SubscriberClient
from twopc.sim.model.clocks import Clock
from twopc.sim.model.coordinator import CoordinatorPlace
from twopc.sim.model.distribution import system_distribution
from twopc.sim.model.distribution.seats import AgentSeat
from twopc.sim.model.distribution.system_distribution import Distribution
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.members import Members
from twopc.sim.model.network import Network
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.ports import RecorderPort
from twopc.sim.model.replication import articles, behaviour
from twopc.sim.model.replication.articles import ModelArticle
from twopc.sim.model.replication.behaviour import Behaviour
from twopc.sim.model.replication.procedures import ModelProcedures
from twopc.sim.model.replication.subscription import ModelSubscription, watch_publisher
from twopc.sim.model.replication.versions import Births
from twopc.sim.model.seats import CoordinatorSeat, LogHost
from twopc.sim.model.sql.ddl import condition
from twopc.sim.model.values import (
    ModelSpec,
    RequestLostError,
    Steps,
    SubscriberSpec,
)
from twopc.sim.model.wiring import Wiring

#: Functions that `Wiring.parts` may replace, by name, each with its default; a replacement has the same signature. See
#: `twopc.sim.model.replication.behaviour` and `twopc.sim.model.distribution` for their meaning.
PARTS: Mapping[str, Callable[..., Any]] = {
    **behaviour.PARTS,
    **system_distribution.PARTS,
    **proc_execution.PARTS,
}
#: Name of the decision log's place.
LOG = "distribution"
_SETTLED_KEPT = 1000


class System:
    """A built model."""

    def __init__(
        self, spec: ModelSpec, wiring: Wiring, kernel: SimpyKernel, recorder: RecorderPort,
        points: Points | None = None,
    ) -> None:  # fmt: skip
        self.spec = spec
        self.wiring = wiring
        self.kernel = kernel
        self.recorder = recorder
        self.points = points if points is not None else Points()
        self.reaching: Any = None
        """The session of a node that has last reached a protocol point."""
        self.settled: deque[SettledBranch] = deque(maxlen=_SETTLED_KEPT)
        """Branches that recovery has settled last."""
        self.subscribers = tuple(one.name for one in spec.subscribers)
        self.network = Network(kernel, spec.timing)
        self.clocks: dict[str, Clock] = {}
        """The clocks of the nodes, each with its own offset and rate."""
        self.nodes: dict[str, ModelNode] = {
            name: self._make_node(name) for name in (spec.publisher, *self.subscribers)
        }
        self.log_host = LogHost()
        self.ledger = wiring.ledger(kernel, self.log_host.running, spec.timing.flush)
        self.articles: dict[str, ModelArticle] = {}
        self.routines: list[ProcArticle] = []
        """Published routines, in order."""
        self.births = {name: Births(name) for name in self.nodes}
        unknown = sorted(wiring.parts.keys() - PARTS.keys())
        if unknown:
            raise ConfigurationError(
                f"the model has no part {unknown[0]!r}; there are {', '.join(sorted(PARTS))}"
            )
        self.behaviour = Behaviour.of(wiring.parts)
        self.procedures = ModelProcedures(self.articles, self.behaviour, self._reach)
        self.subscriptions: dict[str, ModelSubscription] = {}
        if spec.one_server:
            for node in self.nodes.values():
                node.slots_taken = lambda: sum(len(one.branches) for one in self.nodes.values())
        self._set_up()
        self.place = CoordinatorPlace(
            self.network,
            self.nodes,
            self.ledger,
            publisher=spec.publisher,
            log_at=LOG,
            wiring=wiring,
        )
        self._any_clients = {
            one.name: self._admit_any_clients(one) for one in spec.subscribers if one.any_client
        }
        self._coordinators = {spec.coordinator: CoordinatorSeat(self, spec.coordinator)}

    @property
    def publisher(self) -> ModelNode:
        """The Publisher's node."""
        return self.nodes[self.spec.publisher]

    def observe(self, gid: str, what: Any) -> None:
        """Record an effect or event of the coordinators' machines."""
        self.recorder.write("machine", gid=gid, what=what)

    def _reach(self, point: str, tx: OpenTx) -> Steps[None]:
        """Reach a protocol point within a node."""
        if self.points.armed:
            self.reaching = tx.session
            yield from steps(self.points.reach(point))
            if tx.session.dead is not None:
                raise RequestLostError(str(tx.session.dead))

    # -- setup, outside of virtual time --------------------------------------------------------------

    def _make_node(self, name: str) -> ModelNode:
        spec = self.spec
        settings = Settings(
            variant=VARIANTS["presumed_abort"].on_postgres(), inquiry_s=float("inf")
        )
        clock = self.clocks[name] = Clock(lambda: self.kernel.now, shows=spec.began_s)
        return ModelNode(
            name, self.kernel, timing=spec.timing, clock=clock,
            lock_timeout_s=spec.lock_timeout_s, prepared_max=spec.prepared_max,
            participant=self.wiring.participant, settings=settings,
        )  # fmt: skip

    def _set_up(self) -> None:
        spec, publisher = self.spec, self.publisher
        for table in spec.tables:
            with blaming("tables", table.name, "columns"):
                publisher.define(create_text(table))
        for table in spec.tables:
            for at, text in enumerate(table.sql):
                with blaming("tables", table.name, "sql", at):
                    publisher.define(text)
        for table in spec.tables:
            for at, row in enumerate(table.rows):
                with blaming("tables", table.name, "rows", at):
                    articles.insert(publisher, table.name, row)
        for table in spec.tables:
            with blaming("tables", table.name):
                self.articles[table.name] = articles.publish(
                    publisher, table, self.births[publisher.name], self.behaviour
                )
        articles.tie(self.articles)
        self._publish_routines()
        for one in spec.subscribers:
            for name, text in one.filters.items():
                with blaming("subscribers", one.name, "filter", name):
                    article = self.articles[name]
                    article.parts[articles.link_role(one.name)] = condition(
                        text, article.table, publisher.plans
                    )
        watch_publisher(publisher, self.articles, self.behaviour)
        self.members = Members(
            spec, self.nodes, published=self.articles, births=self.births, subscription=self._subscription, subscriptions=self.subscriptions,
        )  # fmt: skip
        for one in spec.subscribers:
            node = self.nodes[one.name]
            if one.joins_later:
                continue
            self.members.begin(one.name)
            self._bring_routines(node)
        self._distribute()
        for at, text in enumerate(spec.setup):
            with blaming("setup", at):
                publisher.define(text)

    def _publish_routines(self) -> None:
        spec = self.spec
        for at, procedure in enumerate(spec.procedures, len(spec.tables) + 1):
            with blaming("procedures", procedure.name, "body"):
                made = proc_execution.publish(
                    self.publisher, spec, procedure, at, self.wiring.parts
                )
                self.routines.append(made)

    def _subscription(self, one: SubscriberSpec) -> ModelSubscription | None:
        """Create the objects for a Subscriber's own changes; None if it is read-only."""
        node = self.nodes[one.name]
        if one.update == "read only":
            for name in self.articles:
                node.add_trigger(name, proc_execution.RefuseWrites())
            return None
        made = self.subscriptions[one.name] = ModelSubscription(
            node, self.publisher, self.network, self.articles, self.procedures, self.behaviour,
            self.births[one.name], self._reach,
        )  # fmt: skip
        made.install()
        return made

    def _admit_any_clients(self, one: SubscriberSpec) -> ModelAnyClients:
        """Admit clients without a coordinator to a Subscriber."""
        coordinator = f"{self.spec.coordinator}.{one.name}"
        epoch = self.ledger.let(coordinator)
        made = ModelAnyClients(self.place, one.name, coordinator, epoch, self.spec.markers_kept_s)
        self.subscriptions[one.name].let_any_client(made)
        return made

    def _bring_routines(self, node: ModelNode) -> None:
        """Define the published routines at a Subscriber, and the specification's replacements."""
        for routine, procedure in zip(self.routines, self.spec.procedures, strict=True):
            node.define(routine.definition)
            for at, text in enumerate(procedure.at_subscribers):
                with blaming("procedures", procedure.name, "at_subscribers", at):
                    node.define(text)

    def _distribute(self) -> None:
        """Begin to distribute the Publisher's commits."""
        spec = self.spec
        self.distribution: Distribution | None = None
        if spec.distributes and spec.subscribers:
            with blaming("tables"):
                self.distribution = Distribution(
                    spec, self.wiring, self.network, self.nodes, role_of=articles.link_role,
                    points=self.points, routines=self.routines,
                )  # fmt: skip
        self.members.distribution = self.distribution

    # -- while it runs -------------------------------------------------------------------------------

    def session(
        self,
        name: str,
        node: str,
        also: Sequence[str] = (),
        numbers: Iterator[int] | None = None,
        *,
        any_client: bool = False,
    ) -> SubscriberClient | PublisherClient:
        """Return a new client.

        Args:
            also: further Subscribers with branches of the client's transactions.
            numbers: numbers of those transactions, if the coordinator does not number them.
            any_client: whether a Subscriber's client has no coordinator; its own COMMIT decides.
        """
        if node == self.spec.publisher:
            return PublisherClient(name, self.publisher, self.network)
        if any_client:
            return ModelAnyClient(name, self._any_clients[node], self.network)
        seat = self._coordinators[self.spec.coordinator]
        return SubscriberClient(
            name, node, lambda: seat.process, variant=self.spec.commit, shipping=self.spec.shipping,
            also=also, numbers=numbers,
        )  # fmt: skip

    def sync(self, subscribers: Sequence[str] = ()) -> Steps[Any]:
        """Let log reader and agents reach the Publisher's present position; see `Distribution.sync`."""
        return (yield from self.members.require_distribution().sync(subscribers))

    def take_deliveries(self) -> list[ReportedDelivery]:
        """Return the events of agents since the last call."""
        return [] if self.distribution is None else self.distribution.take_deliveries()

    def reinitialise(self, subscriber: str) -> Steps[None]:
        """Replace all rows of a Subscriber; see `members`. Raise LockTimeoutError or SubscriptionError."""
        yield from self.members.reinitialise(subscriber)

    def agent(self, subscriber: str) -> AgentSeat:
        """Return a Subscriber's agent, with `pause`, `resume`, `crash`, `start`."""
        return self.members.require_distribution().agent(subscriber)

    def coordinators(self) -> Mapping[str, CoordinatorSeat]:
        """Return the coordinators by name."""
        return self._coordinators

    def crash_node(self, name: str, kept_lsn: int | None = None) -> None:
        """Stop a node and break every connection to and from it; `restart_node` restarts it.

        Args:
            kept_lsn: see `twopc.sim.model.node.node.ModelNode.crash`.
        """
        if name == LOG:
            self.log_host.up = False
            self.ledger.crash()
        else:
            self.nodes[name].crash(kept_lsn)
        self.network.node_lost(name)

    def restart_node(self, name: str) -> Steps[None]:
        """Wait until a node accepts connections again."""
        if name == LOG:
            self.log_host.starts += 1
            self.log_host.up = True
        else:
            yield from self.nodes[name].restart()

    def cut(self, a: str, b: str, *, one_way: bool = False, silent: bool = False) -> None:
        """Stop messages between two places; see `Network.cut`."""
        self.network.cut(a, b, one_way=one_way, silent=silent)

    def heal(self, a: str, b: str) -> None:
        """Let messages travel again."""
        self.network.heal(a, b)

    def finish_by_hand(self, node: str, gid: str, outcome: Outcome) -> Steps[None]:
        """Finish a branch as an operator, regardless of the decision. Raise SqlError."""
        session = self.nodes[node].connect("postgres", "by hand")
        verb = "commit" if outcome is Outcome.COMMITTED else "rollback"
        try:
            yield from session.execute(f"{verb} prepared '{gid}'")
        finally:
            session.close()

    def quiet(self) -> bool:
        """Whether no transaction, branch or delivery is open, in doubt or running."""
        if self.distribution is not None and not self.distribution.quiet():
            return False
        return not (
            any(node.branches or node.open for node in self.nodes.values())
            or any(
                one.process.active or one.process.keeper.unsettled
                for one in self._coordinators.values()
            )
        )

    def digest(self) -> int:
        """Return a digest of all state that can affect the rest of the run."""
        parts: list[Any] = [node.digest() for node in self.nodes.values()]
        parts += [
            (key, record.kind, record.participants) for key, record in self.ledger.decisions.items()
        ]
        parts += [(epoch, one.fenced_at is None) for epoch, one in self.ledger.epochs.items()]
        parts += [(wire.actor, wire.there) for wire in self.network.wires]
        if self.distribution is not None:
            parts.append(self.distribution.digest())
        return int.from_bytes(blake2b(repr(parts).encode(), digest_size=8).digest(), "big")


def build(
    spec: ModelSpec, wiring: Wiring = Wiring(), *, kernel: SimpyKernel, recorder: RecorderPort,  # noqa: B008 - frozen
    points: Points | None = None,
) -> System:  # fmt: skip
    """Return a system built from a specification, which runs by the kernel's time.

    Args:
        points: the protocol points of its processes; new ones if None.

    Raises:
        twopc.sim.model.builder.BuildError: a node refuses a part of the specification.
        UnsupportedError: the specification has a part that the model lacks.
    """
    return System(spec, wiring, kernel, recorder, points)
