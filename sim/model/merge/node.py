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

from twopc.merge.articles import DEFAULT_OPTIONS, MergeOptions
from twopc.merge.decision import (
    CLIENT_PRIORITY,
    MergeDecision,
    RowVersion,
    Side,
    Verdict,
    decide,
    priority_of,
)
from twopc.merge.encounters import MergeEncounter
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
    name: str = "item"
    options: MergeOptions = DEFAULT_OPTIONS

    @property
    def names(self) -> tuple[str, ...]:
        """Of its columns, as resolvers see them."""
        return tuple(f"c{place}" for place in range(self.columns))


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
class Incoming:
    """A row that a neighbour has sent."""

    rowguid: UUID
    version: RowVersion
    writer: int
    values: Values | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailure:
    """A change of a neighbour that was not applied here."""

    rowguid: UUID
    origin: str
    sqlstate: str
    reason: str
    row: Values | None


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
    failures: dict[UUID, ModelFailure] = field(default_factory=dict)
    change: int = 0
    former: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for artid in self.articles:
            self.rows.setdefault(artid, {})
            self.metadata.setdefault(artid, {})
        if not self.generations:
            self._add(0)

    def _add(self, upto: int) -> None:
        generation = Generation(number=len(self.generations), guid=UUID(int=next(_drawn)))
        self.generations.append((generation, upto))

    # -- applications ------------------------------------------------------------------------------

    def write(self, artid: UUID, rowguid: UUID, values: Values | None) -> int:
        """An application's change of one row, None: its deletion; the version that the row got."""
        self.change += 1
        held, metadata = self.rows[artid].get(rowguid), self.metadata[artid].get(rowguid)
        before = metadata.version if metadata is not None else RowVersion(lineage={})
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
        peer = self.neighbours[neighbour]
        return Marks(
            replica=self.replica,
            neighbour=peer.replica,
            former=self.former,
            neighbour_former=peer.former,
            sent=peer.sent,
            received=peer.received,
            coming=peer.coming,
        )

    def close(self) -> Generation:
        """``merge_close``."""
        _, upto = self.generations[-1]
        if self.change > upto and any(
            metadata.change > upto for rows in self.metadata.values() for metadata in rows.values()
        ):
            self._add(self.change)
        return self.generations[-1][0]

    def knows(self, generation: Generation) -> bool:
        """``merge_knows``."""
        return any(each == generation for each, _ in self.generations)

    def rewind(self, neighbour: str) -> None:
        """``merge_rewind``: becomes another replica, after it was restored from a backup."""
        old, peer, replica = self.replica, self.neighbours[neighbour], next(_drawn)
        _, common = self.generations[peer.sent]
        self.former, self.replica = (*self.former, old), replica
        self.change += 1
        for rows in self.metadata.values():
            for rowguid, row in rows.items():
                if row.change > common and old in row.version.lineage:
                    rows[rowguid] = self._stamped_anew(row, old)
        self.begin_anew(neighbour, peer.replica)

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
        peer = self.neighbours[neighbour]
        if replica != peer.replica:
            peer.former = (*peer.former, peer.replica)
        numbers = {peer.replica, *peer.former}
        for rows in self.metadata.values():
            for rowguid, row in rows.items():
                if row.source in numbers:
                    rows[rowguid] = replace(row, source=None)
        peer.replica, peer.sent, peer.received, peer.coming = replica, 0, None, None

    def changed(
        self, artid: UUID, neighbour: str, after: int, upto: int
    ) -> dict[UUID, ModelMetadata]:
        """``msmerge_enumerate_<artid>``: what generations have changed that did not come from the neighbour."""
        low, high = self.generations[after][1], self.generations[upto][1]
        source = self.neighbours[neighbour].replica
        return {
            rowguid: metadata
            for rowguid, metadata in sorted(self.metadata[artid].items())
            if low < metadata.change <= high and metadata.source != source
        }

    def _priority(self, replica: int) -> float:
        """Of whoever wrote what is held."""
        return priority_of(
            replica,
            {
                number: each.server_priority
                for each in self.neighbours.values()
                for number in (each.replica, *each.former)
                if each.server_priority is not None
            },
        )

    def _decide(
        self, artid: UUID, neighbour: str, incoming: Incoming, choice: Side | None
    ) -> MergeDecision:
        peer, metadata = self.neighbours[neighbour], self.metadata[artid].get(incoming.rowguid)
        held = self.rows[artid].get(incoming.rowguid)
        writer = metadata.writer if metadata is not None else self.replica
        return decide(
            metadata.version if metadata is not None else None,
            incoming.version,
            replica=self.replica,
            resolves=not peer.is_publisher,
            column_tracking=self.articles[artid].column_tracking,
            held_priority=self._priority(writer),
            priority=CLIENT_PRIORITY if peer.server_priority is None else peer.server_priority,
            is_same=held == incoming.values,
            choice=choice,
            is_present=held is not None,
        )

    def encounter(self, artid: UUID, neighbour: str, incoming: Incoming) -> MergeEncounter:
        """``msmerge_hold_<artid>``, for one row."""
        peer, metadata = self.neighbours[neighbour], self.metadata[artid].get(incoming.rowguid)
        writer = metadata.writer if metadata is not None else self.replica
        writers = {
            number: name
            for name, each in self.neighbours.items()
            for number in (each.replica, *each.former)
        }
        names, held = self.articles[artid].names, self.rows[artid].get(incoming.rowguid)
        return MergeEncounter(
            table=self.articles[artid].name,
            rowguid=incoming.rowguid,
            at=self.name,
            is_upload=not peer.is_publisher,
            held=None if held is None else dict(zip(names, held, strict=True)),
            incoming=None
            if incoming.values is None
            else dict(zip(names, incoming.values, strict=True)),
            held_by=writers.get(writer, self.name),
            incoming_by=neighbour,
            held_priority=self._priority(writer),
            priority=CLIENT_PRIORITY if peer.server_priority is None else peer.server_priority,
            held_version=metadata.version if metadata is not None else None,
            incoming_version=incoming.version,
            default=self._decide(artid, neighbour, incoming, None),
        )

    def amend(self, artid: UUID, rowguid: UUID, row: Mapping[str, object]) -> None:
        """``msmerge_amend_<artid>``, for one row: an application's update of this node."""
        names, held = self.articles[artid].names, self.rows[artid][rowguid]
        pairs = zip(names, held, strict=True)
        self.write(artid, rowguid, tuple(row.get(name, value) for name, value in pairs))

    def take(
        self, artid: UUID, neighbour: str, incoming: Incoming, choice: Side | None = None
    ) -> MergeDecision:
        """``msmerge_take_<artid>``, for one row."""
        peer, rowguid = self.neighbours[neighbour], incoming.rowguid
        version, writer, values = incoming.version, incoming.writer, incoming.values
        metadata, held = self.metadata[artid].get(rowguid), self.rows[artid].get(rowguid)
        decision = self._decide(artid, neighbour, incoming, choice)
        if decision.verdict in (Verdict.SKIP, Verdict.DEFER):
            if decision.verdict is Verdict.DEFER and metadata is not None:
                self.touch(artid, rowguid, source=None)
            return decision
        if decision.conflict is not None:
            loser_row = held if decision.verdict is Verdict.REPLACE else values
            loser = (
                metadata.version
                if metadata is not None and decision.verdict is Verdict.REPLACE
                else version
            )
            self.conflicts.append(
                ModelConflict(
                    rowguid=rowguid, decision=decision, loser=loser_row, lineage=loser.lineage
                )
            )
        self._store(artid, rowguid, decision, held, values)
        self.change += 1
        keeper = (
            metadata.writer
            if metadata is not None and decision.verdict is Verdict.KEEP
            else self.replica
        )
        takes = decision.verdict in (Verdict.APPLY, Verdict.REPLACE)
        self.metadata[artid][rowguid] = ModelMetadata(
            change=self.change,
            version=decision.version,
            writer=writer if takes else keeper,
            source=peer.replica if decision.verdict is Verdict.APPLY else None,
        )
        return decision

    def _store(
        self,
        artid: UUID,
        rowguid: UUID,
        decision: MergeDecision,
        held: Values | None,
        values: Values | None,
    ) -> None:
        if decision.verdict is Verdict.KEEP:
            return
        if decision.version.gone:
            self.rows[artid].pop(rowguid, None)
        elif decision.verdict is Verdict.MERGE and held is not None and values is not None:
            pairs = zip(held, values, decision.taken or (False,) * len(held), strict=True)
            self.rows[artid][rowguid] = tuple(
                second if take else first for first, second, take in pairs
            )
        elif values is not None:
            self.rows[artid][rowguid] = values

    def touch(self, artid: UUID, rowguid: UUID, *, source: int | None) -> None:
        """Have a row belong to the next generation, if a closed one holds it."""
        metadata = self.metadata[artid][rowguid]
        if metadata.change <= self.generations[-1][1]:
            self.change += 1
            self.metadata[artid][rowguid] = replace(metadata, change=self.change, source=source)
