"""A topology for tests with an event loop: every call is awaited, on any event loop.

The topology is served by its bench's event loop in another thread, to which calls are passed on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from twopc.errors import ConflictError, InDoubtError, RejectedError
from twopc.sim.report.history import HistoryRecord
from twopc.sim.sessions.results import Result, Rows
from twopc.sim.sessions.waits import ObservedClient
from twopc.sim.testing.blocking_bench import TestTopology
from twopc.sim.testing.live import LiveSession, LiveStatement
from twopc.sim.testing.loop_calls import LoopCalls
from twopc.sim.testing.session import (
    SessionCaller,
    Started,
    TestSession,
    Watched,
    Work,
    name_of,
    over,
)

if TYPE_CHECKING:
    from twopc.sim.testing.orders import OrderRun, Orders

T = TypeVar("T")


class AwaitedCaller(Protocol):
    """Runs coroutine functions of sessions on the event loop that serves them, and is awaited on another event
    loop.
    """

    @property
    def blocking(self) -> SessionCaller:
        """The equivalent caller for threads."""
        ...

    async def call(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Run a coroutine function and return its result."""
        ...


class AsyncStarted:
    """See `twopc.sim.testing.session.Started`."""

    def __init__(self, topology: AwaitedCaller, live: LiveStatement) -> None:
        self._topology = topology
        self._live = live

    async def blocked_by(self, other: Any) -> bool:
        """Return whether the statement waits for `other`, as soon as the statement has ended or provably waits."""
        return await self._topology.call(self._live.blocked_by, name_of(other))

    @property
    def holder(self) -> str:
        """Session for which the statement waited when last observed; empty if none."""
        return self._live.holder

    @property
    def done(self) -> bool:
        """Whether the statement has ended, with or without an error."""
        return self._live.done.done()

    async def result(self) -> Result:
        """Wait for the statement's end and return its result."""
        result: Result = await self._topology.call(self._live.result)
        return result

    def __repr__(self) -> str:
        return repr(Started(self._topology.blocking, self._live))


class AsyncTestSession:
    """See `twopc.sim.testing.session.TestSession`."""

    __test__ = False  # not a test, despite its name

    def __init__(self, topology: AwaitedCaller, live: LiveSession) -> None:
        self._topology = topology
        self._live = live

    @property
    def name(self) -> str:
        """Name of the session in waits and in the history."""
        return self._live.name

    @property
    def node(self) -> str:
        """Node of the session."""
        return self._live.node

    @property
    def gid(self) -> str:
        """Last global transaction of the session; empty at the Publisher."""
        return self._live.gid

    async def execute(self, sql: Any, params: Any = None) -> Result:
        """Run a statement and return its result."""
        return await self._topology.call(self._live.execute, sql, params)

    async def start(self, sql: Any, params: Any = None) -> AsyncStarted:
        """Start a statement and return at once."""

        async def begin() -> LiveStatement:
            return self._live.start(sql, params)

        return AsyncStarted(self._topology, await self._topology.call(begin))

    async def begin(self) -> None:
        """Begin a transaction explicitly, for tests in which its beginning matters."""
        await self._topology.call(self._live.begin)

    async def commit(self) -> None:
        """Commit at both sites or at neither."""
        await self._topology.call(self._live.commit)

    async def rollback(self) -> None:
        """Roll back at both sites; no effect without an open transaction."""
        await self._topology.call(self._live.rollback)

    def __repr__(self) -> str:
        return repr(TestSession(self._topology.blocking, self._live))


class AsyncWatched:
    """See `twopc.sim.testing.session.Watched`."""

    def __init__(self, topology: AsyncTestTopology, client: ObservedClient, work: Work) -> None:
        self._topology = topology
        self._client = client
        self._work = work
        self.holder = ""
        """Session for which the application waited when last observed; empty if none."""

    @property
    def name(self) -> str:
        """The application's `application_name`."""
        return self._client.name

    async def blocked_by(self, other: Any) -> bool:
        """Return whether the application waits for `other`, once it provably waits or its work has ended."""
        look = self._topology.blocking.bed.watched_blocked_by
        blocked, self.holder = await self._topology.call(
            look, self._client, name_of(other), over(self._work)
        )
        return blocked

    def __repr__(self) -> str:
        return repr(Watched(self._topology.blocking, self._client, self._work))


class AsyncTestNode:
    """See `twopc.sim.testing.blocking_bench.TestNode`."""

    __test__ = False  # not a test, despite its name

    def __init__(self, topology: AsyncTestTopology, name: str) -> None:
        self._topology = topology
        self.name = name

    async def rows(self, table: str) -> Rows:
        """Return a table's rows by key, without their row versions."""
        return await self._topology.call(self._topology.blocking.bed.rows, self.name, table)

    async def query(self, sql: str, params: Any = None) -> Rows:
        """Return the rows of a query."""
        return await self._topology.call(self._topology.blocking.bed.look, self.name, sql, params)

    def __repr__(self) -> str:
        return f"<node {self.name}>"


