"""The topology that a blocking test uses: a Publisher and its Subscribers on real PostgreSQL, without an event
loop.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from twopc.errors import ConflictError, InDoubtError, RejectedError
from twopc.sim.report.fold import Fold
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.story import story
from twopc.sim.sessions.results import Rows
from twopc.sim.testing.bed import Bed
from twopc.sim.testing.bench import Bench, BlockingCaller
from twopc.sim.testing.session import TestSession, Watched, Work

if TYPE_CHECKING:
    from twopc.sim.testing.orders import OrderRun, Orders


class NodeBase:
    """A node of a topology, by name."""

    __test__ = False  # not a test, despite the names of its subclasses

    def __init__(self, topology: Any, name: str) -> None:
        self._topology = topology
        self.name = name

    def __repr__(self) -> str:
        return f"<node {self.name}>"


class TestNode(NodeBase):
    """One node, inspected as its administrator."""

    _topology: TestTopology

    def rows(self, table: str) -> Rows:
        """Return a table's rows by key, without their row versions.

        Args:
            table: ``table`` or ``schema.table``.
        """
        __tracebackhide__ = True
        return self._topology.call(self._topology.bed.rows, self.name, table)

    def query(self, sql: str, params: Any = None) -> Rows:
        """Return the rows of a query. A change that it makes is not prevented, and not recorded in the history."""
        __tracebackhide__ = True
        return self._topology.call(self._topology.bed.look, self.name, sql, params)


class TopologyBase:
    """What is known of a Publisher and its Subscribers without a call."""

    __test__ = False  # not a test, despite the names of its subclasses

    Conflict: ClassVar[type[ConflictError]] = ConflictError
    """The Publisher's row is not the Subscriber's version: rolled back at both sites."""
    Rejected: ClassVar[type[RejectedError]] = RejectedError
    """The transaction was refused for any reason: rolled back at both sites."""
    InDoubt: ClassVar[type[InDoubtError]] = InDoubtError
    """The outcome is not known yet; it will be the same at both sites."""

    bed: Bed
    """The topology on the event loop that serves it."""

    @property
    def publisher(self) -> str:
        """The Publisher's name."""
        return self.bed.topology.publisher

    @property
    def subscribers(self) -> tuple[str, ...]:
        """The Subscribers' names."""
        return self.bed.topology.subscribers

    @property
    def name(self) -> str:
        """Name of the topology, in the names of its databases and in its gids."""
        return self.bed.topology.name

    def dsn(self, node: str, *, application_name: str = "") -> str:
        """Return the application's connection string to a node; valid in other processes, too.

        Args:
            application_name: identifies the connection for `watch` and `Started.blocked_by`.
        """
        __tracebackhide__ = True
        return self.bed.dsn(node, application_name)

    def url(self, node: str, driver: str = "psycopg", *, application_name: str = "") -> str:
        """Return the application's SQLAlchemy URL of a node: ``postgresql+psycopg://…``, over TCP, for any driver.

        Args:
            driver: empty for a plain ``postgresql://…``, for asyncpg and libpq.

        Raises:
            ConfigurationError: an `application_name` with asyncpg, which SQLAlchemy accepts only in
                ``connect_args``.
        """
        __tracebackhide__ = True
        return self.bed.address(node, application_name).url(driver)

    def django(self, node: str, *, application_name: str = "") -> dict[str, Any]:
        """Return the application's entry of Django's ``DATABASES`` for a node."""
        __tracebackhide__ = True
        return self.bed.address(node, application_name).django()

    def faults_not_reached(self) -> list[str]:
        """Return the required faults that have not struck, or had no effect."""
        faults = self.bed.surroundings.faults
        return faults.not_reached() if faults is not None else []

    @property
    def strategies(self) -> ModuleType:
        """The module `twopc.sim.testing.strategies`, with orders and isolation levels for Hypothesis."""
        from twopc.sim.testing import strategies  # Hypothesis is optional

        return strategies

    @property
    def history(self) -> list[HistoryRecord]:
        """Records of the test so far, from which any report can be made."""
        return self.bed.records

    def explain(self) -> str:
        """Return the test's history so far as sentences."""
        return "\n".join(story(Fold(self.bed.records)))

    def __repr__(self) -> str:
        return f"<{self.publisher} and {', '.join(self.subscribers)}: {self.name}>"


