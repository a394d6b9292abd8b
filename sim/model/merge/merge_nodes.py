"""Merge nodes of a model: their tables, their subscriptions, and the sessions between them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from uuid import UUID

from twopc.drivers.merge.engine import MergeReport, MergeSession
from twopc.drivers.points import Points
from twopc.errors import MergeError
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.merge.schema_changes import SchemaChange, SchemaChangeKind
from twopc.merge.snapshots import being_initialised
from twopc.sim.model.builder import blaming, create_text
from twopc.sim.model.merge.copies import initialise
from twopc.sim.model.merge.partitions import PartitionMappings
from twopc.sim.model.merge.ranges import begin_ranges, install_ranges
from twopc.sim.model.merge.records import ModelMergeArticle, ModelNeighbour
from twopc.sim.model.merge.retention import DAY_S
from twopc.sim.model.merge.schema_changes import make_change
from twopc.sim.model.merge.site import MergeSite, RecordedConflict, SiteKnowledge, travelling
from twopc.sim.model.merge.site_end import SiteMergeEnd
from twopc.sim.model.merge.snapshot_delivery import (
    ModelSnapshot,
    ModelSnapshotDelivery,
    snapshot_of,
)
from twopc.sim.model.merge.table_filters import ModelMergedTable, filters_of, guard_partition
from twopc.sim.model.node import backups
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.replication import articles
from twopc.sim.model.system import System
from twopc.sim.model.values import Steps

_ROWGUID = "uuid not null unique default gen_random_uuid()"


class ModelMerging:
    """The merge replication of a model whose nodes are empty.

    Args:
        tables: in the order of publication: a table follows those whose rows determine which of its rows belong.
        made: the tables' names in the order of creation: a table follows those to which it refers.
        publishers: the Publisher of each Subscriber; a node follows its own Publisher.
        priorities: priorities of server subscriptions.
        values: the host name and the login of each Subscriber.
        without: protections that are switched off.

    Raises:
        twopc.sim.model.builder.BuildError: a node refuses part of a table's definition.
        UnsupportedError: the model does not support part of the definition.
    """

    def __init__(
        self,
        model: System,
        tables: Sequence[ModelMergedTable],
        publishers: Mapping[str, str],
        priorities: Mapping[str, float],
        values: Mapping[str, tuple[str, str]],
        *,
        made: Sequence[str],
        points: Points,
        without: Set[MergeProtection] = NOTHING_LEFT_OUT,
    ) -> None:
        self._model = model
        self._tables = {UUID(int=place): each for place, each in enumerate(tables, 1)}
        by_name = {each.table.name: each for each in tables}
        self._made = [by_name[name] for name in made]
        self.publishers = publishers
        """Publisher of each Subscriber."""
        self._points = points
        self._without = without
        self._aged_s = 0.0
        self._shut: set[str] = set()
        """Nodes that refuse connections at present."""
        self._agents: dict[str, set[str]] = {name: set() for name in model.nodes}
        self._backups: dict[str, tuple[Mapping[str, backups.KeptTable], SiteKnowledge]] = {}
        self._snapshots: dict[str, ModelSnapshot] = {}
        """Snapshots by Publisher."""
        self._deliveries: dict[str, ModelSnapshotDelivery] = {}
        """Deliveries by Subscriber, while it is being initialised."""
        self.ends: dict[str, tuple[SiteMergeEnd, SiteMergeEnd]] = {}
        """Both ends of the running session of each Subscriber."""
        for node in model.nodes.values():
            self._define(node)
        root = model.publisher
        for each in self._made:
            for at, row in enumerate(each.table.rows):
                with blaming("tables", each.table.name, "rows", at):
                    articles.insert(root, each.table.name, row)
        self.sites = {
            name: self._site(node, number)
            for number, (name, node) in enumerate(model.nodes.items(), 1)
        }
        above = self.sites[root.name]
        if filters := filters_of(above, self._tables):
            above.knowledge.mappings = PartitionMappings(filters, self._without)
        for artid, each in self._tables.items():
            if each.identity is not None:
                with blaming("tables", each.table.name, "merge", "identity"):
                    install_ranges(self.sites, root.name, artid, each.identity)
        for name, publisher in publishers.items():
            known = self.sites[publisher].knowledge
            known.neighbours[name] = ModelNeighbour(
                replica=0,
                is_publisher=False,
                server_priority=priorities.get(name),
                partition=None
                if known.mappings is None
                else known.mappings.partition_of(*values[name]),
            )
            self._begin(name)
            guard_partition(self.sites[name], self._tables, values[name])

    def _define(self, node: ModelNode) -> None:
        for each in self._made:
            with blaming("tables", each.table.name, "columns"):
                node.define(_create_text(each))
            if node.name in self.publishers:
                _make_plain(node, each.table.name)
        for each in self._made:
            for at, text in enumerate(each.table.sql):
                with blaming("tables", each.table.name, "sql", at):
                    node.define(text)

    def _begin(self, subscriber: str) -> None:
        """Initialise a Subscriber, whose tables are empty, with the rows of its Publisher that belong to it."""
        publisher = self.publishers[subscriber]
        node, above = self._model.nodes[subscriber], self._model.nodes[publisher]
        site = self.sites[subscriber]
        node.on_commit = None
        initialise(site.knowledge, publisher, self.sites[publisher].knowledge)
        for each in self._made:
            artid = self._artid(each.table.name)
            for row in above.table(each.table.name).rows():
                if site.rowguid(artid, row) in site.knowledge.rows[artid]:
                    copied = partial(OpenTx.insert, table=each.table.name, row=row)
                    node.outside(copied, f"a copy of {each.table.name}")
        begin_ranges(self.sites[publisher].knowledge, site.knowledge)
        site.watch()

    def _site(self, node: ModelNode, replica: int) -> MergeSite:
        names = {each.table.name: artid for artid, each in self._tables.items()}
        merged = {}
        for artid, each in self._tables.items():
            table = node.table(each.table.name)
            columns = [table.columns[place].name for place in travelling(table, each.rowguid)]
            merged[artid] = ModelMergeArticle(
                columns=len(columns),
                column_tracking=each.column_tracking,
                parents=tuple(
                    names[key.parent.name] for key in table.references if key.parent is not table
                ),
                name=each.table.name,
                options=each.options,
                column_names=tuple(columns),
                has_ranges=each.identity is not None,
            )
        knowledge = SiteKnowledge(
            name=node.name,
            replica=replica,
            articles=merged,
            clock=lambda: node.clock() + self._aged_s,
            without=self._without,
        )
        tables = {artid: node.table(each.table.name) for artid, each in self._tables.items()}
        rowguids = {artid: each.rowguid for artid, each in self._tables.items()}
        return MergeSite(node, knowledge, tables, rowguids)

    # -- actions -----------------------------------------------------------------------------------

    async def sync(self, subscriber: str) -> MergeReport:
        """Run one session of the Merge Agent. MergeError"""
        publisher = self.publishers[subscriber]
        if subscriber in self._deliveries:
            raise MergeError(being_initialised(subscriber), node=subscriber, sqlstate="42501")
        ends = (
            SiteMergeEnd(self.sites[publisher], subscriber, self._agents[publisher], self._shut),
            SiteMergeEnd(self.sites[subscriber], publisher, self._agents[subscriber], self._shut),
        )
        before, self.ends[subscriber] = self.ends.get(subscriber), ends
        try:
            return await MergeSession(*ends, self._points, without=self._without).run()
        finally:
            if before is None:
                self.ends.pop(subscriber, None)
            else:
                self.ends[subscriber] = before

    async def reinitialise(self, subscriber: str) -> None:
        """Reinitialise a Subscriber with its Publisher's rows, outside virtual time except for protocol points.

        If there is a snapshot, its files are delivered one by one; an interrupted delivery continues at the next
        file.
        """
        publisher = self.publishers[subscriber]
        kept = self._snapshots.get(publisher)
        if kept is None or not kept.is_usable(self.sites[publisher].knowledge):
            self._empty(subscriber)
            self._begin(subscriber)
        else:
            if subscriber not in self._deliveries:
                self._empty(subscriber)
                made = [self._artid(each.table.name) for each in self._made]
                self._deliveries[subscriber] = ModelSnapshotDelivery(
                    self.sites[subscriber], publisher, kept, made, self._points, self._without
                )
            await self._deliveries[subscriber].run(self.sites[publisher].knowledge)
            del self._deliveries[subscriber]
        self.sites[subscriber].knowledge.recorded.clear()

    async def go_on(self) -> None:
        """Continue interrupted deliveries of snapshots."""
        for name in [*self._deliveries]:
            await self.reinitialise(name)

    def is_being_initialised(self, node: str) -> bool:
        """Return whether some files of a snapshot have not been delivered to a node yet."""
        return node in self._deliveries

    def make_snapshot(self, publisher: str) -> None:
        """Make the snapshot from which the Publisher's Subscribers are reinitialised."""
        self._snapshots[publisher] = snapshot_of(self.sites[publisher])

    def _empty(self, subscriber: str) -> None:
        node = self._model.nodes[subscriber]
        held = self.sites[subscriber].knowledge.schema
        for change in self.sites[self.publishers[subscriber]].knowledge.schema[len(held) :]:
            make_change(self.sites[subscriber], change)
        node.on_commit = None
        for each in reversed(self._made):
            node.outside(_delete_all(node, each.table.name), f"the rows of {each.table.name}")

    async def add_column(self, table: str, column: str, type_: str, *, default: str | None) -> None:
        """Add a column to a table of the topmost Publisher, which sessions propagate to Subscribers. SqlError

        Raises:
            UnsupportedError: the model does not support the type.
        """
        self._change(SchemaChangeKind.ADD, table, column, type_, default)

    async def drop_column(self, table: str, column: str) -> None:
        """Drop a column of the topmost Publisher that no key and no filter uses; sessions propagate the change."""
        self._change(SchemaChangeKind.DROP, table, column)

    async def widen_column(self, table: str, column: str, type_: str) -> None:
        """Change a column's type at the topmost Publisher to a wider one; sessions propagate the change.

        Raises:
            UnsupportedError: the model does not support the type.
        """
        self._change(SchemaChangeKind.WIDEN, table, column, type_)

    def _change(
        self,
        kind: SchemaChangeKind,
        table: str,
        column: str,
        type_: str | None = None,
        default: str | None = None,
    ) -> None:
        site, artid = self.sites[self._model.publisher.name], self._artid(table)
        version = len(site.knowledge.schema) + 1
        change = SchemaChange(
            version=version,
            guid=UUID(int=version),
            artid=artid,
            kind=kind,
            column=column,
            number=version,
            type=type_,
            default=default,
        )
        make_change(site, change)

    def cut(self, node: str) -> None:
        """Have a node refuse connections, and end those of agents to it. Idempotent."""
        self._shut.add(node)
        for end in (end for ends in self.ends.values() for end in ends):
            end.is_lost = end.is_lost or end.name == node

    def restore(self, node: str) -> None:
        """Have a node accept connections again. Idempotent."""
        self._shut.discard(node)

    async def back_up(self, node: str) -> None:
        """Back up a node, replacing its earlier backup. No session may be working there."""
        knowledge = copy.deepcopy(self.sites[node].knowledge)
        self._backups[node] = backups.back_up(self._model.nodes[node]), knowledge

    async def restore_backup(self, node: str) -> None:
        """Restore a node from its backup, which is kept. No session may be working there."""
        tables, knowledge = self._backups[node]
        backups.restore(self._model.nodes[node], tables)
        self.sites[node].knowledge = copy.deepcopy(knowledge)

    async def age(self, days: float) -> None:
        """Advance the clock of retention by some days."""
        self._aged_s += days * DAY_S

    def recorded(self, node: str) -> Sequence[RecordedConflict]:
        """Return the conflicts that a node has recorded, the oldest first."""
        return self.sites[node].knowledge.recorded

    def table_of(self, artid: UUID) -> str:
        """Return the name of an article's table."""
        return self._tables[artid].table.name

    def rowguids(self, node: str, table: str) -> list[UUID]:
        """Return the rowguids of a table's rows at a node, in the order of their primary keys."""
        site, artid = self.sites[node], self._artid(table)
        return [site.rowguid(artid, row) for row in site.tables[artid].rows()]

    def part(self, subscriber: str, table: str) -> list[int] | None:
        """Return the places of the Publisher's rows of a table that belong to a Subscriber; None if all do."""
        publisher, artid = self.publishers[subscriber], self._artid(table)
        above = self.sites[publisher].knowledge
        partition = above.neighbours[subscriber].partition
        if above.mappings is None or partition is None or artid not in above.mappings.filters:
            return None
        belong = {rowguid for rowguid, _ in above.mappings.evaluated(above, artid, [partition])}
        return [
            place
            for place, rowguid in enumerate(self.rowguids(publisher, table))
            if rowguid in belong
        ]

    def texts(self, node: str, table: str, values: Sequence[object]) -> dict[str, str | None]:
        """Return the values of a row that a node has recorded, as texts."""
        artid = self._artid(table)
        held, rowguid = self._model.nodes[node].table(table), self._tables[artid].rowguid
        columns = [held.columns[place] for place in travelling(held, rowguid)]
        return {
            column.name: value
            if value is None or isinstance(value, str)
            else column.type.text(value)
            for column, value in zip(columns, values, strict=False)  # the row may be older
        }

    def _artid(self, table: str) -> UUID:
        return next(artid for artid, each in self._tables.items() if each.table.name == table)


def _create_text(merged: ModelMergedTable) -> str:
    text = create_text(merged.table)
    if not merged.adds_rowguid:
        return text
    return f'{text.removesuffix(")")}, "{merged.rowguid}" {_ROWGUID})'


def _make_plain(node: ModelNode, table: str) -> None:
    """Remove identity from a Subscriber's columns: inserts must specify their values."""
    for column in node.table(table).columns:
        if column.identity:
            column.identity = column.always = False
            column.default, column.not_null = None, True


def _delete_all(node: ModelNode, table: str) -> Callable[[OpenTx], Steps[int]]:
    there = node.table(table)
    primary = there.primary
    assert primary is not None, "a table that is merged has a primary key"
    keys = [primary.key(row) for row in there.rows()]
    return lambda tx: tx.delete_all(table, keys)
