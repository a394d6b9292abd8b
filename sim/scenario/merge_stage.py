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

import psycopg
from psycopg import sql

from twopc.drivers.merge import partitions, tracking
from twopc.drivers.points import Points
from twopc.drivers.recovery import SettledBranch
from twopc.merge.protections import MergeProtection
from twopc.sim.faults.merge import MergeFaults
from twopc.sim.faults.plans import plans_of
from twopc.sim.merge import MergeTopology, delivery
from twopc.sim.merge.conflicts import MergeConflict, read_conflicts
from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.merge_filters import superseded
from twopc.sim.scenario.merge_knowledge import read_knowledge
from twopc.sim.scenario.merge_parts import AddedColumn, ColumnChange, DroppedColumn
from twopc.sim.scenario.merge_setup import ON_THE_WAY_DOWN, make_snapshots, set_up_merge
from twopc.sim.scenario.merge_watch import MergeWatch, NodeKnowledge
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.outages import cut, restore
from twopc.sim.scenario.postgres_inspection import answer, read_only
from twopc.sim.scenario.postgres_setup import take_down
from twopc.sim.scenario.stage import (
    AGENTS,
    EndedMergeSession,
    NodeContent,
    StageDelivery,
    lost_table,
)
from twopc.sim.scenario.values import Case, FaultStrike
from twopc.sim.sessions.interface import ClientSession
from twopc.sim.sessions.merge import MergeLocalSession
from twopc.sim.sessions.waits import Observer, Waits, clients_of
from twopc.sim.topology.nodes import AnyServer


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


