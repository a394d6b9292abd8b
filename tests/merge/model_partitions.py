"""Drawn histories of filtered publications in memory: three tables, two of them joined, and overlapping partitions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any
from uuid import UUID

from tests.merge.histories import COLUMNS, History, Known, Lost
from tests.merge.model_nodes import PRIORITIES, STAR, ModelNodes, RememberingNode
from twopc.merge.lineage import joined
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.sim.model.merge.copies import initialise
from twopc.sim.model.merge.end import ModelMergeEnd
from twopc.sim.model.merge.partitions import (
    ModelJoinFilter,
    ModelMergeFilter,
    ModelPartition,
    PartitionMappings,
)
from twopc.sim.model.merge.records import ModelMergeArticle, ModelNeighbour, Values

#: Regions; their customers, and the purchases of these, by remainders of numbers.
TABLES = (UUID(int=1), UUID(int=2), UUID(int=3))
HOSTS = {"anna": "0", "ben": "0", "cleo": "1"}
JOINS = ("precomputed", "evaluated", "timed")
"""How partitions are worked out: of what has changed, by joins that are no keys, or also by the time."""
COURSES: Mapping[str, Mapping[str, float]] = {
    "plain": {},
    "aged": {"ages": 0.15},
    "restored": {"restores": 0.12},
}
_REGIONS = 3
_KEYS = 4
"""So many keys have parents: some parents have the same."""


def table_of(rowguid: UUID) -> UUID:
    """The table that a row is in, which its number says."""
    return TABLES[(rowguid.int >> 64) % len(TABLES)]


def _belongs(rowguid: UUID, row: Values, partition: ModelPartition) -> bool:
    """It is of a region, or lent to another."""
    regions = {int(str(value)) % _REGIONS for value in row[:2]}
    return partition.host_name is not None and int(partition.host_name) in regions


def _is_below(rowguid: UUID, row: Values, parent: UUID, above: Values) -> bool:
    """It names the parent's key, which never changes."""
    return int(str(row[0])) % _KEYS == (parent.int >> 64) // len(TABLES) % _KEYS


def _is_beside(rowguid: UUID, row: Values, parent: UUID, above: Values) -> bool:
    """It has a value of the parent's, which may change."""
    return int(str(row[0])) % _KEYS == int(str(above[2])) % _KEYS


def mappings(
    *,
    is_precomputed: bool,
    days: Callable[[], float] | None = None,
    without: Set[MergeProtection] = NOTHING_LEFT_OUT,
) -> PartitionMappings:
    """Of the first table by its own values; the second belongs where the first does, and the third to the second.

    Args:
        days: that have gone by: rows of the first table go from region to region with them.
    """

    def belongs_now(rowguid: UUID, row: Values, partition: ModelPartition) -> bool:
        assert days is not None
        moved = tuple(int(str(value)) + int(days()) for value in row[:2])
        return _belongs(rowguid, moved, partition)

    condition = _is_below if is_precomputed else _is_beside
    joins = [
        ModelJoinFilter(parent=parent, condition=condition, is_key=is_precomputed)
        for parent in TABLES[:2]
    ]
    return PartitionMappings(
        {
            TABLES[0]: ModelMergeFilter(
                condition=_belongs if days is None else belongs_now,
                uses={"host_name"},
                is_timed=days is not None,
            ),
            TABLES[1]: ModelMergeFilter(joins=(joins[0],)),
            TABLES[2]: ModelMergeFilter(joins=(joins[1],)),
        },
        without,
    )


