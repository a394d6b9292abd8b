"""Random histories of filtered publications in memory.

Two of the three tables are joined, and partitions overlap.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any
from uuid import UUID

from tests.merge.histories import COLUMNS, History, Known
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

#: Regions, their customers, and the purchases of these. A row's number modulo 3 is its table.
TABLES = (UUID(int=1), UUID(int=2), UUID(int=3))
HOSTS = {"anna": "0", "ben": "0", "cleo": "1"}
JOINS = ("precomputed", "evaluated", "timed")
"""How partitions are evaluated: from changes, by joins that are no keys, or also by the time."""
COURSES: Mapping[str, Mapping[str, float]] = {
    "plain": {},
    "aged": {"ages": 0.15},
    "restored": {"restores": 0.12},
}
_REGIONS = 3
_KEYS = 4
"""Number of keys of parents, so that some parents have the same key."""


def table_of(rowguid: UUID) -> UUID:
    """Return the table of a row, which its number contains."""
    return TABLES[(rowguid.int >> 64) % len(TABLES)]


def _belongs(rowguid: UUID, row: Values, partition: ModelPartition) -> bool:
    """Return whether a row belongs to the region of a partition, or is lent to it."""
    regions = {int(str(value)) % _REGIONS for value in row[:2]}
    return partition.host_name is not None and int(partition.host_name) in regions


def _is_below(rowguid: UUID, row: Values, parent: UUID, above: Values) -> bool:
    """Return whether a row refers to the key of a parent, which never changes."""
    return int(str(row[0])) % _KEYS == (parent.int >> 64) // len(TABLES) % _KEYS


def _is_beside(rowguid: UUID, row: Values, parent: UUID, above: Values) -> bool:
    """Return whether a row has a value of a parent, which may change."""
    return int(str(row[0])) % _KEYS == int(str(above[2])) % _KEYS


def mappings(
    *,
    is_precomputed: bool,
    days: Callable[[], float] | None = None,
    without: Set[MergeProtection] = NOTHING_LEFT_OUT,
) -> PartitionMappings:
    """Return mappings: the first table has a row filter, the other two have join filters.

    Args:
        days: the days that have passed; rows of the first table change their regions with them.
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
        is_precomputed: joins use keys; otherwise, values that change.
        is_timed: rows move as time passes.
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
        """Set the Publisher's filters, and initialise all Subscribers."""
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
        """See `Nodes`; of a row that has left, a node knows its own changes only, by their numbers.

        A row that enters a partition arrives without the metadata that its Publisher has removed,
        and includes it.
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


class PartitionHistory(History):
    """A history after which every Subscriber has the rows of its partition."""

    nodes: PartitionNodes

    def may_go(self, rowguid: UUID) -> bool:
        """Return whether a row has no children, or partitions do not rely on foreign keys.

        On servers, foreign keys prevent the deletion of parents.
        """
        return not self.nodes.is_precomputed or table_of(rowguid) == TABLES[-1]

    def may_return(self, node: str, rowguid: UUID) -> bool:
        """Return whether the node has seen the row; no application draws an unseen number again."""
        return rowguid in self.nodes.nodes[node].metadata[table_of(rowguid)]

    async def judge(self) -> None:
        """Assert that partitions are right and nothing is lost."""
        self.judge_partitions()
        stamps = [(c.rowguid, c.replica, c.version) for c in self.changes]
        assert len(stamps) == len(set(stamps)), "a version names two changes"
        final, losers = await self.nodes.rows("pub"), await self.nodes.losers()
        for change in self.changes:
            if change not in self.given_up:
                await self._judge(change, final.get(change.rowguid), losers)

    def judge_partitions(self) -> None:
        """Assert that Subscribers have their partitions' rows, and mappings match the filters."""
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
    """Play one history until nothing is transferred, and judge it.

    Args:
        joins: one of `JOINS`.
        course: one of `COURSES`.
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
    if course != "restored":  # changes lost with a backup cannot be judged
        await history.judge()
    return history


class _WeakEnd(ModelMergeEnd):
    """An end of a session in which rows leave although they were changed."""

    @property
    def _without(self) -> Set[MergeProtection]:
        return {MergeProtection.DEFERRAL}
