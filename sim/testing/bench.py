"""The event loop, the server and the topologies that the tests of one process share.

Independent of pytest. Its methods are called from any thread except the event loop's own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import psycopg
from anyio.from_thread import BlockingPortal, start_blocking_portal
from psycopg import sql

from twopc.errors import ConfigurationError, TwopcError
from twopc.sim.testing import bench_tables, servers
from twopc.sim.testing.bed import Bed
from twopc.sim.testing.bench_tables import Load
from twopc.sim.topology import Topology, owner
from twopc.sim.topology.pool import How, TopologyPool

T = TypeVar("T")
Reset = Literal["clone", "truncate", "none"]

#: Number of topologies that are created in advance if each test gets a new one.
AHEAD = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyRequest:
    """The properties of a topology that a test requests."""

    subscribers: int | tuple[str, ...] = 2
    """Number of Subscribers, or their names."""
    load: tuple[Load, ...] = ()
    publish: tuple[str, ...] | None = None
    """Published tables; None: every table that has a primary key."""
    shipping: str = "eager"
    commit: str = "presumed_abort"
    lock_timeout_ms: int = 5_000
    any_client: bool | tuple[str, ...] = False
    """Whether any client may write at every Subscriber; or the Subscribers at which any client may."""
    used_once: bool = False
    """Whether the databases are not reused."""
    group: str = ""
    """Group within which the databases may be reused."""

    @property
    def names(self) -> tuple[str, ...]:
        """The Subscribers' names."""
        if isinstance(self.subscribers, int):
            return tuple(f"sub{n}" for n in range(1, self.subscribers + 1))
        return tuple(self.subscribers)

    @property
    def open_to_all(self) -> tuple[str, ...]:
        """Subscribers at which any client may write."""
        if isinstance(self.any_client, bool):
            return self.names if self.any_client else ()
        return self.any_client