class TestTopology(TopologyBase, BlockingCaller):
    """A Publisher and its Subscribers, for one test."""

    def __init__(
        self, bench: Bench, bed: Bed, *, isolation: str | None = None, seed: int = 0
    ) -> None:
        super().__init__(bench)
        self.bed = bed
        self.isolation = isolation
        """Isolation level of sessions that do not set another; None: read committed."""
        self.seed = seed
        """Seed of all random choices in this test."""
        self.orders = ""
        """Orders that `run_orders` plays: ``all``, ``sample:N`` or one order; empty: as the call specifies."""

    # -- nodes -------------------------------------------------------------------------------------

    def node(self, name: str) -> TestNode:
        """Return a node for inspection."""
        __tracebackhide__ = True
        self.dsn(name)
        return TestNode(self, name)

    def session(self, node: str, *, name: str = "", isolation: str | None = None) -> TestSession:
        """Open a new session of the application's role.

        Args:
            name: name of the session in waits and in the history; empty: its node's.
            isolation: ``read committed`` (unless the test's mark sets another), ``repeatable read`` or
                ``serializable``.
        """
        __tracebackhide__ = True
        live = self.call(self.bed.session, node, name, isolation or self.isolation)
        return TestSession(self, live)

    def watch(self, node: str, *, application_name: str, work: Work = None) -> Watched:
        """Observe a session that the application itself opens, in this process or another.

        Args:
            application_name: that of its connection; the application can also run ``SET application_name = '…'``.
            work: the thread, future or task in which the application runs, if known: once it has ended, the session
                is no longer blocked.
        """
        return Watched(self, self.call(self.bed.watch, node, application_name), work)

    # -- tables ------------------------------------------------------------------------------------

    def create(self, *sql: str, publish: Sequence[str] = ()) -> None:
        """Run SQL at the Publisher, publish tables, and deliver them to every Subscriber.

        Args:
            publish: tables; none named: every table that has a primary key and is not published yet.
        """
        __tracebackhide__ = True
        self.call(self.bed.create, sql, tuple(publish) or None)

    # -- delivering --------------------------------------------------------------------------------

    def sync(self, *subscribers: str) -> None:
        """Deliver to Subscribers (default: all) everything that is committed at the time of the call.

        Raises:
            DeliveryError: a change cannot be applied at a Subscriber.
        """
        __tracebackhide__ = True
        self.call(self.bed.sync, subscribers)

    def settle(self) -> None:
        """Wait until no branch is prepared, and deliver everything to every Subscriber.

        Raises:
            InDoubt: a branch stays prepared.
            DeliveryError: a change cannot be applied at a Subscriber.
        """
        __tracebackhide__ = True
        self.call(self.bed.settle)

    # -- what must hold ----------------------------------------------------------------------------

    def assert_converged(self, *tables: str) -> None:
        """Check that every Subscriber holds the Publisher's rows, versions included; of all tables unless some are
        named.

        Raises:
            AssertionError: names the keys that differ, and how.
        """
        __tracebackhide__ = True
        self.call(self.bed.assert_converged, tables)

    def assert_atomic(self) -> None:
        """Check that every global transaction of this test took effect at all its sites or at none.

        Raises:
            AssertionError: names the transaction, and the sites at which it took effect.
        """
        __tracebackhide__ = True
        self.call(self.bed.assert_atomic)

    def assert_nothing_in_doubt(self) -> None:
        """Check that no branch is prepared at any node.

        Raises:
            AssertionError: names each prepared branch.
        """
        __tracebackhide__ = True
        self.call(self.bed.assert_nothing_in_doubt)

    def left_prepared(self) -> list[str]:
        """Roll back what is still prepared once transactions being finished are; return descriptions of it."""
        return self.call(self.bed.roll_back_left)

    # -- orders ------------------------------------------------------------------------------------

    def run_orders(
        self,
        callables: Mapping[str, Sequence[Callable[..., Any]]],
        *,
        before: Sequence[str] = (),
        limit: int = 200,
        check: Callable[[OrderRun], None] | None = None,
    ) -> Orders:
        """Play functions in every order in which each sequence keeps its own; see `twopc.sim.testing.orders`.

        Each sequence has a thread of its own, so a function may block in the database: the next function is called
        as soon as it provably waits. Every order begins with the rows at the time of the call.

        Args:
            callables: the functions of each sequence, by the sequence's name: those of ``a`` are called a0, a1 ...
            before: ``a0 < b1``: only orders in which a0 comes first.
            limit: maximum number of orders, from the first on.
            check: called after each order; without it, a function that raises fails the test.

        Raises:
            AssertionError: raised by a function or by `check`; the message names the order.
        """
        __tracebackhide__ = True
        from twopc.sim.testing.orders import run_orders  # loads the ordering of scenarios

        return run_orders(self, callables, before=before, limit=limit, check=check)

    # -- faults ------------------------------------------------------------------------------------

    def crash_at(
        self, point: str, *, nth: int = 1, session: str = "", required: bool = True
    ) -> None:
        """Kill the coordinator's process when it reaches a protocol point.

        The process is restarted by the next transaction, or by `settle`, and recovers the transactions that it has
        left.

        Args:
            point: ``coordinator.decision_logged``, ``reply.commit(pub)`` …
            nth: at which of the arrivals from now on.
            session: only arrivals of this session's transactions count.
            required: the test fails if the point is not reached.

        Raises:
            ConfigurationError: there is no such point.
        """
        __tracebackhide__ = True
        self.fault(at=point, do="crash coordinator", nth=nth, session=session, required=required)

    def fault(self, *, at: str, do: str, **options: Any) -> None:
        """Inject a fault at a protocol point, in the terms of scenario files.

        Args:
            at: the point.
            do: ``crash coordinator``, ``pause coordinator``, ``terminate backend sub1``, ``cut coordinator-pub`` …
            options: ``nth``, ``session``, ``heal``; ``required=False``: the test does not fail if the fault never
                strikes.

        Raises:
            ConfigurationError: the fault is not valid, or not possible on a server that other tests use.
        """
        __tracebackhide__ = True
        self.call(self.bed.fault, {"at": at, "do": do, **options})

    def heal(self) -> None:
        """Heal all faults that have struck; `settle` does so, too."""
        self.call(self.bed.heal)
