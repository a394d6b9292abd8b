"""The same topology for tests with an event loop: every call is awaited, on whatever loop that is.

The topology lives on the loop of its bench, in another thread; calls are passed on and waited for.
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
    """Runs what sessions do on the event loop that serves them, from another."""

    @property
    def blocking(self) -> SessionCaller:
        """The same for a thread."""
        ...

    async def call(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Run a coroutine function, to its end."""
        ...


class AsyncStarted:
    """See `twopc.sim.testing.session.Started`."""

    def __init__(self, topology: AwaitedCaller, live: LiveStatement) -> None:
        self._topology = topology
        self._live = live

    async def blocked_by(self, other: Any) -> bool:
        """Whether it waits for `other`; returns as soon as it is over or provably waits."""
        return await self._topology.call(self._live.blocked_by, name_of(other))

    @property
    def holder(self) -> str:
        """For whom it waited when it was looked at last; empty if for nobody."""
        return self._live.holder

    @property
    def done(self) -> bool:
        """It has ended, one way or the other."""
        return self._live.done.done()

    async def result(self) -> Result:
        """What it returned, waited for."""
        result: Result = await self._topology.call(self._live.result)
        return result

    def __repr__(self) -> str:
        return repr(Started(self._topology.blocking, self._live))


class AsyncTestSession:
    """See `twopc.sim.testing.session.TestSession`."""

    __test__ = False  # not a test, whatever its name says

    def __init__(self, topology: AwaitedCaller, live: LiveSession) -> None:
        self._topology = topology
        self._live = live

    @property
    def name(self) -> str:
        """By which others' waits and the history call it."""
        return self._live.name

    @property
    def node(self) -> str:
        """Where it works."""
        return self._live.node

    @property
    def gid(self) -> str:
        """Its last global transaction; empty at the Publisher."""
        return self._live.gid

    async def execute(self, sql: Any, params: Any = None) -> Result:
        """Run a statement to its end."""
        return await self._topology.call(self._live.execute, sql, params)

    async def start(self, sql: Any, params: Any = None) -> AsyncStarted:
        """Begin a statement and return at once."""

        async def begin() -> LiveStatement:
            return self._live.start(sql, params)

        return AsyncStarted(self._topology, await self._topology.call(begin))

    async def begin(self) -> None:
        """Begin a transaction, where its moment matters."""
        await self._topology.call(self._live.begin)

    async def commit(self) -> None:
        """Commit at both sites or at neither."""
        await self._topology.call(self._live.commit)

    async def rollback(self) -> None:
        """Roll back at both sites; harmless if nothing is open."""
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
        """For whom it waited when it was looked at last; empty if for nobody."""

    @property
    def name(self) -> str:
        """Its `application_name`."""
        return self._client.name

    async def blocked_by(self, other: Any) -> bool:
        """Whether it waits for `other`; returns when it provably waits, or its work is over."""
        look = self._topology.blocking.bed.watched_blocked_by
        blocked, self.holder = await self._topology.call(
            look, self._client, name_of(other), over(self._work)
        )
        return blocked

    def __repr__(self) -> str:
        return repr(Watched(self._topology.blocking, self._client, self._work))


class AsyncTestNode:
    """See `twopc.sim.testing.blocking_bench.TestNode`."""

    __test__ = False  # not a test, whatever its name says

    def __init__(self, topology: AsyncTestTopology, name: str) -> None:
        self._topology = topology
        self.name = name

    async def rows(self, table: str) -> Rows:
        """A table's rows by key, without their versions."""
        return await self._topology.call(self._topology.blocking.bed.rows, self.name, table)

    async def query(self, sql: str, params: Any = None) -> Rows:
        """The rows of a query."""
        return await self._topology.call(self._topology.blocking.bed.look, self.name, sql, params)

    def __repr__(self) -> str:
        return f"<node {self.name}>"


