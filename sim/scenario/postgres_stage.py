"""Stage on real servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from psycopg import sql

from twopc.drivers.recovery import SettledBranch
from twopc.names import PREFIX, SCHEMA
from twopc.protocol.effects import Effect
from twopc.protocol.events import Event
from twopc.sim.deliveries import ReportedDelivery
from twopc.sim.scenario.postgres_setup import subscribe
from twopc.sim.scenario.postgres_topologies import PreparedTopology
from twopc.sim.scenario.server_stage import ServerStage
from twopc.sim.scenario.stage import AGENTS, AwayError, NodeContent
from twopc.sim.sessions.any_client import AnyClientSession
from twopc.sim.sessions.interface import ClientSession
from twopc.sim.sessions.plain import PlainPostgresSession
from twopc.sim.sessions.servers import PostgresSession, PublisherSession, SubscriberSession
from twopc.sim.topology import Topology
from twopc.sim.topology.protections import switch_off_at

#: The branches committed at a node, with their transaction ids in the 32-bit form of `xmin`.
_BRANCHES = sql.SQL(
    "(select json_object_agg(gid, (xid::text::bigint % 4294967296)::text) from {} where not fence)"
).format(sql.Identifier(SCHEMA, "branch_marker"))

AnySession = TypeVar("AnySession", bound=PostgresSession)


class PostgresStage(ServerStage[Topology]):
    """Stage of a Publisher, its Subscribers, and their coordinator."""

    def __init__(self, prepared: PreparedTopology) -> None:
        super().__init__(prepared.topology, prepared.scenario, prepared.observer, prepared.printed)
        self._off = prepared.off
        self._sessions: dict[str, PostgresSession] = {}
        self._settled: list[SettledBranch] = []

    def watch(self, observe: Callable[[str, Effect | Event], None] | None) -> None:
        """Call `observe` with the effects and events of the coordinator's machines."""
        self._topology.watch(observe)

    async def open(self, session: str, node: str) -> ClientSession:
        place = (self._topology, node, self._observer)
        opened: PostgresSession
        text = self._scenario.sessions.get(session)  # the clients of a load are not in the file
        if text is not None and text.plain:
            nobody_publishes = not self._topology.subscribers
            opened = PlainPostgresSession(*place, as_administrator=nobody_publishes)
        elif node == self._topology.publisher:
            opened = PublisherSession(*place)
        elif text is not None and text.any_client:
            opened = self._any_client(session, node)
        else:
            opened = await self._coordinated(session, node, text.also if text is not None else ())
        return self._seated(session, opened)

    async def _coordinated(self, session: str, node: str, also: Sequence[str]) -> PostgresSession:
        """Return a Subscriber's session whose transactions a coordinator commits."""
        coordinator = await self._topology.coordinator()
        coordinator.keeper.recovery.observe = self._settled.append
        return SubscriberSession(self._topology, node, self._observer, also=also)

    def _any_client(self, session: str, node: str) -> PostgresSession:
        """Return a Subscriber's session that commits by itself."""
        return AnyClientSession(self._topology, node, self._observer)

    def _seated(self, name: str, session: AnySession) -> AnySession:
        """Register a session and return it."""
        session.join = self._join
        self._sessions[name] = session
        return session

    async def _join(self, subscriber: str) -> None:
        await subscribe(self._topology, self._scenario, subscriber)
        await switch_off_at(self._topology, subscriber, self._off)

    def agents(self) -> ClientSession:
        opened = PostgresSession(self._topology, "", self._observer)
        self._sessions[AGENTS] = opened
        return opened

    async def deliveries(self) -> list[ReportedDelivery]:
        return await self._topology.inspect.take_deliveries()

    def subscribes(self, node: str) -> bool:
        """Return whether the node is the Publisher or has a subscription in this topology."""
        return node == self._topology.publisher or node in self._topology.installer.subscribed

    async def look(self, node: str, tables: Mapping[str, Sequence[str]]) -> NodeContent:
        if not self.subscribes(node):
            result = await self._topology.execute(
                node,
                "select bool_or(to_regclass(format('public.%%I', name)) is null) "
                "from unnest(%s::text[]) as name",
                ([*tables],),
            )
            if result[0][0]:
                raise AwayError(node)
        has_markers = self._has_markers(node)
        by_table, more = await self._read(node, tables, *([_BRANCHES] if has_markers else []))
        return NodeContent(
            rows={
                name: [dict(zip(tables[name], row[1:], strict=True)) for row in rows]
                for name, rows in by_table.items()
            },
            xids={name: [row[0] for row in rows] for name, rows in by_table.items()},
            branches=(more.pop() if has_markers else None) or {},
        )

    async def part(
        self, subscriber: str, table: str, columns: Sequence[str]
    ) -> list[dict[str, Any]] | None:
        """Return the Publisher's rows that fulfil the filters of the table and the Subscriber."""
        filters = [
            self._scenario.tables[table].filter,
            self._scenario.subscriber(subscriber).filter.get(table),
        ]
        conditions = [sql.SQL("(\n{}\n)").format(sql.SQL(text)) for text in filters if text]
        if not conditions:
            return None
        return await self._selected(table, columns, sql.SQL(" and ").join(conditions))

    async def prepared(self, node: str) -> tuple[str, ...]:
        """Return the gids of coordinators' branches that are prepared in the node's database."""
        rows = await self._topology.execute(
            node,
            "select gid from pg_prepared_xacts "
            "where database = current_database() and starts_with(gid, %s) order by gid",
            (f"{PREFIX}:",),
        )
        return tuple(str(gid) for (gid,) in rows)

    async def markers(self, node: str) -> list[dict[str, Any]]:
        """Return the rows of the node's marker table."""
        if not self._has_markers(node):
            return []
        query = sql.SQL(
            "select gid, participants, fence, calls > 0 or pending is not null from {} order by gid"
        ).format(sql.Identifier(SCHEMA, "branch_marker"))
        rows = await self._topology.execute(node, query.as_string(None))
        return [
            {"gid": gid, "participants": list(participants), "fence": fence, "sent": sent}
            for gid, participants, fence, sent in rows
        ]

    def _has_markers(self, node: str) -> bool:
        return not self._scenario.only_reads(node) and self.subscribes(node)

    async def outage(self, node: str, *, on: bool) -> None:
        await super().outage(node, on=on)
        self._observer.cut = [each for each in self._observer.cut if each != node] + [node] * on

    async def recover(self) -> None:
        """Run one pass of the coordinator's recovery."""
        await self._topology.recover()

    def settled(self) -> Sequence[SettledBranch]:
        results = [*self._settled]
        self._settled.clear()
        return results
