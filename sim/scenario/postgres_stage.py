"""Plays scenarios on real servers: a fresh `sim.topology.Topology` for each order.

What happens when is the runner's business.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from typing import Any, Self

import psycopg
from psycopg import sql

from sim.scenario.model import Order, Scenario
from sim.scenario.postgres_sessions import AgentsSession, PublisherSession, SubscriberSession
from sim.scenario.postgres_setup import clear, refuse_existing, set_up
from sim.scenario.stage import AGENTS, Delivery, StageSession, Waits
from sim.scenario.waits import Client, Observer
from sim.topology import Topology
from sim.topology.nodes import fresh_name
from twopc.errors import ServerError
from twopc.names import PREFIX, SCHEMA
from twopc.server import Server


class PostgresTheatre:
    """Makes stages on embedded servers, or on those of the DSNs given; an async context manager.

    Args:
        servers: ``one`` embedded server for all nodes and orders, or one for ``each`` node.
        dsns: an administrator's connection string per node, for servers that run already.
        server: an embedded server that runs already and is not stopped at the end.
        keep: leave each order's databases for a look, until the theatre is left.
    """

    def __init__(
        self,
        *,
        servers: str = "one",
        dsns: Mapping[str, str] | None = None,
        server: Server | None = None,
        keep: bool = False,
    ) -> None:
        self._given = server
        self._servers = servers
        self._dsns = dict(dsns or {})
        self._keep = keep
        self._server = server
        self.kept: list[tuple[str, str, str]] = []
        """Order, node and the administrator's connection string of what is kept."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None and self._given is None:
            await asyncio.to_thread(self._server.stop)

    def stage(self, scenario: Scenario, order: Order) -> AbstractAsyncContextManager[PostgresStage]:
        """See `sim.scenario.stage.Theatre`."""
        return self._stage(scenario, order)

    @asynccontextmanager
    async def _stage(self, scenario: Scenario, order: Order) -> AsyncIterator[PostgresStage]:
        nodes = (*scenario.topology.nodes, "distribution")
        if self._servers == "one" and self._server is None and not self._dsns.keys() >= set(nodes):
            self._server = await asyncio.to_thread(Server.start)
        topology = Topology(
            publisher=scenario.topology.publisher,
            subscribers=scenario.topology.subscribers,
            servers=self._servers,
            dsns=self._dsns,
            server=self._server,
            name=fresh_name(),
            lock_timeout_ms=scenario.topology.timeouts.lock_ms,
            shipping=scenario.topology.shipping,
            commit=scenario.topology.commit,
            distribute=scenario.distributes,
            keep=self._keep,
        )
        try:
            async with AsyncExitStack() as stack:
                await stack.enter_async_context(topology)
                await refuse_existing(topology, scenario)
                if not self._keep:
                    stack.push_async_callback(clear, topology, scenario)
                await set_up(topology, scenario)
                dsns = {name: topology.nodes[name].dsn for name in scenario.topology.nodes}
                observer = await Observer.connect(dsns)
                stack.push_async_callback(observer.close)
                if self._keep:
                    self.kept += [(order.name, node, dsn) for node, dsn in dsns.items()]
                await observer.look(())  # plans are made now and not while somebody waits
                yield PostgresStage(topology, scenario, observer)
        except psycopg.OperationalError as error:
            raise ServerError(f"a node's server cannot be used: {error}") from error


class PostgresStage:
    """See `sim.scenario.stage.Stage`."""

    def __init__(self, topology: Topology, scenario: Scenario, observer: Observer) -> None:
        self._topology = topology
        self._scenario = scenario
        self._observer = observer
        self._sessions: dict[str, PublisherSession | SubscriberSession | AgentsSession] = {}

    @property
    def about(self) -> Mapping[str, Any]:
        """Databases and server versions by node."""
        return {
            "databases": {name: node.database for name, node in self._topology.nodes.items()},
            "server_versions": self._observer.versions,
        }

    async def open(self, session: str, node: str) -> StageSession:
        """A session of the application's role."""
        kind = PublisherSession if node == self._topology.publisher else SubscriberSession
        opened = kind(self._topology, node, self._observer)
        self._sessions[session] = opened
        return opened

    def agents(self) -> StageSession:
        """A session that syncs for an order."""
        opened = AgentsSession(self._topology, "", self._observer)
        self._sessions[AGENTS] = opened
        return opened

    async def deliveries(self) -> list[Delivery]:
        """What the agents have done."""
        return [
            Delivery(
                node=each.subscriber,
                seqno=each.seqno,
                origin=each.origin or self._topology.publisher,
                gid=each.gid,
                commands=each.commands,
                suppressed=each.suppressed,
                skipped=each.skipped,
            )
            for each in await self._topology.take_deliveries()
        ]

    async def waits(self) -> Waits:
        """Look at every node's locks."""
        clients = [
            Client(name=name, node=session.node, pid=session.pid, gid=session.gid)
            for name, session in self._sessions.items()
            if session.node
        ]
        for name, session in self._sessions.items():
            clients += [
                Client(name=name, node=node, pid=pid) for node, pid in await session.syncing()
            ]
        return await self._observer.look(clients)

    async def rows(self, node: str, table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        """A table's rows by key."""
        return await self._rows(node, table, columns, sql.SQL("true"))

    async def _rows(
        self, node: str, table: str, columns: Sequence[str], condition: sql.Composable
    ) -> list[dict[str, Any]]:
        key = self._scenario.tables[table].key_columns
        query = sql.SQL("select {} from {} where {} order by {}").format(
            sql.SQL(", ").join(
                sql.SQL("{}::text").format(sql.Identifier(each)) for each in columns
            ),
            sql.Identifier("public", table),
            condition,
            sql.SQL(", ").join(map(sql.Identifier, key)),
        )
        rows = await self._topology.execute(node, query.as_string(None))
        return [dict(zip(columns, row, strict=True)) for row in rows]

    async def part(
        self, subscriber: str, table: str, columns: Sequence[str]
    ) -> list[dict[str, Any]] | None:
        """The Publisher's rows that fulfil the filters of table and Subscriber."""
        filters = [
            self._scenario.tables[table].filter,
            self._scenario.subscriber(subscriber).filter.get(table),
        ]
        conditions = [sql.SQL("(\n{}\n)").format(sql.SQL(text)) for text in filters if text]
        if not conditions:
            return None
        return await self._rows(
            self._topology.publisher, table, columns, sql.SQL(" and ").join(conditions)
        )

    async def prepared(self, node: str) -> tuple[str, ...]:
        """Our gids in the node's database."""
        rows = await self._topology.execute(
            node,
            "select gid from pg_prepared_xacts "
            "where database = current_database() and starts_with(gid, %s) order by gid",
            (f"{PREFIX}:",),
        )
        return tuple(str(gid) for (gid,) in rows)

    async def markers(self, node: str) -> list[dict[str, Any]]:
        """The rows of the node's marker table; `sent`: a Subscriber's branch has one at the Publisher."""
        query = sql.SQL(
            "select gid, participants, fence, calls > 0 or pending is not null from {} order by gid"
        ).format(sql.Identifier(SCHEMA, "branch_marker"))
        rows = await self._topology.execute(node, query.as_string(None))
        return [
            {"gid": gid, "participants": list(participants), "fence": fence, "sent": sent}
            for gid, participants, fence, sent in rows
        ]
