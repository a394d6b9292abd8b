"""A node that merges, in memory: rows, what is known of them, generations, and neighbours.

It writes down what the triggers and functions on servers do; decisions are those of `twopc.merge.decision`. A
transaction is one change, and takes effect at once: its number stands for the transaction id, and a generation is
the number of the last change that it holds. It knows no constraints.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from uuid import UUID

from twopc.merge.decision import (
    CLIENT_PRIORITY,
    MergeDecision,
    RowVersion,
    Verdict,
    decide,
    priority_of,
)
from twopc.merge.lineage import stamped
from twopc.merge.marks import Generation, Marks

Values = tuple[object, ...]

#: What servers draw: GUIDs of generations, and numbers of replicas that were restored.
_drawn = itertools.count(1000)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMergeArticle:
    """A table that is merged."""

    columns: int
    column_tracking: bool = False
    parents: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetadata:
    """What is known of a row that was changed."""

    change: int
    """The change that made it so."""
    version: RowVersion
    writer: int
    """The replica that has made the row what it is."""
    source: int | None = None
    """The neighbour that it came from; None: it was made here."""


@dataclass(slots=True, kw_only=True)
class ModelNeighbour:
    """Another node, as this one knows it."""

    replica: int
    is_publisher: bool
    server_priority: float | None = None
    """Of a server subscription; None: a client, or the Publisher."""
    former: tuple[int, ...] = ()
    """Replicas that it has been."""
    sent: int = 0
    received: Generation | None = None
    coming: Generation | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConflict:
    """A conflict that was resolved here."""

    rowguid: UUID
    decision: MergeDecision
    loser: Values | None
    """The row that has lost; None if it was deleted."""
    lineage: Mapping[int, int]
    """What the loser stood on."""


@dataclass(slots=True, kw_only=True)
class ModelMergeNode:
    """One database."""

    name: str
    replica: int
    articles: Mapping[UUID, ModelMergeArticle]
    rows: dict[UUID, dict[UUID, Values]] = field(default_factory=dict)
    metadata: dict[UUID, dict[UUID, ModelMetadata]] = field(default_factory=dict)
    generations: list[tuple[Generation, int]] = field(default_factory=list)
    """Each closed one at its number, with the last change that it holds."""
    neighbours: dict[str, ModelNeighbour] = field(default_factory=dict)
    conflicts: list[ModelConflict] = field(default_factory=list)
    change: int = 0
    former: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for artid in self.articles:
            self.rows.setdefault(artid, {})
            self.metadata.setdefault(artid, {})
        if not self.generations:
            self._add(0)

    def _add(self, upto: int) -> None:
        made = Generation(number=len(self.generations), guid=UUID(int=next(_drawn)))
        self.generations.append((made, upto))

    # -- applications ------------------------------------------------------------------------------

    def write(self, artid: UUID, rowguid: UUID, values: Values | None) -> int:
        """An application's change of one row, None: its deletion; the version that the row got."""
        self.change += 1
        held, known = self.rows[artid].get(rowguid), self.metadata[artid].get(rowguid)
        before = known.version if known is not None else RowVersion(lineage={})
        lineage = stamped(before.lineage, self.replica)
        stamp = (self.replica, lineage[self.replica])
        columns = before.columns
        if values is None:
            self.rows[artid].pop(rowguid)
        else:
            if self.articles[artid].column_tracking:
                columns = tuple(
                    stamp
                    if held is None or held[place] != value
                    else (columns or (None,) * len(values))[place]
                    for place, value in enumerate(values)
                )
            self.rows[artid][rowguid] = values
        self.metadata[artid][rowguid] = ModelMetadata(
            change=self.change,
            version=RowVersion(lineage=lineage, gone=values is None, columns=columns),
            writer=self.replica,
        )
        return lineage[self.replica]

    # -- sessions ----------------------------------------------------------------------------------

    def marks(self, neighbour: str) -> Marks:
        """``merge_hello``."""
        known = self.neighbours[neighbour]
        return Marks(
            replica=self.replica,
            neighbour=known.replica,
            former=self.former,
            neighbour_former=known.former,
            sent=known.sent,
            received=known.received,
            coming=known.coming,
        )

    def close(self) -> Generation:
        """``merge_close``."""
        _, upto = self.generations[-1]
        if self.change > upto and any(
            known.change > upto for rows in self.metadata.values() for known in rows.values()
        ):
            self._add(self.change)
        return self.generations[-1][0]

    def knows(self, generation: Generation) -> bool:
        """``merge_knows``."""
        return any(each == generation for each, _ in self.generations)

    def rewind(self, neighbour: str) -> None:
        """``merge_rewind``: becomes another replica, after it was restored from a backup."""
        old, known, replica = self.replica, self.neighbours[neighbour], next(_drawn)
        _, common = self.generations[known.sent]
        self.former, self.replica = (*self.former, old), replica
        self.change += 1
        for rows in self.metadata.values():
            for rowguid, row in rows.items():
                if row.change > common and old in row.version.lineage:
                    rows[rowguid] = self._stamped_anew(row, old)
        self.begin_anew(neighbour, known.replica)

    def _stamped_anew(self, row: ModelMetadata, old: int) -> ModelMetadata:
        others = {each: number for each, number in row.version.lineage.items() if each != old}
        top = max(row.version.lineage.values())
        stamp = (self.replica, top + 1)
        columns = row.version.columns and tuple(
            stamp if column is not None and column[0] == old else column
            for column in row.version.columns
        )
        version = replace(row.version, lineage={**others, self.replica: top + 1}, columns=columns)
        return replace(row, change=self.change, version=version, source=None)

    def begin_anew(self, neighbour: str, replica: int) -> None:
        """``merge_begin_anew``: forgets how far it is with a neighbour, and what came from there."""
        known = self.neighbours[neighbour]
        if replica != known.replica:
            known.former = (*known.former, known.replica)
        numbers = {known.replica, *known.former}
        for rows in self.metadata.values():
            for rowguid, row in rows.items():
                if row.source in numbers:
                    rows[rowguid] = replace(row, source=None)
        known.replica, known.sent, known.received, known.coming = replica, 0, None, None

    def changed(
        self, artid: UUID, neighbour: str, after: int, upto: int
    ) -> dict[UUID, ModelMetadata]:
        """``msmerge_enumerate_<artid>``: what generations have changed that did not come from the neighbour."""
        low, high = self.generations[after][1], self.generations[upto][1]
        source = self.neighbours[neighbour].replica
        return {
            rowguid: known
            for rowguid, known in sorted(self.metadata[artid].items())
            if low < known.change <= high and known.source != source
        }

    def take(
        self,
        artid: UUID,
        neighbour: str,
        rowguid: UUID,
        version: RowVersion,
        writer: int,
        values: Values | None,
    ) -> MergeDecision:
        """``msmerge_take_<artid>``, for one row."""
        peer, known = self.neighbours[neighbour], self.metadata[artid].get(rowguid)
        held = self.rows[artid].get(rowguid)
        servers = {
            replica: each.server_priority
            for each in self.neighbours.values()
            for replica in (each.replica, *each.former)
            if each.server_priority is not None
        }
        made = decide(
            known.version if known is not None else None,
            version,
            replica=self.replica,
            resolves=not peer.is_publisher,
            column_tracking=self.articles[artid].column_tracking,
            held_priority=priority_of(known.writer if known is not None else self.replica, servers),
            priority=CLIENT_PRIORITY if peer.server_priority is None else peer.server_priority,
            is_same=held == values,
        )
        if made.verdict in (Verdict.SKIP, Verdict.DEFER):
            if made.verdict is Verdict.DEFER and known is not None:
                self._touch(artid, rowguid, source=None)
            return made
        if made.conflict is not None:
            lost = held if made.verdict is Verdict.REPLACE else values
            loser = (
                known.version if known is not None and made.verdict is Verdict.REPLACE else version
            )
            self.conflicts.append(
                ModelConflict(rowguid=rowguid, decision=made, loser=lost, lineage=loser.lineage)
            )
        self._store(artid, rowguid, made, held, values)
        self.change += 1
        kept = known.writer if known is not None and made.verdict is Verdict.KEEP else self.replica
        takes = made.verdict in (Verdict.APPLY, Verdict.REPLACE)
        self.metadata[artid][rowguid] = ModelMetadata(
            change=self.change,
            version=made.version,
            writer=writer if takes else kept,
            source=peer.replica if made.verdict is Verdict.APPLY else None,
        )
        return made

    def _store(
        self,
        artid: UUID,
        rowguid: UUID,
        made: MergeDecision,
        held: Values | None,
        values: Values | None,
    ) -> None:
        if made.verdict is Verdict.KEEP:
            return
        if made.version.gone:
            self.rows[artid].pop(rowguid, None)
        elif made.verdict is Verdict.MERGE and held is not None and values is not None:
            pairs = zip(held, values, made.taken or (False,) * len(held), strict=True)
            self.rows[artid][rowguid] = tuple(
                theirs if take else ours for ours, theirs, take in pairs
            )
        elif values is not None:
            self.rows[artid][rowguid] = values

    def _touch(self, artid: UUID, rowguid: UUID, *, source: int | None) -> None:
        """Have a row belong to the next generation, if a closed one holds it."""
        known = self.metadata[artid][rowguid]
        if known.change <= self.generations[-1][1]:
            self.change += 1
            self.metadata[artid][rowguid] = replace(known, change=self.change, source=source)
