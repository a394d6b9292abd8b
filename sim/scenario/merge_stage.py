"""Stage for merge replication on real servers: a new `twopc.sim.merge.MergeTopology` for each case.

See `twopc.sim.scenario.stage.Stage`. Merge replication has no branches or branch markers, and its agents run only
in sync steps.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import UUID

from twopc.drivers.merge import partitions, tracking
from twopc.drivers.points import Points
from twopc.merge.lineage import unpacked
from twopc.merge.protections import MergeProtection
from twopc.sim.faults.merge import MergeFaults
from twopc.sim.faults.plans import plans_of
from twopc.sim.merge import MergeTopology, delivery
from twopc.sim.merge.conflicts import read_conflicts
from twopc.sim.report.history import plain
from twopc.sim.scenario.merge_setup import make_snapshots, set_up_merge
from twopc.sim.scenario.merge_watch import (
    MergeWatch,
    NeighbourMarks,
    NodeKnowledge,
    SeenConflict,
)
from twopc.sim.scenario.merging_stage import MergingStage
from twopc.sim.scenario.postgres_setup import take_down
from twopc.sim.scenario.server_stage import ServerStage
from twopc.sim.scenario.stage import AGENTS, NodeContent
from twopc.sim.scenario.values import Case
from twopc.sim.sessions.interface import ClientSession
from twopc.sim.sessions.merge import MergeLocalSession
from twopc.sim.sessions.waits import Observer
from twopc.sim.topology.nodes import AnyServer

_SEEN = """
select r.former || r.replica,
       (select max(h.generation) from msrepl.msmerge_genhistory as h),
       (select json_agg(json_build_array(s.subscriber_server, s.sentgen, s.recgen, s.coming_gen))
        from msrepl.sysmergesubscriptions as s where s.login is not null),
       (select json_agg(json_build_array(a.source_object, m.rowguid, msrepl.merge_lineage(m.lineage, r.replica, m.own)))
        from msrepl.msmerge_metadata as m join msrepl.sysmergearticles as a on a.nickname = m.tablenick)
from msrepl.msmerge_replica as r
"""


@asynccontextmanager
async def merge_stage(
    case: Case, *, server: AnyServer | None, servers: str
) -> AsyncIterator[MergeStage]:
    """Yield a stage for one case; its databases are dropped afterwards.

    Args:
        server: server for the databases; None: servers are started.
        servers: ``one`` for all nodes, or one for ``each``.
    """
    scenario = case.scenario
    topology = MergeTopology(
        tree=scenario.topology.tree,
        server=server,
        servers=servers,
        points=Points(),
        lock_timeout_ms=scenario.topology.timeouts.lock_ms,
        without=frozenset(map(MergeProtection, case.off)),
    )
    async with topology:
        with tempfile.TemporaryDirectory(prefix="twopc_snapshot_") as folder:
            async with _on(topology, case, folder) as made:
                yield made


@asynccontextmanager
async def _on(topology: MergeTopology, case: Case, folder: str) -> AsyncIterator[MergeStage]:
    scenario = case.scenario
    printed = await set_up_merge(topology, scenario)
    if scenario.topology.snapshot == "before":
        await make_snapshots(topology, folder)
    observer = await Observer.connect({name: topology.node(name).dsn for name in topology.nodes})
    try:
        await observer.look(())  # prepares the query plans before any session waits
        yield MergeStage(case, topology, observer, printed)
        await take_down(topology, scenario)
    finally:
        await observer.close()


class MergeStage(MergingStage, ServerStage[MergeTopology]):
    """Stage of merging databases."""

    def __init__(
        self,
        case: Case,
        topology: MergeTopology,
        observer: Observer,
        printed: Sequence[Mapping[str, Any]],
    ) -> None:
        super().__init__(topology, case.scenario, observer, printed)
        self._merging = topology
        self._sessions: dict[str, MergeLocalSession] = {}
        self._faults = MergeFaults(topology.points, plans_of(case))
        self._watch = MergeWatch(case, self)

    async def open(self, session: str, node: str) -> ClientSession:
        return self._seated(session, node)

    def agents(self) -> ClientSession:
        return self._seated(AGENTS, self._topology.publisher)

    def _seated(self, name: str, node: str) -> MergeLocalSession:
        opened = self._sessions[name] = MergeLocalSession(
            self._topology, node, self._observer, around=self._watch.session
        )
        return opened

    async def seen(self, node: str) -> NodeKnowledge:
        connection = await self._topology.admin(node)
        row = await (await connection.execute(_SEEN)).fetchone()
        assert row is not None, "the node merges"
        replicas, newest, marks, lineages = row
        return NodeKnowledge(
            replicas=tuple(replicas),
            newest=newest,
            marks={
                name: NeighbourMarks(sent=sent, received=received, coming=coming)
                for name, sent, received, coming in marks or ()
            },
            lineages={
                (table, UUID(rowguid)): unpacked(lineage)
                for table, rowguid, lineage in lineages or ()
            },
        )

    async def conflicts(self, node: str) -> Sequence[SeenConflict]:
        return [
            SeenConflict(
                table=each.table,
                rowguid=each.rowguid,
                type=each.type,
                origin=each.origin,
                winner=each.winner,
                reason_code=each.reason_code,
                reason=each.reason,
                loser=each.loser and {name: _text(value) for name, value in each.loser.items()},
            )
            for each in await read_conflicts(await self._topology.admin(node), None)
        ]

    async def look(self, node: str, tables: Mapping[str, Sequence[str]]) -> NodeContent:
        with_guid = {
            name: [self._scenario.tables[name].merge.rowguid or "rowguid", *columns]
            for name, columns in tables.items()
        }
        by_table, _ = await self._read(node, with_guid)
        contents = {
            name: [dict(zip(tables[name], row[2:], strict=True)) for row in rows]
            for name, rows in by_table.items()
        }
        for name, rows in by_table.items():
            for row, values in zip(rows, contents[name], strict=True):
                self._watch.note_row(node, name, UUID(row[1]), values)
        return NodeContent(
            rows=contents,
            xids={name: [row[0] for row in rows] for name, rows in by_table.items()},
        )

    async def part(
        self, subscriber: str, table: str, columns: Sequence[str]
    ) -> list[dict[str, Any]] | None:
        if not self._scenario.tables[table].merge.is_filtered:
            return None
        connection = await self._topology.admin(self._scenario.topology.publisher)
        articles = await tracking.articles(connection)
        article = next(each for each in articles if each.table == table)
        belongs = await partitions.part(connection, article, subscriber)
        return await self._selected(table, columns, belongs, "t")

    @asynccontextmanager
    async def _left(self, node: str) -> AsyncIterator[None]:
        await self._observer.leave(node)
        yield
        await self._observer.return_to(node, self._topology.node(node).dsn)

    async def recover(self) -> None:
        """Heal the faults that can be healed, and continue interrupted deliveries of snapshots."""
        self._faults.heal()
        for name in self._topology.subscribers:
            if self._scenario.topology.snapshot == "none":
                continue
            if await delivery.unfinished(await self._topology.admin(name)) is not None:
                await self._topology.reinitialise(name)


def _text(value: Any) -> str | None:
    """Return a value as text, in the form that a history uses."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(plain(value))