class PartitionNodes(ModelNodes):
    """Nodes in memory of a filtered publication.

    Args:
        is_precomputed: joins are by keys; else by values that change.
        is_timed: rows move as time goes by.
    """

    def __init__(
        self, *, column_tracking: bool, is_precomputed: bool, is_timed: bool = False
    ) -> None:
        super().__init__(column_tracking=column_tracking)
        self.is_precomputed = is_precomputed
        article = ModelMergeArticle(columns=COLUMNS, column_tracking=column_tracking)
        self._own: dict[tuple[str, UUID], dict[int, int]] = {}
        for number, name in enumerate(self.names, 1):
            node = RememberingNode(
                name=name,
                replica=number,
                articles=dict.fromkeys(TABLES, article),
                clock=self._clock(),
            )
            self.nodes[name] = node
        days = (lambda: self.days) if is_timed else None
        self.begin(mappings(is_precomputed=is_precomputed, days=days))

    def begin(self, filters: PartitionMappings) -> None:
        """Have the Publisher filter, and everybody subscribe."""
        above = self.nodes["pub"]
        above.mappings = filters
        for name in STAR:
            above.neighbours[name] = ModelNeighbour(
                replica=0,
                is_publisher=False,
                server_priority=PRIORITIES[name],
                partition=above.mappings.partition_of(HOSTS[name], name),
            )
            initialise(self.nodes[name], "pub", above)

    async def write(
        self, node: str, rowguid: UUID, values: Sequence[Any] | None, fresh: bool
    ) -> None:
        """See `Nodes`."""
        self.nodes[node].write(
            table_of(rowguid), rowguid, None if values is None else tuple(values)
        )
        replica = self.nodes[node].replica
        version = self.nodes[node].metadata[table_of(rowguid)][rowguid].version
        self._own[node, rowguid] = {replica: version.lineage[replica]}

    async def rows(self, node: str) -> dict[UUID, tuple[Any, ...]]:
        """See `Nodes`."""
        return {guid: row for rows in self.nodes[node].rows.values() for guid, row in rows.items()}

    async def known(self, node: str, rowguid: UUID) -> Known | None:
        """See `Nodes`: of what has left a node knows its own changes alone, by their numbers.

        A row comes into a partition without what its Publisher has forgotten, and stands on that.
        """
        held = self.nodes[node].metadata[table_of(rowguid)].get(rowguid)
        lineage = joined(
            self._own.get((node, rowguid), {}), self.nodes[node].forgotten.get(rowguid, {})
        )
        if rowguid in self.nodes[node].rows[table_of(rowguid)]:
            lineage = joined(lineage, self.nodes["pub"].forgotten.get(rowguid, {}))
        if held is None:
            is_gone = rowguid not in self.nodes[node].rows[table_of(rowguid)]
            return Known(lineage=lineage, gone=is_gone) if lineage else None
        return Known(lineage=joined(lineage, held.version.lineage), gone=held.version.gone)

    async def losers(self) -> Sequence[Lost]:
        """See `Nodes`."""
        return [
            Lost(rowguid=c.rowguid, row=c.loser)
            for name in self.names
            for c in self.nodes[name].conflicts
        ]


class PartitionHistory(History):
    """A history at whose end every Subscriber has the rows of its partition."""

    nodes: PartitionNodes

    def may_go(self, rowguid: UUID) -> bool:
        """Foreign keys, which servers have, keep parents from being deleted: partitions are worked out by that."""
        return not self.nodes.is_precomputed or table_of(rowguid) == TABLES[-1]

    def may_return(self, node: str, rowguid: UUID) -> bool:
        """Nobody draws a number again that it has never seen."""
        return rowguid in self.nodes.nodes[node].metadata[table_of(rowguid)]

    async def judge(self) -> None:
        """Partitions are right, and nothing is lost."""
        self.judge_partitions()
        stamps = [(c.rowguid, c.replica, c.version) for c in self.changes]
        assert len(stamps) == len(set(stamps)), "a version names two changes"
        final, losers = await self.nodes.rows("pub"), await self.nodes.losers()
        for change in self.changes:
            if change not in self.given_up:
                await self._judge(change, final.get(change.rowguid), losers)

    def judge_partitions(self) -> None:
        """Every Subscriber has the rows of its partition, and mappings are what the filters say of all rows."""
        above = self.nodes.nodes["pub"]
        above.close()
        assert above.mappings.wrong(above) == [], "mappings are not what the filters say"
        for name in STAR:
            partition = above.neighbours[name].partition
            for artid in TABLES:
                belongs = {
                    guid: above.rows[artid][guid]
                    for guid, _ in above.mappings.evaluated(above, artid, [partition])
                }
                assert self.nodes.nodes[name].rows[artid] == belongs, f"{name} differs in {artid}"


async def play_filtered(
    seed: str,
    *,
    joins: str = "precomputed",
    course: str = "plain",
    tracking: str = "column",
    without: Set[MergeProtection] = NOTHING_LEFT_OUT,
) -> PartitionHistory:
    """One history, until it is quiet and judged.

    Args:
        joins: one of `JOINS`, and `course` one of `COURSES`.
    """
    is_precomputed = joins != "evaluated"
    nodes = PartitionNodes(
        column_tracking=tracking == "column",
        is_precomputed=is_precomputed,
        is_timed=joins == "timed",
    )
    if MergeProtection.DEFERRAL in without:
        nodes.end_class = _WeakEnd
    elif without:
        nodes.begin(mappings(is_precomputed=is_precomputed, without=without))
    history = PartitionHistory(nodes, random.Random(seed), itertools.count(1).__next__)
    more = dict(COURSES[course])
    if joins == "timed":
        more.setdefault("ages", 0.1)
    await history.play(40, **more)
    assert await history.settle() <= 4
    history.judge_partitions()
    if course != "restored":  # what was lost with a backup, nobody can judge
        await history.judge()
    return history


class _WeakEnd(ModelMergeEnd):
    """An end of a session in which rows leave although they were changed."""

    @property
    def _without(self) -> Set[MergeProtection]:
        return {MergeProtection.DEFERRAL}
