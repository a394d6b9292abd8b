"""What a node that merges in memory holds, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from uuid import UUID

from twopc.merge.articles import DEFAULT_OPTIONS, MergeOptions
from twopc.merge.decision import MergeDecision, RowVersion
from twopc.merge.marks import Generation, ServerSubscription

Values = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMergeArticle:
    """A table that is merged."""

    columns: int
    column_tracking: bool = False
    parents: tuple[UUID, ...] = ()
    name: str = "item"
    options: MergeOptions = DEFAULT_OPTIONS
    column_names: tuple[str, ...] = ()
    """Empty: nobody has named them."""
    has_ranges: bool = False
    """See `SessionArticle`."""

    @property
    def names(self) -> tuple[str, ...]:
        """Of its columns, as resolvers see them."""
        return self.column_names or tuple(f"c{place}" for place in range(self.columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetadata:
    """The metadata of a row that was changed."""

    change: int
    """The change that made it so."""
    version: RowVersion
    writer: int
    """The replica that has made the row what it is."""
    source: int | None = None
    """The neighbour that it came from; None: it was made here."""

    def stamped_anew(self, old: int, replica: int, change: int) -> ModelMetadata:
        """The same, changed once more by a replica that was `old` before it was restored."""
        others = {each: number for each, number in self.version.lineage.items() if each != old}
        stamp = (replica, max(self.version.lineage.values()) + 1)
        columns = self.version.columns and tuple(
            stamp if column is not None and column[0] == old else column
            for column in self.version.columns
        )
        version = replace(self.version, lineage={**others, replica: stamp[1]}, columns=columns)
        return replace(self, change=change, version=version, source=None)


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
    behind: tuple[ServerSubscription, ...] = ()
    """Server subscriptions below it."""
    known_from: int = 0
    """See `Marks`."""
    cleaned: int = 0
    """Of the Publisher: the generation up to which it has forgotten what it knew."""
    last_session_s: float = 0.0
    """Of a Subscriber: when it had its last whole session, or began."""
    partition: int | None = None
    """Of a Subscriber; None: nothing is filtered."""
    ranges_known: bool = True
    """Of a Subscriber: it has told what identity ranges it holds since this node was restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGeneration:
    """A closed generation."""

    generation: Generation
    upto: int
    """The last change that it holds."""
    closed_s: float
    known_by: int | None = None
    """See `ClosedGeneration`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutgoing:
    """A row for a neighbour."""

    rowguid: UUID
    metadata: ModelMetadata | None
    """None: nothing is known of it."""
    values: Values | None
    """None: it is gone, or leaves."""
    leaves: bool = False
    """See `twopc.merge.plan.MergeRow`."""


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
    is_pending: bool
    """The change is sent again in each session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConflict:
    """A conflict on record."""

    id: UUID
    artid: UUID
    rowguid: UUID
    decision: MergeDecision
    loser: Values | None
    """The row that has lost; None if it was deleted."""
    lineage: Mapping[int, int]
    """What the loser stood on."""
    recipient: str | None = None
    """A Subscriber where it is to be on record, and is not yet."""
