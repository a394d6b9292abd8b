"""A topology: one Publisher, its Subscribers, and what connects them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypedDict

from twopc.drivers.coordinator import PostgresCoordinator
from twopc.drivers.in_doubt import InDoubtBranch
from twopc.drivers.oneshot import RunResult
from twopc.drivers.participant import ParticipantAddress
from twopc.drivers.points import Points
from twopc.drivers.recovery import SettledBranch
from twopc.drivers.transaction import Transaction
from twopc.errors import ConfigurationError, InDoubtError
from twopc.protocol.effects import Effect
from twopc.protocol.events import Event
from twopc.sim.topology.agents import Agents
from twopc.sim.topology.articles import Articles
from twopc.sim.topology.clients import AnyClients
from twopc.sim.topology.copies import Copies
from twopc.sim.topology.inspection import Inspection
from twopc.sim.topology.installer import Installer
from twopc.sim.topology.nodes import AnyServer
from twopc.sim.topology.procedures import Procedures
from twopc.sim.topology.regeneration import Regeneration
from twopc.sim.topology.registration import Registration
from twopc.sim.topology.removal import SubscriptionRemoval
from twopc.sim.topology.subscription_scripts import SubscriptionScripts
from twopc.sim.topology.subscriptions import Subscriptions
from twopc.sim.topology.wiring import TopologyLifetime, TopologyWiring


class _Options(TypedDict):
    """Options that `PostgresCoordinator.transaction` and `several` have in common."""

    isolation: str | None
    shipping: str
    commit: str
    role: str | None


class Topology(TopologyLifetime):
    """One Publisher and its Subscribers, as real PostgreSQL databases; an async context manager.

    The most frequent operations are methods of this class; its parts, each an attribute, provide the rest.

    Args:
        publisher: the Publisher's name.
        subscribers: the Subscribers' names.
        servers: ``one`` embedded server for all nodes, or one for ``each``.
        dsns: an administrator's connection string per node, for servers that run already; nodes without one are
            embedded.
        server: server on which the databases are created and dropped, instead of starting one.
        durable: embedded servers flush to disk.
        shipping: ``eager`` sends each statement's call at once, ``lazy`` sends them at commit.
        commit: ``presumed_abort``, ``presumed_commit``, ``presumed_nothing`` or ``last_agent``.
        lock_timeout_ms: how long a change may wait for a row at the Publisher.
        name: of the topology, and in the names of its databases and roles; None: a fresh one.
        keep: leave databases and servers behind at the end.
        attach: all objects exist already (see `twopc.sim.operate.attach`): install and drop nothing.
        distribution: name of the distribution database's node; None: ``distribution``.
        distribute: False: no distribution, for a topology in which changes reach no other Subscriber.
        points: protocol points of the coordinator; None: those armed by environment variables.
        observe: called with every effect and event of the coordinator's machines.
        markers_kept_s: how long branch markers are kept after their transaction was settled everywhere.

    Raises:
        ConfigurationError: an option is invalid; nothing is left half-installed.
    """

    wiring: TopologyWiring

    def __init__(
        self,
        *,
        publisher: str = "pub",
        subscribers: Sequence[str] = ("sub1", "sub2"),
        servers: str = "one",
        dsns: Mapping[str, str] | None = None,
        server: AnyServer | None = None,
        durable: bool = False,
        shipping: str = "eager",
        commit: str = "presumed_abort",
        lock_timeout_ms: int = 5000,
        name: str | None = None,
        keep: bool = False,
        attach: bool = False,
        distribution: str | None = None,
        distribute: bool = True,
        points: Points | None = None,
        observe: Callable[[str, Effect | Event], None] | None = None,
        markers_kept_s: float = 60.0,
    ) -> None:
        self.wiring = wiring = TopologyWiring(
            publisher=publisher,
            subscribers=subscribers,
            servers=servers,
            dsns=dsns,
            server=server,
            durable=durable,
            lock_timeout_ms=lock_timeout_ms,
            name=name,
            keep=keep,
            attach=attach,
            distribution=distribution,
            distribute=distribute,
        )
        self._assemble(wiring)
        self.shipping = shipping
        self.commit = commit
        self.points = points
        self.observe = observe
        self._markers_kept_s = markers_kept_s
        self._coordinator: PostgresCoordinator | None = None
        self._opening = asyncio.Lock()

    def _assemble(self, wiring: TopologyWiring) -> None:
        """Create the parts, each with those that it needs, and make the most frequent of their methods methods of
        this class.
        """
        self.publisher, self.subscribers = wiring.publisher, wiring.subscribers
        self.distribution, self.name = wiring.distribution, wiring.name
        self.node, self.admin, self.execute = wiring.node, wiring.admin, wiring.execute

        self.registration = registration = Registration(wiring)
        self.agents = agents = Agents(wiring, registration)
        self.sync = agents.sync
        self.start_agents, self.stop_agents = agents.start, agents.stop

        self.installer = installer = Installer(wiring, registration, agents)
        self.articles = Articles(installer)
        self.publish, self.unpublish = self.articles.publish, self.articles.unpublish
        self.procedures = Procedures(wiring, registration, agents)
        self.publish_procedure = self.procedures.publish
        self.unpublish_procedure = self.procedures.unpublish

        self.copies = copies = Copies(installer)
        self.scripting = scripting = SubscriptionScripts(installer, copies)
        self.script, self.add_sync_triggers = scripting.script, scripting.add_sync_triggers
        self.set_not_for_replication = scripting.set_not_for_replication
        self.subscriptions = Subscriptions(installer, scripting, copies)
        self.subscribe = self.subscriptions.subscribe
        self.refresh_subscriptions = self.subscriptions.refresh
        self.reinitialise = self.subscriptions.reinitialise
        self.leaving = SubscriptionRemoval(installer, copies)
        self.unsubscribe = self.leaving.unsubscribe
        self.regeneration = Regeneration(installer)
        self.regenerate, self.activate = self.regeneration.regenerate, self.regeneration.activate

        self.inspect = Inspection(installer)
        self.assert_converged = self.inspect.assert_converged
        self.validate = self.inspect.validate
        self.post_tracer_token = self.inspect.post_tracer_token
        self.tracer_history = self.inspect.tracer_history
        self.any_client = AnyClients(wiring, registration)
        self.allow_any_client = self.any_client.allow
        self.forbid_any_client = self.any_client.forbid

    async def close(self) -> None:
        """Stop everything that was started; idempotent."""
        await self.stop_coordinator()
        try:
            await self.any_client.stop()
        finally:
            await self.agents.stop()
            await self.wiring.close(self._take_away)

    async def _take_away(self) -> None:
        """Remove subscriptions, then articles, then what they depend on."""
        for name in [*self.installer.subscribed]:
            if not self.node(name).embedded:
                await self.unsubscribe(name)
        await self.articles.take_away()
        await self.wiring.take_away()

    async def stop_coordinator(self) -> None:
        """Close the coordinator of this process, if there is one; its next use opens a new one."""
        coordinator, self._coordinator = self._coordinator, None
        if coordinator is not None:
            await coordinator.close()

    def watch(self, observe: Callable[[str, Effect | Event], None] | None) -> None:
        """Replace or remove (None) the observer of all effects and events of the coordinator's machines."""
        self.observe = observe
        if self._coordinator is not None:
            self._coordinator.watch(observe)

    # -- transactions ------------------------------------------------------------------------------

    async def coordinator(self) -> PostgresCoordinator:
        """Return the coordinator of this process, opened at its first use.

        Raises:
            ConfigurationError: the decision log cannot be reached.
        """
        async with self._opening:
            if self._coordinator is None:
                made = PostgresCoordinator(
                    self.name,
                    distribution=self.node(self.distribution).coordinator_dsn,
                    publisher=self.address(self.publisher),
                    subscribers={name: self.address(name) for name in self.subscribers},
                    lock_timeout_ms=self.wiring.lock_timeout_ms,
                    points=self.points,
                    observe=self.observe,
                    markers_kept_s=self._markers_kept_s,
                )
                await made.open()
                self._coordinator = made
        return self._coordinator

    def address(self, name: str) -> ParticipantAddress:
        """Return the connection strings with which the coordinator reaches a node."""
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
        several_subscriptions: bool = False,
    ) -> AsyncIterator[Transaction]:
        """Run a global transaction at a Subscriber: committed at the end of the block, rolled back on an exception.

        Args:
            subscribers: one Subscriber; or several, if `several_subscriptions` is set.
            isolation: ``read committed``, ``repeatable read`` or ``serializable``.
            shipping: ``eager`` or ``lazy``; None: the topology's.
            commit: the protocol's variant; None: the topology's.
            role: for the statements at the Subscriber; None: the application's role.
            several_subscriptions: allow several Subscribers: all of them, and the Publisher, or none. Statements
                then go to ``transaction.at("store_a")``. There is no last agent.

        Raises:
            ConfigurationError: no Subscriber, an unknown one, or several that were not allowed.
            RejectedError: the transaction was rolled back at both sites.
            InDoubtError: the outcome is not known; it will be the same at both sites.

        Several subscription databases in one transaction are refused unless allowed: the original keeps one
        loopback mark per transaction, so that one Subscriber's mark would overwrite the other's.
        """
        coordinator = await self.coordinator()
        options: _Options = {
            "isolation": isolation,
            "shipping": shipping or self.shipping,
            "commit": commit or self.commit,
            "role": role,
        }
        made: Transaction
        if several_subscriptions and len(subscribers) > 1:
            made = coordinator.several(subscribers, **options)
        else:
            made = coordinator.transaction(self._only(subscribers), **options)
        async with made as transaction:
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
            "databases: each marks what it sends as its own, and where a transaction has one loopback "
            "mark, the last overwrites the others, so that changes come back to a Subscriber that made "
            "them. Use a transaction for each, or pass several_subscriptions=True: then each has a "
            "branch, and a mark, of its own at the Publisher"
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
    ) -> RunResult:
        """Run a transaction of one statement, in the fewest messages possible.

        Args:
            statement: with ``$1``, ``$2`` ... for parameters; the rest as for `transaction`.

        Raises:
            RejectedError: the transaction was rolled back at both sites.
            InDoubtError: the outcome is not known.
            ResultLostError: the transaction was committed, but the statement's result is lost.
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

    async def recover(self) -> list[SettledBranch]:
        """Run one pass of recovery; return the branches that it has settled."""
        return await (await self.coordinator()).recover()

    async def in_doubt(self) -> list[InDoubtBranch]:
        """Return every prepared branch at any node, oldest first, with its expected outcome."""
        return await (await self.coordinator()).in_doubt()

    async def settle(self, timeout_ms: int = 10_000) -> None:
        """Wait until no branch is prepared, and deliver everything to every Subscriber.

        Raises:
            InDoubtError: a branch stays prepared (named).
            DeliveryError: a change cannot be applied at a Subscriber.
        """
        until = asyncio.get_running_loop().time() + timeout_ms / 1000
        await self.any_client.resolve(until)
        while branches := [each for each in await self.in_doubt() if each.ours]:
            if asyncio.get_running_loop().time() > until:
                raise InDoubtError(
                    f"{branches[0].gid} is still prepared at {branches[0].node}: "
                    f"{branches[0].next_action}",
                    gid=branches[0].gid,
                    node=branches[0].node,
                )
            await self.recover()
        if await self.registration.has_subscriptions():
            await self.sync()
