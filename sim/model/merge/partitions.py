"""Mappings of a Publisher's rows to partitions, in memory: computed when a generation is closed.

Implements the effects of ``msmerge_map_<artid>`` and related functions on servers (docs/merge_partitions.md).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Set
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING
from uuid import UUID

from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.sim.model.merge.records import ModelOutgoing, Values

if TYPE_CHECKING:
    from twopc.sim.model.merge.node import ModelMergeNode

Mapped = tuple[UUID, int]
"""A row and a partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPartition:
    """The values that Subscribers of a partition have in common; None for a value that no filter uses."""

    host_name: str | None
    login: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelJoinFilter:
    """See `twopc.merge.partitions.JoinFilter`."""

    parent: UUID
    condition: Callable[[UUID, Values, UUID, Values], bool]
    """Return whether a row belongs to a row of the parent."""
    is_key: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMergeFilter:
    """See `twopc.merge.partitions.MergeFilter`."""

    condition: Callable[[UUID, Values, ModelPartition], bool] | None = None
    uses: Set[str] = frozenset()
    """Values of a Subscriber that the condition uses: ``host_name``, ``suser_sname``."""
    joins: tuple[ModelJoinFilter, ...] = ()
    is_timed: bool = False
    """See `twopc.merge.partitions.MergeFilter`."""
    realigns: bool = True
    """See `twopc.merge.partitions.MergeFilter`."""

    @property
    def is_precomputed(self) -> bool:
        """See `twopc.merge.partitions.MergeFilter`."""
        return not self.is_timed and all(join.is_key for join in self.joins)


class Reason(IntEnum):
    """The reason why a row has left a partition."""

    DELETED = 1
    CHANGED = 2
    ANOTHER_CHANGED = 3
    SENT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class PastMapping:
    """The record that a row left a partition with a generation."""

    generation: int
    reason: Reason