class AsyncTestTopology:
    """See `twopc.sim.testing.blocking_bench.TestTopology`; `blocking` is that object, for code in threads."""

    __test__ = False  # not a test, despite its name

    Conflict: ClassVar[type[ConflictError]] = ConflictError
    Rejected: ClassVar[type[RejectedError]] = RejectedError
    InDoubt: ClassVar[type[InDoubtError]] = InDoubtError

    def __init__(self, blocking: TestTopology) -> None:
        self.blocking = blocking
        """The same topology for code without an event loop."""

    async def call(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Run a coroutine function on the event loop that serves the topology."""
        return await asyncio.wrap_future(self.blocking.submit(function, *arguments))

    @property
    def publisher(self) -> str:
        """The Publisher's name."""
        return self.blocking.publisher

    @property
    def subscribers(self) -> tuple[str, ...]:
        """The Subscribers' names."""
        return self.blocking.subscribers

    @property
    def name(self) -> str:
        """Name of the topology, in the names of its databases and in its gids."""
        return self.blocking.name

    @property
    def isolation(self) -> str | None:
        """Isolation level of sessions that do not set another; None: read committed."""
        return self.blocking.isolation

    @property
    def seed(self) -> int:
        """Seed of all random choices in this test."""
        return self.blocking.seed

    @property
    def orders(self) -> str:
        """Orders that `run_orders` plays: ``all``, ``sample:N`` or one order; empty: as the call specifies."""
        return self.blocking.orders

    async def crash_at(
        self, point: str, *, nth: int = 1, session: str = "", required: bool = True
    ) -> None:
        """Kill the coordinator's process when it reaches a protocol point."""
        await self.fault(
            at=point, do="crash coordinator", nth=nth, session=session, required=required
        )

    async def fault(self, *, at: str, do: str, **options: Any) -> None:
        """Inject a fault at a protocol point."""
        await self.call(self.blocking.bed.fault, {"at": at, "do": do, **options})

    async def heal(self) -> None:
        """Heal all faults that have struck; `settle` does so, too."""
        await self.call(self.blocking.bed.heal)

    def node(self, name: str) -> AsyncTestNode:
        """Return a node for inspection."""
        self.blocking.dsn(name)
        return AsyncTestNode(self, name)

    def dsn(self, node: str, *, application_name: str = "") -> str:
        """Return the application's connection string to a node."""
        return self.blocking.dsn(node, application_name=application_name)

    def url(self, node: str, driver: str = "psycopg", *, application_name: str = "") -> str:
        """Return the application's SQLAlchemy URL of a node."""
        return self.blocking.url(node, driver, application_name=application_name)

    def django(self, node: str, *, application_name: str = "") -> dict[str, Any]:
        """Return the application's entry of Django's ``DATABASES`` for a node."""
        return self.blocking.django(node, application_name=application_name)

    async def session(
        self, node: str, *, name: str = "", isolation: str | None = None
    ) -> AsyncTestSession:
        """Open a new session of the application's role."""
        bed, level = self.blocking.bed, isolation or self.blocking.isolation
        return AsyncTestSession(self, await self.call(bed.session, node, name, level))

    async def watch(self, node: str, *, application_name: str, work: Work = None) -> AsyncWatched:
        """Observe a session that the application itself opens, in this process or another."""
        client = await self.call(self.blocking.bed.watch, node, application_name)
        return AsyncWatched(self, client, work)

    async def create(self, *sql: str, publish: Sequence[str] = ()) -> None:
        """Run SQL at the Publisher, publish tables, and deliver them to every Subscriber."""
        await self.call(self.blocking.bed.create, sql, tuple(publish) or None)

    async def sync(self, *subscribers: str) -> None:
        """Deliver everything that is committed at the time of the call."""
        await self.call(self.blocking.bed.sync, subscribers)

    async def settle(self) -> None:
        """Wait until no branch is prepared, and deliver everything."""
        await self.call(self.blocking.bed.settle)

    async def assert_converged(self, *tables: str) -> None:
        """Check that every Subscriber holds the Publisher's rows."""
        await self.call(self.blocking.bed.assert_converged, tables)

    async def assert_atomic(self) -> None:
        """Check that every global transaction took effect at all its sites or at none."""
        await self.call(self.blocking.bed.assert_atomic)

    async def assert_nothing_in_doubt(self) -> None:
        """Check that no branch is prepared at any node."""
        await self.call(self.blocking.bed.assert_nothing_in_doubt)

    async def left_prepared(self) -> list[str]:
        """Roll back what is still prepared once transactions being finished are; return descriptions of it."""
        return await self.call(self.blocking.bed.roll_back_left)

    def faults_not_reached(self) -> list[str]:
        """Return the required faults that have not struck, or had no effect."""
        return self.blocking.faults_not_reached()

    async def run_orders(
        self,
        callables: Mapping[str, Sequence[Callable[..., Any]]],
        *,
        before: Sequence[str] = (),
        limit: int = 200,
        check: Callable[[OrderRun], Any] | None = None,
    ) -> Orders:
        """Play functions in every order; awaitables that they or `check` return are awaited on the test's own event
        loop.

        A function that returns no awaitable is called in a thread, and may block there. Functions with a parameter
        are passed this topology.
        """
        __tracebackhide__ = True
        loop_calls = LoopCalls(self)
        return await loop_calls.run(
            self.blocking.run_orders,
            {name: [loop_calls.of(each) for each in every] for name, every in callables.items()},
            before=before,
            limit=limit,
            check=None if check is None else loop_calls.check(check),
        )

    @property
    def strategies(self) -> ModuleType:
        """The module `twopc.sim.testing.strategies`, with orders and isolation levels for Hypothesis."""
        return self.blocking.strategies

    @property
    def history(self) -> list[HistoryRecord]:
        """Records of the test so far."""
        return self.blocking.history

    def explain(self) -> str:
        """Return the test's history so far as sentences."""
        return self.blocking.explain()

    def __repr__(self) -> str:
        return repr(self.blocking)
