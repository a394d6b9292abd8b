"""Values that a merge node in memory holds."""

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
    """A merged table."""

    columns: int
    column_tracking: bool = False
    parents: tuple[UUID, ...] = ()
    name: str = "item"
    options: MergeOptions = DEFAULT_OPTIONS
    column_names: tuple[str, ...] = ()
    """Names of the columns; empty for default names."""
    has_ranges: bool = False
    """See `SessionArticle`."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, as resolvers see them."""
        return self.column_names or tuple(f"c{place}" for place in range(self.columns))


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMetadata:
    """The metadata of a changed row."""

    change: int
    """Number of the last change of the row."""
    version: RowVersion
    writer: int
    """Replica that wrote the row's present values."""
    source: int | None = None
    """Neighbour from which the row came; None if it was changed here."""

    def stamped_anew(self, old: int, replica: int, change: int) -> ModelMetadata:
        """Return the metadata after another change, by a replica that was `old` before it was restored."""
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
    """Another node, as this node knows it."""

    replica: int
    is_publisher: bool
    server_priority: float | None = None
    """Priority of a server subscription; None for a client subscription, or the Publisher."""
    former: tuple[int, ...] = ()
    """Numbers of replicas that the neighbour used to be."""
    sent: int = 0
    received: Generation | None = None
    coming: Generation | None = None
    behind: tuple[ServerSubscription, ...] = ()
    """Server subscriptions below the neighbour."""
    known_from: int = 0
    """See `Marks`."""
    cleaned: int = 0
    """Of the Publisher: generation up to which it has forgotten metadata."""
    last_session_s: float = 0.0
    """Of a Subscriber: time of its last complete session, or of its initialisation."""
    partition: int | None = None
    """Partition of a Subscriber; None if nothing is filtered."""
    ranges_known: bool = True
    """Of a Subscriber: whether it has reported its identity ranges since this node was restored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelGeneration:
    """A closed generation."""

    generation: Generation
    upto: int
    """Last change in the generation."""
    closed_s: float
    known_by: int | None = None
    """See `ClosedGeneration`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutgoing:
    """A row to be sent to a neighbour."""

    rowguid: UUID
    metadata: ModelMetadata | None
    """Metadata; None if there is none."""
    values: Values | None
    """Values; None if the row is deleted, or leaves the partition."""
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
    """A neighbour's change that could not be applied here."""

    rowguid: UUID
    origin: str
    sqlstate: str
    reason: str
    row: Values | None
    is_pending: bool
    """Whether the change is sent again in each session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConflict:
    """A recorded conflict."""

    id: UUID
    artid: UUID
    rowguid: UUID
    decision: MergeDecision
    loser: Values | None
    """Row that lost; None if it was deleted."""
    lineage: Mapping[int, int]
    """Lineage of the losing version."""
    recipient: str | None = None
    """Subscriber at which the conflict must still be recorded, if any."""