class PartitionMappings:
    """Partitions and mappings of one Publisher.

    Args:
        filters: for each filtered article, parents before their children.
        without: protections that are switched off.
    """

    def __init__(
        self,
        filters: Mapping[UUID, ModelMergeFilter],
        without: Set[MergeProtection] = NOTHING_LEFT_OUT,
    ) -> None:
        self.filters = filters
        self._without = without
        self.partitions: list[ModelPartition] = []
        """Partitions by number."""
        self._added: set[int] = set()
        """Partitions whose rows have been mapped."""
        self.current: dict[UUID, dict[Mapped, int]] = {artid: {} for artid in filters}
        """Mappings of each filtered article, with the generation in which the row entered the partition."""
        self.past: dict[UUID, dict[Mapped, PastMapping]] = {artid: {} for artid in filters}
        self.concerned: dict[int, set[int]] = {}
        """For each generation, the partitions for which it contains changes."""

    def partition_of(self, host_name: str, login: str) -> int:
        """``merge_partition``: return the partition of these values; create it, without rows, if it is new."""
        uses = {name for each in self.filters.values() for name in each.uses}
        partition = ModelPartition(
            host_name=host_name if "host_name" in uses else None,
            login=login if "suser_sname" in uses else None,
        )
        if partition not in self.partitions:
            self.partitions.append(partition)
        return self.partitions.index(partition)

    # -- a close -----------------------------------------------------------------------------------

    def close(self, node: ModelMergeNode, *, is_changed: bool) -> bool:
        """Compute the mappings of the next generation; return whether that generation would contain any changes.

        Args:
            is_changed: whether a row has changed since the last generation.
        """
        last = node.newest
        if is_changed or any(each.is_timed for each in self.filters.values()):
            for artid, each in self.filters.items():
                is_changed |= self._map(
                    node,
                    artid,
                    last.generation.number + 1,
                    last.upto,
                    set(range(len(self.partitions))),
                    is_incremental=each.is_precomputed,
                )
        return is_changed or any(number > last.generation.number for number in self.concerned)

    def note(self, node: ModelMergeNode, generation: int, seen: int) -> None:
        """``merge_map_generation``: record for which partitions a generation contains changes."""
        concerned = self.concerned.setdefault(generation, set())
        for artid, current in self.current.items():
            for (rowguid, partition), entered in current.items():
                metadata = node.metadata[artid].get(rowguid)
                if entered == generation or (metadata is not None and metadata.change > seen):
                    concerned.add(partition)
            concerned.update(
                partition
                for (_, partition), left in self.past[artid].items()
                if left.generation == generation
            )

    def is_strange(self, node: ModelMergeNode, artid: UUID, partition: int, rowguid: UUID) -> bool:
        """``merge_foreign_rows``: return whether a row exists, is not in the partition, and was not changed recently.

        Only this shows that a change which a Subscriber sends under the row's rowguid is not based on the row.
        """
        if artid not in self.filters or rowguid not in node.rows[artid]:
            return False
        left = self.past[artid].get((rowguid, partition))
        return (
            rowguid not in node.metadata[artid]
            and (rowguid, partition) not in self.current[artid]
            and (left is None or left.reason is Reason.SENT)
        )

    def begin(self, node: ModelMergeNode, partition: int, generation: int) -> None:
        """``map_new``: map all rows of a new partition, for a generation that was just closed."""
        if partition in self._added:
            return
        self._added.add(partition)
        seen = node.generations[generation].upto
        for artid in self.filters:
            self._map(node, artid, generation, seen, {partition}, is_incremental=False)

    def _map(
        self,
        node: ModelMergeNode,
        artid: UUID,
        generation: int,
        seen: int,
        partitions: Set[int],
        *,
        is_incremental: bool,
    ) -> bool:
        """``msmerge_map_<artid>``: map the rows of an article; return whether any mapping has changed."""
        metadata, current, past = node.metadata[artid], self.current[artid], self.past[artid]
        candidates: set[UUID] | None = None
        if is_incremental:
            candidates = {rowguid for rowguid, row in metadata.items() if row.change > seen}
            if MergeProtection.CHILDREN_FOLLOW not in self._without:
                candidates.update(self._children(node, artid, generation, seen, partitions))
        belongs = set(self.evaluated(node, artid, partitions, candidates))
        held = {
            each
            for each in current
            if each[1] in partitions and (candidates is None or each[0] in candidates)
        }
        for mapped in held - belongs:
            del current[mapped]
            row = metadata.get(mapped[0])
            reason = Reason.ANOTHER_CHANGED
            if row is not None and row.version.gone:
                reason = Reason.DELETED
            elif row is not None and row.change > seen:
                reason = Reason.CHANGED
            past[mapped] = PastMapping(generation=generation, reason=reason)
        for mapped in belongs - held:
            current[mapped] = generation
            past.pop(mapped, None)
        return held != belongs

    def _children(
        self,
        node: ModelMergeNode,
        artid: UUID,
        generation: int,
        seen: int,
        partitions: Set[int],
    ) -> Iterator[UUID]:
        """``msmerge_children_<artid>``: yield rows whose parents were changed, or entered or left a partition."""
        for join in self.filters[artid].joins:
            moved = {
                rowguid
                for (rowguid, partition), entered in self.current[join.parent].items()
                if entered == generation and partition in partitions
            } | {
                rowguid
                for (rowguid, partition), left in self.past[join.parent].items()
                if left.generation == generation and partition in partitions
            }
            moved.update(
                rowguid for rowguid, row in node.metadata[join.parent].items() if row.change > seen
            )
            for parent, values in node.rows[join.parent].items():
                if parent in moved:
                    for rowguid, row in node.rows[artid].items():
                        if join.condition(rowguid, row, parent, values):
                            yield rowguid

    def evaluated(
        self,
        node: ModelMergeNode,
        artid: UUID,
        partitions: Collection[int],
        candidates: Collection[UUID] | None = None,
    ) -> Iterator[Mapped]:
        """``msmerge_filter_<artid>``: yield which rows belong to which partitions, by row filters and join filters.

        Args:
            candidates: the rows to evaluate; None for all.
        """
        each, rows = self.filters[artid], node.rows[artid]
        for rowguid in rows if candidates is None else candidates:
            row = rows.get(rowguid)
            if row is None:
                continue
            if each.condition is not None:
                for partition in partitions:
                    if each.condition(rowguid, row, self.partitions[partition]):
                        yield rowguid, partition
            for join in each.joins:
                for parent, partition in self.current[join.parent]:
                    above = node.rows[join.parent].get(parent)
                    if (
                        partition in partitions
                        and above is not None
                        and join.condition(rowguid, row, parent, above)
                    ):
                        yield rowguid, partition

    # -- sessions ----------------------------------------------------------------------------------

    def send_all(self, partition: int, newest: int) -> None:
        """Have all rows of a partition sent again with the generation after the newest."""
        for current in self.current.values():
            for mapped in current:
                if mapped[1] == partition:
                    current[mapped] = newest + 1
        self.concerned.setdefault(newest + 1, set()).add(partition)

    def touch(
        self,
        artid: UUID,
        partition: int,
        rowguids: Collection[UUID],
        newest: int,
        *,
        comes_again: bool,
    ) -> None:
        """``merge_touch_partition``: have rows leave a partition to which they do not belong.

        The rows leave with the next generation.

        Args:
            newest: the newest closed generation.
            comes_again: whether rows that do belong to the partition are sent again.
        """
        if artid not in self.filters or not rowguids:
            return
        current, past = self.current[artid], self.past[artid]
        for rowguid in rowguids:
            mapped = rowguid, partition
            if mapped not in current:
                reason = past[mapped].reason if mapped in past else Reason.SENT
                past[mapped] = PastMapping(generation=newest + 1, reason=reason)
            elif comes_again:
                current[mapped] = newest + 1
        self.concerned.setdefault(newest + 1, set()).add(partition)

    def outgoing(
        self, node: ModelMergeNode, artid: UUID, neighbour: str, after: int, upto: int
    ) -> list[ModelOutgoing]:
        """``msmerge_enumerate_<artid>`` of a filtered article: return the changes of a neighbour's partition.

        These are changed rows of the partition, and rows that leave it.
        """
        peer = node.neighbours[neighbour]
        numbers = range(after + 1, upto + 1)
        if not any(peer.partition in self.concerned.get(number, ()) for number in numbers):
            return []
        metadata, rows = node.metadata[artid], node.rows[artid]
        low, high = node.generations[after].upto, node.generations[upto].upto
        concerned = dict[UUID, bool]()
        for (rowguid, partition), entered in self.current[artid].items():
            row = metadata.get(rowguid)
            came = row is not None and row.source == peer.replica
            is_changed = row is not None and low < row.change <= high
            came_with_it = came and row is not None and node.generation_of(row.change) == entered
            if partition == peer.partition and (
                (is_changed and not came) or (entered in numbers and not came_with_it)
            ):
                concerned[rowguid] = False
        for (rowguid, partition), left in self.past[artid].items():
            if partition == peer.partition and left.generation in numbers and self._is_sent(left):
                concerned[rowguid] = True
        results = []
        for rowguid, has_left in sorted(concerned.items()):
            row, values = metadata.get(rowguid), rows.get(rowguid)
            stays = has_left and values is not None and not self.filters[artid].realigns
            if not stays and (values is not None or row is None or row.source != peer.replica):
                results.append(
                    ModelOutgoing(
                        rowguid=rowguid,
                        metadata=row,
                        values=None if has_left else values,
                        leaves=has_left and values is not None,
                    )
                )
        return results

    def _is_sent(self, left: PastMapping) -> bool:
        """Return whether a Subscriber is notified of a row that has left its partition."""
        if left.reason is Reason.SENT:
            return MergeProtection.PAST_TOUCHED not in self._without
        return left.reason is Reason.DELETED or MergeProtection.PAST_MAPPINGS not in self._without

    def forget(self, upto: int) -> None:
        """Forget past mappings up to a generation, as ``merge_clean_up`` does."""
        for past in self.past.values():
            for mapped in [each for each, left in past.items() if left.generation <= upto]:
                del past[mapped]
        for number in [each for each in self.concerned if each <= upto]:
            del self.concerned[number]

    def wrong(self, node: ModelMergeNode) -> list[tuple[UUID, Mapped]]:
        """Return where the mappings differ from the filters' result for all rows, as of the newest generation."""
        return [
            (artid, mapped)
            for artid, current in self.current.items()
            for mapped in current.keys() ^ set(self.evaluated(node, artid, self._added))
        ]


def leave(
    node: ModelMergeNode,
    artid: UUID,
    neighbour: str,
    rowguids: Collection[UUID],
    without: Set[MergeProtection] = NOTHING_LEFT_OUT,
) -> tuple[int, list[UUID]]:
    """``msmerge_leave_<artid>``: remove rows that left the Subscriber's partition.

    Args:
        without: protections that are switched off.

    Returns:
        The number of removed rows, and the rows that are deferred.
    """
    peer = node.neighbours[neighbour]
    confirmed = node.generations[peer.sent].upto
    applied, deferred = 0, list[UUID]()
    for rowguid in rowguids:
        metadata = node.metadata[artid].get(rowguid)
        if metadata is not None:
            is_unsent = metadata.source != peer.replica and metadata.change > confirmed
            if is_unsent and MergeProtection.DEFERRAL not in without:
                deferred.append(rowguid)
                continue
            del node.metadata[artid][rowguid]
            node.raise_floor(artid, metadata)
        applied += node.rows[artid].pop(rowguid, None) is not None
    return applied, deferred