class MergeStage:
    """See `twopc.sim.scenario.stage.Stage`."""

    def __init__(
        self,
        case: Case,
        topology: MergeTopology,
        observer: Observer,
        printed: Sequence[Mapping[str, Any]],
    ) -> None:
        self._scenario = case.scenario
        self._topology = topology
        self._observer = observer
        self._printed = printed
        self._faults = MergeFaults(topology.points, plans_of(case))
        self._sessions: dict[str, MergeLocalSession] = {}
        self._keys: dict[tuple[str, str], Mapping[str, Any]] = {}
        """Last known primary key of each row, by table and rowguid."""
        self._recorded: dict[str, int] = {}
        """Number of conflicts already read, by node."""
        self._watch = MergeWatch(case, self)
        self._superseded = superseded(case.scenario)

    @property
    def about(self) -> Mapping[str, Any]:
        """Databases and server versions by node, and the results of `setup`."""
        about: dict[str, Any] = {
            "databases": {name: node.database for name, node in self._topology.nodes.items()},
            "server_versions": self._observer.versions,
        }
        return about | {"results": list(self._printed)} if self._printed else about

    async def open(self, session: str, node: str) -> ClientSession:
        """Return a session of the application's role."""
        return self._seated(session, node)

    def agents(self) -> ClientSession:
        """Return the session in which an order syncs."""
        return self._seated(AGENTS, self._topology.publisher)

    def _seated(self, name: str, node: str) -> MergeLocalSession:
        opened = self._sessions[name] = MergeLocalSession(
            self._topology, node, self._observer, around=self._watch.session
        )
        return opened

    def subscribes(self, node: str) -> bool:
        """Return True unless another node has replaced this one."""
        return node not in self._superseded

    async def deliveries(self) -> list[StageDelivery]:
        """Return nothing: the report of a merge session holds its deliveries."""
        return []

    def merge_sessions(self) -> Sequence[EndedMergeSession]:
        """See `twopc.sim.scenario.stage.Stage`."""
        return self._watch.taken()

    async def seen(self, node: str) -> NodeKnowledge:
        """See `MergeSight`."""
        return await read_knowledge(await self._topology.admin(node))

    async def new_conflicts(self) -> Sequence[tuple[UUID, dict[str, Any]]]:
        """See `MergeSight`."""
        results = []
        for node in self._topology.nodes:
            every = await self._every_conflict(node)
            new = every[self._recorded.get(node, 0) :]
            self._recorded[node] = len(every)
            results += [(each.rowguid, self._as_read(node, each)) for each in new]
        return results

    async def _every_conflict(self, node: str) -> Sequence[MergeConflict]:
        every = await read_conflicts(await self._topology.admin(node), None)
        if node in self._topology.tree.publishers:
            return every
        # the Publisher records the other conflicts
        return [each for each in every if each.type in ON_THE_WAY_DOWN]

    def _as_read(self, node: str, conflict: MergeConflict) -> dict[str, Any]:
        columns = self._scenario.tables[conflict.table].columns
        loser = None
        if conflict.loser is not None:
            held = conflict.loser
            loser = {name: _text(held[name]) for name in columns if name in held}
        key = self._keys.get((conflict.table, str(conflict.rowguid)))
        return {
            "node": node,
            "table": conflict.table,
            "key": dict(key or _key_of(self._scenario, conflict.table, loser or {})),
            "type": conflict.type.name.lower(),
            "origin": conflict.origin,
            "winner": conflict.winner,
            "resolver": self._scenario.tables[conflict.table].merge.resolver,
            "reason_code": conflict.reason_code,
            "reason": conflict.reason,
            "loser": loser,
        }

    async def waits(self) -> Waits:
        """Read the locks of all nodes."""
        waits = await self._observer.look(await clients_of(self._sessions))
        return self._faults.with_paused(waits, self._sessions)

    async def look(self, node: str, tables: Mapping[str, Sequence[str]]) -> NodeContent:
        """Return the given columns of these tables' rows, all read in one statement and thus in one snapshot."""
        parts = [
            sql.SQL(
                "(select json_agg(array[xmin::text, {}::text, {}] order by {}) from {})"
            ).format(
                sql.Identifier(self._scenario.tables[name].merge.rowguid or "rowguid"),
                sql.SQL(", ").join(
                    sql.SQL("{}::text").format(sql.Identifier(each)) for each in columns
                ),
                sql.SQL(", ").join(map(sql.Identifier, self._scenario.tables[name].key_columns)),
                sql.Identifier("public", name),
            )
            for name, columns in tables.items()
        ]
        query = sql.SQL("select {}").format(sql.SQL(", ").join(parts))
        try:
            [contents] = await self._topology.execute(node, query.as_string(None))
        except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
            raise lost_table(error.diag.message_primary or str(error)) from error
        by_table = {name: rows or () for name, rows in zip(tables, contents, strict=True)}
        result = {
            name: [dict(zip(tables[name], row[2:], strict=True)) for row in rows]
            for name, rows in by_table.items()
        }
        for name, rows in by_table.items():
            for row, values in zip(rows, result[name], strict=True):
                self._keys[name, row[1]] = _key_of(self._scenario, name, values)
        return NodeContent(
            rows=result, xids={name: [row[0] for row in rows] for name, rows in by_table.items()}
        )

    async def part(
        self, subscriber: str, table: str, columns: Sequence[str]
    ) -> list[dict[str, Any]] | None:
        """See `twopc.sim.scenario.stage.Stage`."""
        if not self._scenario.tables[table].merge.is_filtered:
            return None
        publisher = self._scenario.topology.publisher
        article = next(
            each
            for each in await tracking.articles(await self._topology.admin(publisher))
            if each.table == table
        )
        belongs = await partitions.part(await self._topology.admin(publisher), article, subscriber)
        query = sql.SQL("select {} from {} as t where {} order by {}").format(
            sql.SQL(", ").join(
                sql.SQL("t.{}::text").format(sql.Identifier(each)) for each in columns
            ),
            sql.Identifier("public", table),
            belongs,
            sql.SQL(", ").join(
                sql.Identifier("t", each) for each in self._scenario.tables[table].key_columns
            ),
        )
        rows = await self._topology.execute(publisher, query.as_string(None))
        return [dict(zip(columns, row, strict=True)) for row in rows]

    async def prepared(self, node: str) -> tuple[str, ...]:
        """Return nothing: merge replication has no branches."""
        return ()

    async def markers(self, node: str) -> list[dict[str, Any]]:
        """Return nothing: merge replication has no branches."""
        return []

    async def query(self, node: str, text: str) -> list[dict[str, Any]]:
        """Return the rows of a query, run in a read-only transaction."""
        return await answer(await self._topology.admin(node), node, text)

    async def read(self, node: str, text: str) -> None:
        """Run a query at a node as the application.

        Raises:
            TransactionError: the node refuses the query.
        """
        await read_only(self._topology.node(node).app_dsn, node, text)

    async def outage(self, node: str, *, on: bool) -> None:
        """See `twopc.sim.scenario.outages`."""
        self._observer.is_disturbed = True
        await (cut if on else restore)(self._topology, node)

    async def pause_agent(self, subscriber: str, *, on: bool) -> None:
        """Do nothing: agents run only in sync steps, and the player omits paused agents."""

    async def age(self, days: int) -> None:
        """See `twopc.sim.scenario.stage.Stage`."""
        await self._topology.age(days)

    async def backup(self, node: str, *, kept: bool) -> None:
        """See `twopc.sim.scenario.stage.Stage`."""
        for session in self._sessions.values():
            if session.node == node:
                await session.close()
        await self._observer.leave(node)
        if kept:
            await self._topology.back_up(node)
        else:
            await self._topology.restore_backup(node)
            self._recorded[node] = len(await self._every_conflict(node))
        await self._observer.return_to(node, self._topology.node(node).dsn)

    async def change_column(self, change: ColumnChange) -> None:
        """See `twopc.sim.scenario.stage.Stage`."""
        topology, table, column = self._topology, change.table, change.column
        if isinstance(change, AddedColumn):
            await topology.add_column(table, column, change.type, default=change.default)
        elif isinstance(change, DroppedColumn):
            await topology.drop_column(table, column)
        else:
            await topology.widen_column(table, column, change.type)

    async def arm(self, fault: Fault) -> None:
        """See `twopc.sim.scenario.stage.Stage`."""
        self._faults.arm(fault.id)

    async def fired(self) -> Sequence[FaultStrike]:
        """See `twopc.sim.scenario.stage.Stage`."""
        return self._faults.fired()

    async def recover(self) -> None:
        """Heal the faults that can be healed, and continue interrupted deliveries of snapshots."""
        self._faults.heal()
        for name in self._topology.subscribers:
            if self._scenario.topology.snapshot == "none":
                continue
            if await delivery.unfinished(await self._topology.admin(name)) is not None:
                await self._topology.reinitialise(name)

    def settled(self) -> Sequence[SettledBranch]:
        """Return nothing: merge replication has no branches."""
        return ()


def _key_of(scenario: Scenario, table: str, row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in scenario.tables[table].key_columns if name in row}


def _text(value: Any) -> str | None:
    """Return a value as text, in the form that a history uses."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return None if value is None else str(value)
