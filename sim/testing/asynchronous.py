"""A topology for tests with an event loop: every call is awaited, on any event loop.

The topology is served by its bench's event loop in another thread, to which calls are passed on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from twopc.sim.sessions.results import Result, Rows
from twopc.sim.testing.bench import BlockingCaller
from twopc.sim.testing.blocking_bench import NodeBase, TestTopology, TopologyBase
from twopc.sim.testing.loop_calls import LoopCalls
from twopc.sim.testing.session import (
    SessionBase,
    StartedBase,
    WatchedBase,
    Work,
    name_of,
    over,
    started,
)

if TYPE_CHECKING:
    from twopc.sim.testing.orders import OrderRun, Orders

T = TypeVar("T")


class AwaitedCaller:
    """Runs coroutine functions on the event loop that serves a topology, and is awaited on another event loop."""

    def __init__(self, blocking: BlockingCaller) -> None:
        self.blocking = blocking
        """The same topology for code without an event loop."""

    async def call(
        self, function: Callable[..., Awaitable[T]], *arguments: Any, **options: Any
    ) -> T:
        """Run a coroutine function on the event loop that serves the topology."""
        return await asyncio.wrap_future(self.blocking.submit(function, *arguments, **options))


class AsyncStarted(StartedBase):
    """See `twopc.sim.testing.session.Started`."""

    _topology: AwaitedCaller

    async def blocked_by(self, other: Any) -> bool:
        """Return whether the statement waits for `other`, as soon as the statement has ended or provably waits."""
        return await self._topology.call(self._live.blocked_by, name_of(other))

    async def result(self) -> Result:
        """Wait for the statement's end and return its result."""
        result: Result = await self._topology.call(self._live.result)
        return result


class AsyncTestSession(SessionBase):
    """See `twopc.sim.testing.session.TestSession`."""

    _topology: AwaitedCaller

    async def execute(self, sql: Any, params: Any = None) -> Result:
        """Run a statement and return its result."""
        return await self._topology.call(self._live.execute, sql, params)

    async def start(self, sql: Any, params: Any = None) -> AsyncStarted:
        """Start a statement and return at once."""
        live = await self._topology.call(started, self._live, sql, params)
        return AsyncStarted(self._topology, live)

    async def begin(self) -> None:
        """Begin a transaction explicitly, for tests in which its beginning matters."""
        await self._topology.call(self._live.begin)

    async def commit(self) -> None:
        """Commit at both sites or at neither."""
        await self._topology.call(self._live.commit)

    async def rollback(self) -> None:
        """Roll back at both sites; no effect without an open transaction."""
        await self._topology.call(self._live.rollback)


class AsyncWatched(WatchedBase):
    """See `twopc.sim.testing.session.Watched`."""

    _topology: AsyncTestTopology

    async def blocked_by(self, other: Any) -> bool:
        """Return whether the application waits for `other`, once it provably waits or its work has ended."""
        look = self._topology.bed.watched_blocked_by
        blocked, self.holder = await self._topology.call(
            look, self._client, name_of(other), over(self._work)
        )
        return blocked


class AsyncTestNode(NodeBase):
    """See `twopc.sim.testing.blocking_bench.TestNode`."""

    _topology: AsyncTestTopology

    async def rows(self, table: str) -> Rows:
        """Return a table's rows by key, without their row versions."""
        return await self._topology.call(self._topology.bed.rows, self.name, table)

    async def query(self, sql: str, params: Any = None) -> Rows:
        """Return the rows of a query."""
        return await self._topology.call(self._topology.bed.look, self.name, sql, params)


class AsyncTestTopology(TopologyBase, AwaitedCaller):
    """See `twopc.sim.testing.blocking_bench.TestTopology`; `blocking` is that object, for code in threads."""

    blocking: TestTopology

    def __init__(self, blocking: TestTopology) -> None:
        super().__init__(blocking)
        self.bed = blocking.bed

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
        await self.call(self.bed.fault, {"at": at, "do": do, **options})

    async def heal(self) -> None:
        """Heal all faults that have struck; `settle` does so, too."""
        await self.call(self.bed.heal)

    def node(self, name: str) -> AsyncTestNode:
        """Return a node for inspection."""
        self.dsn(name)
        return AsyncTestNode(self, name)

    async def session(
        self, node: str, *, name: str = "", isolation: str | None = None
    ) -> AsyncTestSession:
        """Open a new session of the application's role."""
        level = isolation or self.isolation
        return AsyncTestSession(self, await self.call(self.bed.session, node, name, level))

    async def watch(self, node: str, *, application_name: str, work: Work = None) -> AsyncWatched:
        """Observe a session that the application itself opens, in this process or another."""
        client = await self.call(self.bed.watch, node, application_name)
        return AsyncWatched(self, client, work)

    async def create(self, *sql: str, publish: Sequence[str] = ()) -> None:
        """Run SQL at the Publisher, publish tables, and deliver them to every Subscriber."""
        await self.call(self.bed.create, sql, tuple(publish) or None)

    async def sync(self, *subscribers: str) -> None:
        """Deliver everything that is committed at the time of the call."""
        await self.call(self.bed.sync, subscribers)

    async def settle(self) -> None:
        """Wait until no branch is prepared, and deliver everything."""
        await self.call(self.bed.settle)

    async def assert_converged(self, *tables: str) -> None:
        """Check that every Subscriber holds the Publisher's rows."""
        await self.call(self.bed.assert_converged, tables)

    async def assert_atomic(self) -> None:
        """Check that every global transaction took effect at all its sites or at none."""
        await self.call(self.bed.assert_atomic)

    async def assert_nothing_in_doubt(self) -> None:
        """Check that no branch is prepared at any node."""
        await self.call(self.bed.assert_nothing_in_doubt)

    async def left_prepared(self) -> list[str]:
        """Roll back what is still prepared once transactions being finished are; return descriptions of it."""
        return await self.call(self.bed.roll_back_left)

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