class AsyncTestTopology:
    """See `twopc.sim.testing.blocking_bench.TestTopology`; `blocking` is that one, for what a thread plays."""

    __test__ = False  # not a test, whatever its name says

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
        """In the names of its databases, and in its gids."""
        return self.blocking.name

    @property
    def isolation(self) -> str | None:
        """Of sessions that do not say otherwise; None: read committed."""
        return self.blocking.isolation

    @property
    def seed(self) -> int:
        """Of all chance in this test."""
        return self.blocking.seed

    @property
    def orders(self) -> str:
        """``all``, ``sample:N`` or one order: which of them `run_orders` plays; empty: as it is asked."""
        return self.blocking.orders

    async def crash_at(
        self, point: str, *, nth: int = 1, session: str = "", required: bool = True
    ) -> None:
        """Have the coordinator's process killed at a protocol point."""
        await self.fault(
            at=point, do="crash coordinator", nth=nth, session=session, required=required
        )

    async def fault(self, *, at: str, do: str, **options: Any) -> None:
        """Have something go wrong at a protocol point."""
        await self.call(self.blocking.bed.fault, {"at": at, "do": do, **options})

    async def heal(self) -> None:
        """Mend what faults have broken; `settle` does so, too."""
        await self.call(self.blocking.bed.heal)

    def node(self, name: str) -> AsyncTestNode:
        """A node, to look at."""
        self.blocking.dsn(name)
        return AsyncTestNode(self, name)

    def dsn(self, node: str, *, application_name: str = "") -> str:
        """The application's connection string to a node."""
        return self.blocking.dsn(node, application_name=application_name)

    def url(self, node: str, driver: str = "psycopg", *, application_name: str = "") -> str:
        """The same as SQLAlchemy writes it."""
        return self.blocking.url(node, driver, application_name=application_name)

    def django(self, node: str, *, application_name: str = "") -> dict[str, Any]:
        """The same as an entry of Django's ``DATABASES``."""
        return self.blocking.django(node, application_name=application_name)

    async def session(
        self, node: str, *, name: str = "", isolation: str | None = None
    ) -> AsyncTestSession:
        """A new session of the application's role."""
        bed, level = self.blocking.bed, isolation or self.blocking.isolation
        return AsyncTestSession(self, await self.call(bed.session, node, name, level))

    async def watch(self, node: str, *, application_name: str, work: Work = None) -> AsyncWatched:
        """A session that the application itself opens, in this process or another."""
        client = await self.call(self.blocking.bed.watch, node, application_name)
        return AsyncWatched(self, client, work)

    async def create(self, *sql: str, publish: Sequence[str] = ()) -> None:
        """Run SQL at the Publisher, publish tables, and have every Subscriber get them."""
        await self.call(self.blocking.bed.create, sql, tuple(publish) or None)

    async def sync(self, *subscribers: str) -> None:
        """Deliver everything that is committed at this moment."""
        await self.call(self.blocking.bed.sync, subscribers)

    async def settle(self) -> None:
        """Bring everything to rest."""
        await self.call(self.blocking.bed.settle)

    async def assert_converged(self, *tables: str) -> None:
        """Every Subscriber holds the Publisher's rows."""
        await self.call(self.blocking.bed.assert_converged, tables)

    async def assert_atomic(self) -> None:
        """Every global transaction took effect at all its sites or at none."""
        await self.call(self.blocking.bed.assert_atomic)

    async def assert_nothing_in_doubt(self) -> None:
        """No branch is prepared at any node."""
        await self.call(self.blocking.bed.assert_nothing_in_doubt)

    async def left_prepared(self) -> list[str]:
        """What is prepared once everything that is being finished is, in words; it is rolled back."""
        return await self.call(self.blocking.bed.roll_back_left)

    def faults_not_reached(self) -> list[str]:
        """The faults that were named and have not struck, or had no effect; not those of which that is allowed."""
        return self.blocking.faults_not_reached()

    async def run_orders(
        self,
        callables: Mapping[str, Sequence[Callable[..., Any]]],
        *,
        before: Sequence[str] = (),
        limit: int = 200,
        check: Callable[[OrderRun], Any] | None = None,
    ) -> Orders:
        """Play functions in every order; what they or `check` return is awaited on the test's own event loop.

        A function that returns nothing to be awaited is called in a thread, and may block there. Those that take an
        argument get this topology.
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
        """`twopc.sim.testing.strategies`: orders and the like for Hypothesis."""
        return self.blocking.strategies

    @property
    def history(self) -> list[HistoryRecord]:
        """What happened so far."""
        return self.blocking.history

    def explain(self) -> str:
        """What happened so far, in sentences."""
        return self.blocking.explain()

    def __repr__(self) -> str:
        return repr(self.blocking)