class Bench:
    """Creates and keeps what tests share; starts nothing before it is needed.

    Args:
        given: returns the value of the `twopc_server` fixture.
        worker: which process of the test run this is.
        timeout_s: how long a statement may take.
    """

    def __init__(self, given: Callable[[], Any], *, worker: str, timeout_s: float = 30.0) -> None:
        self._given = given
        self._prefix = owner.prefix(worker)
        self.timeout_s = timeout_s
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._server: servers.AnyServer | None = None
        self._pools: dict[TopologyRequest, TopologyPool] = {}
        self._tests: dict[str, str] = {}
        """Test that has used a topology last, by the topology's name."""
        self.left_open: list[tuple[str, str]] = []
        """Tests that have left a transaction open, each with its description; their databases were replaced."""
        self._refused: dict[TopologyRequest, ConfigurationError] = {}
        self._made = 0

    @property
    def portal(self) -> BlockingPortal:
        """Portal into the event loop, which runs in a thread of its own from the first use on."""
        if self._portal is None:
            self._portal = self._stack.enter_context(start_blocking_portal("asyncio"))
        return self._portal

    def call(self, function: Callable[..., Awaitable[T]], *arguments: Any) -> T:
        """Run a coroutine function on the event loop and return its result."""
        return self.portal.call(function, *arguments)

    @property
    def server(self) -> servers.AnyServer:
        """The server; an external server is checked and swept at the first use.

        Raises:
            ServerError: the server cannot be reached, or is not set up for tests.
        """
        if self._server is None:
            server = servers.server_of(self._given())
            servers.check(server, topologies=AHEAD + 2, nodes=3)
            servers.sweep(server)
            self._server = server
        return self._server

    def fresh_name(self) -> str:
        """Return a name for a topology, by which its databases are found if this process is killed."""
        self._made += 1
        return f"{self._prefix}x{self._made}_1"

    def open(self, requested: TopologyRequest, test: str) -> Bed:
        """Return a topology for a test.

        Raises:
            ConfigurationError: it cannot be created.
        """
        if requested in self._refused:
            raise self._refused[requested]
        pool = self._pools.get(requested)
        if pool is None:
            self._made += 1
            pool = self._pools[requested] = self._pool(requested)
        try:
            return self.call(self._opened, pool, requested, test)
        except ConfigurationError as error:
            # every test with this request would fail alike, and slowly; a new error without traceback
            # holds no frames
            self._refused[requested] = ConfigurationError(str(error))
            raise

    async def _opened(self, pool: TopologyPool, requested: TopologyRequest, test: str) -> Bed:
        topology = await pool.take()
        return Bed(topology, test, timeout_s=self.timeout_s, open_to_all=requested.open_to_all)

    def _pool(self, requested: TopologyRequest) -> TopologyPool:
        if not requested.names:
            raise ConfigurationError("subscribers=0: a topology has at least one Subscriber")
        for name in requested.open_to_all:
            if name not in requested.names:
                raise ConfigurationError(
                    f"any_client names {name!r}; Subscribers are {', '.join(requested.names)}"
                )

        async def prepare(topology: Topology) -> None:
            await bench_tables.load(topology, requested.load, publish=requested.publish)
            await bench_tables.open_to_all(topology, requested.open_to_all)

        return TopologyPool(
            self.server,
            prefix=f"{self._prefix}x{self._made}",
            size=AHEAD,
            prepare=prepare if requested.load else None,
            rewinds=not requested.used_once,
            subscribers=requested.names,
            shipping=requested.shipping,
            commit=requested.commit,
            lock_timeout_ms=requested.lock_timeout_ms,
        )

    def close_bed(
        self, bed: Bed, requested: TopologyRequest, reset: Reset, *, keep: bool = False
    ) -> list[str]:
        """Take a test's topology back; return descriptions of what it has left prepared.

        Args:
            keep: keep its databases for inspection; they are not reused.
        """
        return self.call(self._closed, bed, self._pools[requested], reset, keep)

    async def _closed(self, bed: Bed, pool: TopologyPool, reset: Reset, keep: bool) -> list[str]:
        left = await bed.close()
        how: How = "drop" if bed.is_spoiled or reset == "clone" else "rewind"
        if keep:
            how = "keep"
            for node in bed.topology.nodes.values():
                text = sql.SQL("comment on database {} is {}").format(
                    sql.Identifier(node.database), sql.Literal(f"{servers.KEPT}: {bed.test}")
                )
                await bed.topology.execute(node.name, text.as_string(None))
        self._tests[bed.topology.name] = bed.test
        await pool.give_back(bed.topology, how=how)
        return left

    def close_pool(self, requested: TopologyRequest) -> None:
        """Drop the topologies kept for a request; the next is created anew."""
        pool = self._pools.pop(requested, None)
        if pool is not None:
            self._close(pool)

    def _close(self, pool: TopologyPool) -> None:
        self.call(pool.close)
        self.left_open += [(self._tests.get(name, ""), reason) for name, reason in pool.left_open]

    def close(self) -> None:
        """Drop every topology and stop the event loop; the server is stopped by its starter."""
        if self._portal is not None:
            for pool in self._pools.values():
                self._close(pool)
        self._pools.clear()
        self._portal = None
        self._stack.close()


class BlockingCaller:
    """Runs coroutine functions on the event loop of a bench, which serves a topology."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench

    def call(self, function: Callable[..., Awaitable[T]], *arguments: Any, **options: Any) -> T:
        """Run a coroutine function on the event loop that serves the topology."""
        __tracebackhide__ = True
        try:
            return self._bench.call(partial(function, *arguments, **options))
        except TwopcError as error:
            # the error contains the server's whole message; a traceback through two threads does not
            # help
            raise error.with_traceback(None) from None
        except (AssertionError, psycopg.Error) as error:
            raise error.with_traceback(None) from error.__cause__

    def submit(
        self, function: Callable[..., Awaitable[T]], *arguments: Any, **options: Any
    ) -> Future[T]:
        """Start a coroutine function on the event loop that serves the topology; return its future."""
        return self._bench.portal.start_task_soon(partial(function, *arguments, **options))
