"""What a test holds: a Publisher and its Subscribers on real PostgreSQL, without an event loop in sight."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import psycopg

from twopc.errors import ConflictError, InDoubtError, RejectedError, TwopcError
from twopc.sim.report.fold import Fold
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.story import story
from twopc.sim.sessions.results import Rows
from twopc.sim.testing.bed import Bed
from twopc.sim.testing.bench import Bench
from twopc.sim.testing.session import TestSession, Watched, Work

if TYPE_CHECKING:
    from twopc.sim.testing.orders import OrderRun, Orders

T = TypeVar("T")


class TestNode:
    """One node, looked at as its administrator."""

    __test__ = False  # not a test, whatever its name says

    def __init__(self, topology: TestTopology, name: str) -> None:
        self._topology = topology
        self.name = name

    def rows(self, table: str) -> Rows:
        """A table's rows by key, without their versions.

        Args:
            table: ``table`` or ``schema.table``.
        """
        __tracebackhide__ = True
        return self._topology.call(self._topology.bed.rows, self.name, table)

    def query(self, sql: str, params: Any = None) -> Rows:
        """The rows of a query; nothing keeps it from changing something, except that nobody is told."""
        __tracebackhide__ = True
        return self._topology.call(self._topology.bed.look, self.name, sql, params)

    def __repr__(self) -> str:
        return f"<node {self.name}>"


class TestTopology:
    """A Publisher and its Subscribers, for one test."""

    __test__ = False  # not a test, whatever its name says

    Conflict: ClassVar[type[ConflictError]] = ConflictError
    """The Publisher's row is not what the Subscriber has: rolled back at both sites."""
    Rejected: ClassVar[type[RejectedError]] = RejectedError
    """Refused for whatever reason: rolled back at both sites."""
    InDoubt: ClassVar[type[InDoubtError]] = InDoubtError
    """Not known yet whether it happened; it will be the same at both sites."""

    def __init__(
        self, bench: Bench, bed: Bed, *, isolation: str | None = None, seed: int = 0
    ) -> None:
        self._bench = bench
        self.bed = bed
        self.isolation = isolation
        """Of sessions that do not say otherwise; None: read committed."""
        self.seed = seed
        """Of all chance in this test."""
        self.orders = ""
        """``all``, ``sample:N`` or one order: which of them `run_orders` plays; empty: as it is asked."""

    def call(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Run a coroutine function on the event loop that serves the topology."""
        __tracebackhide__ = True
        try:
            return self._bench.call(function, *arguments)
        except TwopcError as error:
            # it has all that the server said; how it came through two threads is no help
            raise error.with_traceback(None) from None
        except (AssertionError, psycopg.Error) as error:
            raise error.with_traceback(None) from error.__cause__

    def submit(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> Future[T]:
        """The same, without waiting for its end."""
        return self._bench.portal.start_task_soon(function, *arguments)

    # -- nodes -------------------------------------------------------------------------------------

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
        """In the names of its databases, and in its gids."""
        return self.bed.topology.name

    def node(self, name: str) -> TestNode:
        """A node, to look at."""
        __tracebackhide__ = True
        self.dsn(name)
        return TestNode(self, name)

    def dsn(self, node: str, *, application_name: str = "") -> str:
        """The application's connection string to a node; for another process, too.

        Args:
            application_name: by which `watch` and `Started.blocked_by` know it.
        """
        __tracebackhide__ = True
        return self.bed.dsn(node, application_name)

    def url(self, node: str, driver: str = "psycopg", *, application_name: str = "") -> str:
        """The same as SQLAlchemy writes it: ``postgresql+psycopg://…``, over TCP, for any driver.

        Args:
            driver: empty for a plain ``postgresql://…``, as asyncpg and libpq take it.

        Raises:
            ConfigurationError: an `application_name` that SQLAlchemy's asyncpg takes elsewhere.
        """
        __tracebackhide__ = True
        return self.bed.address(node, application_name).url(driver)

    def django(self, node: str, *, application_name: str = "") -> dict[str, Any]:
        """The same as an entry of Django's ``DATABASES``."""
        __tracebackhide__ = True
        return self.bed.address(node, application_name).django()

    def session(self, node: str, *, name: str = "", isolation: str | None = None) -> TestSession:
        """A new session of the application's role.

        Args:
            name: by which waits and the history call it; empty: its node's.
            isolation: ``read committed`` (unless the test's mark says otherwise), ``repeatable read`` or
                ``serializable``.
        """
        __tracebackhide__ = True
        live = self.call(self.bed.session, node, name, isolation or self.isolation)
        return TestSession(self, live)

    def watch(self, node: str, *, application_name: str, work: Work = None) -> Watched:
        """A session that the application itself opens, in this process or another.

        Args:
            application_name: that of its connection; or it says ``SET application_name = '…'``.
            work: what it does it in, if that is known (a thread, a future, a task): once it is over, nothing can be
                blocked any more.
        """
        return Watched(self, self.call(self.bed.watch, node, application_name), work)

    # -- tables ------------------------------------------------------------------------------------

    def create(self, *sql: str, publish: Sequence[str] = ()) -> None:
        """Run SQL at the Publisher, publish tables, and have every Subscriber get them.

        Args:
            publish: which; none named: every table that has a primary key and is not published yet.
        """
        __tracebackhide__ = True
        self.call(self.bed.create, sql, tuple(publish) or None)

    # -- delivering --------------------------------------------------------------------------------

    def sync(self, *subscribers: str) -> None:
        """Deliver everything that is committed at this moment to Subscribers (all).

        Raises:
            DeliveryError: a change cannot be applied at one of them.
        """
        __tracebackhide__ = True
        self.call(self.bed.sync, subscribers)

    def settle(self) -> None:
        """Bring everything to rest: nothing is prepared, everybody has got everything.

        Raises:
            InDoubt: a branch stays prepared.
            DeliveryError: a change cannot be applied at a Subscriber.
        """
        __tracebackhide__ = True
        self.call(self.bed.settle)

    # -- what must hold ----------------------------------------------------------------------------

    def assert_converged(self, *tables: str) -> None:
        """Every Subscriber holds the Publisher's rows, versions included; of all tables unless some are named.

        Raises:
            AssertionError: names the keys that differ, and how.
        """
        __tracebackhide__ = True
        self.call(self.bed.assert_converged, tables)

    def assert_atomic(self) -> None:
        """Every global transaction of this test took effect at all its sites or at none.

        Raises:
            AssertionError: names the transaction, and where it took effect.
        """
        __tracebackhide__ = True
        self.call(self.bed.assert_atomic)

    def assert_nothing_in_doubt(self) -> None:
        """No branch is prepared at any node.

        Raises:
            AssertionError: names each.
        """
        __tracebackhide__ = True
        self.call(self.bed.assert_nothing_in_doubt)

    def left_prepared(self) -> list[str]:
        """What is prepared once everything that is being finished is, in words; it is rolled back."""
        return self.call(self.bed.roll_back_left)

    def faults_not_reached(self) -> list[str]:
        """The faults that were named and have not struck, or had no effect; not those of which that is allowed."""
        faults = self.bed.surroundings.faults
        return faults.not_reached() if faults is not None else []

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

        Each sequence has a thread of its own, so a function may block in the database: the next one is called
        as soon as it provably waits. Every order begins with the rows of now.

        Args:
            callables: by a sequence's name, its functions: those of ``a`` are called a0, a1 ...
            before: ``a0 < b1``: only orders in which a0 comes first.
            limit: so many orders at most, from the first on.
            check: called after each order; without it, a function that raises fails the test.

        Raises:
            AssertionError: of a function, or of `check`; the message names the order.
        """
        __tracebackhide__ = True
        from twopc.sim.testing.orders import run_orders  # it needs the ordering of scenarios

        return run_orders(self, callables, before=before, limit=limit, check=check)

    @property
    def strategies(self) -> ModuleType:
        """`twopc.sim.testing.strategies`: orders and the like for Hypothesis."""
        from twopc.sim.testing import strategies  # Hypothesis is optional

        return strategies

    # -- telling -----------------------------------------------------------------------------------

    @property
    def history(self) -> list[HistoryRecord]:
        """What happened so far, for every report that there is."""
        return self.bed.records

    def explain(self) -> str:
        """What happened so far, in sentences."""
        return "\n".join(story(Fold(self.bed.records)))

    # -- faults ------------------------------------------------------------------------------------

    def crash_at(
        self, point: str, *, nth: int = 1, session: str = "", required: bool = True
    ) -> None:
        """Have the coordinator's process killed when it comes to a protocol point.

        It is started again with the next transaction, or by `settle`; then it recovers what it has left.

        Args:
            point: ``coordinator.decision_logged``, ``reply.commit(pub)`` …
            nth: at which of the arrivals from now on.
            session: only arrivals of this session's transactions count.
            required: the test fails unless the coordinator gets there.

        Raises:
            ConfigurationError: there is no such point.
        """
        __tracebackhide__ = True
        self.fault(at=point, do="crash coordinator", nth=nth, session=session, required=required)

    def fault(self, *, at: str, do: str, **options: Any) -> None:
        """Have something go wrong at a protocol point; words are those of scenario files.

        Args:
            at: the point.
            do: ``crash coordinator``, ``pause coordinator``, ``terminate backend sub1``, ``cut coordinator-pub`` …
            options: ``nth``, ``session``, ``heal``; ``required=False``: the test does not fail if it never strikes.

        Raises:
            ConfigurationError: it is not written so, or cannot happen to a server that other tests use.
        """
        __tracebackhide__ = True
        self.call(self.bed.fault, {"at": at, "do": do, **options})

    def heal(self) -> None:
        """Mend what faults have broken; `settle` does so, too."""
        self.call(self.bed.heal)

    def __repr__(self) -> str:
        return f"<{self.publisher} and {', '.join(self.subscribers)}: {self.name}>"
