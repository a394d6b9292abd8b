"""Theatre on real servers: a `twopc.sim.topology.Topology` for each order.

When steps are started is decided by the runner.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    suppress,
)
from functools import partial
from typing import TYPE_CHECKING, Self

import psycopg

from twopc.errors import ConfigurationError, ServerError
from twopc.merge.protections import MergeProtection
from twopc.server import EmbeddedServer, ExternalServer, choose
from twopc.server.choice import EMBEDDED, kind_of
from twopc.server.early_start import ServerAhead, start_in_thread
from twopc.sim.faults.capabilities import IN_PROCESS, ON_POSTGRES, WHY_NOT, WHY_ON
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.postgres_setup import clear, refuse_existing, set_up, take_down
from twopc.sim.scenario.postgres_stage import PostgresStage
from twopc.sim.scenario.postgres_topologies import PreparedTopologies, PreparedTopology, Printed
from twopc.sim.scenario.stage import MARKERS_KEPT_S, SetUpError
from twopc.sim.scenario.values import Capabilities, Case
from twopc.sim.sessions.waits import Observer
from twopc.sim.topology import Topology
from twopc.sim.topology.leftovers import sweep
from twopc.sim.topology.nodes import AnyServer, fresh_name
from twopc.sim.topology.owner import prefix
from twopc.sim.topology.protections import SUPPORTED, switch_off

if TYPE_CHECKING:
    from twopc.sim.scenario.merge_stage import MergeStage

_count = itertools.count(1)


class PostgresTheatre:
    """Creates stages on embedded servers, or on those of the given DSNs; an async context manager.

    Args:
        servers: ``one`` embedded server for all nodes and orders, or one for ``each`` node.
        dsns: an administrator's connection string per node, for servers that are already running.
        server: a server that is already running, and is not stopped at the end.
        pg: the server to use or to start otherwise, as in `twopc.server.choose`.
        keep: whether to keep each order's databases for inspection until the theatre is closed.
        ahead: the early start of the server for all cases; `pg` then states which one it starts.
        rewinds: whether to restore the initial state for the next case of a scenario where possible, instead of
            creating new databases.

    Raises:
        ConfigurationError: each node is to have its own server, but `pg` is not the embedded one.
    """

    def __init__(
        self,
        *,
        servers: str = "one",
        dsns: Mapping[str, str] | None = None,
        server: AnyServer | None = None,
        pg: str = "",
        keep: bool = False,
        ahead: ServerAhead | None = None,
        rewinds: bool = True,
    ) -> None:
        if servers == "each" and pg not in ("", EMBEDDED):
            raise ConfigurationError(
                "a server for each node is started of the embedded programs only: leave out --pg or "
                "--servers each"
            )
        self._pg = pg
        self._ahead = ahead
        self._starting = asyncio.Lock()
        """Held while the server is started, as several cases may need it at once."""
        self._given = server
        self._servers = servers
        self._dsns = dict(dsns or {})
        self._keep = keep
        self._server = server
        self._turn = asyncio.Lock()
        """Held by the case that uses existing databases."""
        self._preparing = PreparedTopologies(self._make, rewinds=rewinds and not keep)
        self._kept: list[tuple[str, str, str]] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        try:
            goes_away = isinstance(self._server, EmbeddedServer) and self._given is None
            await self._preparing.close(leave=goes_away and not self._dsns)
        except psycopg.OperationalError as error:
            raise ServerError(f"a node's server cannot be used: {error}") from error
        finally:
            if self._server is not None and self._given is None:
                await asyncio.to_thread(self._server.stop)

    @property
    def capabilities(self) -> Capabilities:
        """Capabilities of real servers."""
        return Capabilities(
            name="postgres",
            protections=frozenset(SUPPORTED) | IN_PROCESS | frozenset(MergeProtection),
            why_on=WHY_ON,
            faults_at=ON_POSTGRES,
            reasons=WHY_NOT,
        )

    @property
    def kept(self) -> Sequence[tuple[str, str, str]]:
        """Case, node and administrator's connection string of each kept database."""
        return self._kept

    def stage(self, case: Case) -> AbstractAsyncContextManager[PostgresStage | MergeStage]:
        """See `twopc.sim.scenario.stage.Theatre`."""
        return self._stage(case)

    @asynccontextmanager
    async def _stage(self, case: Case) -> AsyncIterator[PostgresStage | MergeStage]:
        try:
            async with AsyncExitStack() as stack:
                if case.scenario.merges:
                    yield await self._merging(case, stack)
                    return
                if self._dsns:
                    await stack.enter_async_context(self._turn)
                prepared = await stack.enter_async_context(self._preparing.prepared(case))
                yield await self._set(case, prepared, stack)
        except psycopg.OperationalError as error:
            raise ServerError(f"a node's server cannot be used: {error}") from error

    async def _set(
        self, case: Case, prepared: PreparedTopology, stack: AsyncExitStack
    ) -> PostgresStage:
        """Return the stage for a case: one that injects faults if the case arms any."""
        if not case.faults and not case.off & IN_PROCESS:
            return PostgresStage(prepared)
        from twopc.sim.faults.stage import FaultyStage  # few scenarios need it

        faulty = FaultyStage(prepared, case)
        stack.push_async_callback(faulty.close)
        await faulty.begin()
        return faulty

    async def _merging(self, case: Case, stack: AsyncExitStack) -> MergeStage:
        """Return the stage for a case of merge replication.

        Raises:
            SetUpError: existing nodes, or kept ones, are requested.
        """
        from twopc.sim.scenario.merge_stage import merge_stage  # other scenarios do not need it

        if self._dsns or self._keep:
            raise SetUpError(
                ("topology", "replication"),
                "nodes that merge are made for each order, and dropped: leave out --dsn and --keep",
            )
        server, servers = await self._server_of(case.scenario, stack)
        return await stack.enter_async_context(merge_stage(case, server=server, servers=servers))

    async def _server_of(
        self, scenario: Scenario, stack: AsyncExitStack
    ) -> tuple[AnyServer | None, str]:
        """Return the server for a scenario's nodes, and whether it is ``one`` for all of them; None if there is one for
        ``each``, or if all of them are given.
        """
        own = await self._own_server(scenario)
        if own is not None:
            stack.push_async_callback(asyncio.to_thread, own.stop)
            return own, "one"
        if self._a_server_each(scenario):
            return None, "each"
        if not self._dsns.keys() >= {*scenario.topology.nodes, "distribution"}:
            await self._start()
        return self._server, "one"

    async def _start(self) -> None:
        """Start the server for all cases, once."""
        async with self._starting:
            if self._server is None:
                ahead = self._ahead
                start = partial(choose, self._pg) if ahead is None else ahead.take
                self._server = await start_in_thread(start)
                await self._sweep(self._server)

    async def _make(self, case: Case, stack: AsyncExitStack) -> tuple[Topology, Observer, Printed]:
        """Return a topology with the scenario's tables; the stack removes it."""
        scenario = case.scenario
        server, servers = await self._server_of(scenario, stack)
        topology = Topology(
            publisher=scenario.topology.publisher,
            subscribers=scenario.topology.subscribers,
            servers=servers,
            dsns=self._dsns,
            server=server,
            name=self._name(server),
            lock_timeout_ms=scenario.topology.timeouts.lock_ms,
            shipping=scenario.topology.shipping,
            commit=scenario.topology.commit,
            distribute=scenario.distributes,
            keep=self._keep,
            markers_kept_s=MARKERS_KEPT_S,
        )
        await stack.enter_async_context(topology)
        await refuse_existing(topology, scenario)
        if not self._keep:
            stack.push_async_callback(clear, topology, scenario)
        printed = await set_up(topology, scenario)
        await switch_off(topology, case.off - IN_PROCESS)
        stack.push_async_callback(take_down, topology, scenario)
        dsns = {name: topology.nodes[name].dsn for name in scenario.topology.nodes}
        observer = await Observer.connect(dsns)
        stack.push_async_callback(observer.close)
        if self._keep:
            self._kept += [(case.name, node, dsn) for node, dsn in dsns.items()]
        await observer.look(())  # prepares the query plans before any session waits
        return topology, observer, printed

    def _a_server_each(self, scenario: Scenario) -> bool:
        """Return whether each node gets its own server: if requested, or if a fault strikes a server.

        Raises:
            SetUpError: a fault would strike a server that is not ours.
        """
        struck = None
        if scenario.faults:
            from twopc.sim.faults.plans import needs_servers  # few scenarios need it

            struck = needs_servers(scenario)
        if struck is not None and (self._dsns or kind_of(self._pg) == "url"):
            at = ("faults", struck, "do")
            raise SetUpError(at, "only a server of our own is struck: leave out --dsn and --pg URL")
        return struck is not None or self._servers == "each"

    @staticmethod
    async def _sweep(server: AnyServer) -> None:
        """Drop databases that killed runs have left on a persistent server."""
        if isinstance(server, ExternalServer):
            with suppress(psycopg.Error):  # creating the nodes will report the error
                await asyncio.to_thread(sweep, server)

    def _name(self, server: AnyServer | None) -> str:
        """Return the name of a new topology. On a persistent server it identifies the databases of this run for
        `_sweep`.
        """
        if isinstance(server, ExternalServer) and self._given is None:
            return f"{prefix('run')}_{next(_count)}"
        return fresh_name()

    async def _own_server(self, scenario: Scenario) -> EmbeddedServer | None:
        """Return a server with the scenario's settings, which no other scenario shares; None if it has no settings.

        Raises:
            SetUpError: the servers exist already, or cannot start with the settings.
        """
        settings = scenario.topology.settings
        if not settings:
            return None
        at = ("topology", "settings")
        if self._dsns or kind_of(self._pg) == "url":
            raise SetUpError(
                at, "only a server of our own can be set: leave out --dsn and --pg URL"
            )
        try:
            own = await start_in_thread(partial(choose, self._pg, settings=settings))
            assert isinstance(own, EmbeddedServer)
            return own
        except ServerError as error:
            raise SetUpError(at, f"no server starts with these settings: {error}") from error
