"""Interfaces to the two nodes of a merge session, on servers and in the model.

Every method may raise `psycopg.Error`, if the node does not answer or refuses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from twopc.merge.articles import DEFAULT_OPTIONS, MergeOptions
from twopc.merge.encounters import MergeEncounter
from twopc.merge.judge import Fault, Judge
from twopc.merge.marks import Generation, Marks, ServerSubscription
from twopc.merge.plan import Slice
from twopc.merge.ranges import AllottedRange, HeldValues, RangesHeld
from twopc.merge.schema_changes import SchemaChange


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionArticle:
    """Properties of an article that a session needs."""

    name: str
    parents: tuple[UUID, ...]
    """The articles that it references."""
    columns: tuple[str, ...]
    """The columns in the order of a row's values."""
    column_tracking: bool
    numbers: tuple[int, ...] = ()
    """For each column the number of its column version; empty if the numbers follow the order of the columns."""
    options: MergeOptions = DEFAULT_OPTIONS
    is_filtered: bool = False
    """At the Publisher: whether some Subscribers get only some of the rows."""
    has_ranges: bool = False
    """Whether values of its identity column are drawn from ranges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictRecord:
    """A conflict sent from a Publisher's records to a Subscriber's; only the nodes interpret its content."""

    id: UUID
    artid: UUID
    content: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingChanges:
    """Changes of a range of generations of one node, read in the snapshot that ends the range."""

    generation: Generation
    slices: Mapping[UUID, Sequence[Slice]]
    """Slices by article, each in the order of `rowguid`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceOutcome:
    """Outcome of the rows of a slice."""

    applied: int = 0
    """Rows that were written."""
    skipped: int = 0
    """Rows whose changes were already known."""
    conflicts: int = 0
    deferred: Sequence[UUID] = ()
    """Rows that were not applied, because a change of them must be uploaded first."""
    rejected: int = 0
    """Rows that were rejected, and whose change is undone at the other node."""
    failed: Mapping[UUID, Fault] = field(default_factory=dict)
    """Rows that could not be written, each with the error."""

    def __add__(self, later: SliceOutcome) -> SliceOutcome:
        """Return the outcome of both; rows that failed first are retried, so only later failures count."""
        return SliceOutcome(
            applied=self.applied + later.applied,
            skipped=self.skipped + later.skipped,
            conflicts=self.conflicts + later.conflicts,
            deferred=(*self.deferred, *later.deferred),
            rejected=self.rejected + later.rejected,
            failed=later.failed,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleCounts:
    """Counts of a session for one article, in one direction."""

    artid: UUID
    is_upload: bool
    rows: int = 0
    """Rows that were written."""
    deletes: int = 0
    """Rows that were deleted, included in `rows`."""
    conflicts: int = 0
    deferred: int = 0
    retried: int = 0
    """Rows that could not be written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionRecord:
    """A session, as the Publisher records it."""

    articles: Sequence[ArticleCounts]
    resumed: bool
    anew: bool
    error: str | None = None
    """The error with which the session failed; None if it did not."""


class MergeRangePort(Protocol):
    """Interface to one node of a session for identity ranges; only articles that have ranges are named."""

    async def ranges(self) -> Mapping[UUID, RangesHeld]:
        """At the Subscriber: return the state of its ranges, by article."""
        ...

    async def knows_ranges(self, newest: Mapping[UUID, int]) -> bool | None:
        """At the Publisher: return whether it has allotted these ranges to the neighbour, given by article and
        first value.

        Returns:
            False if not, because it was restored from a backup. None if that is already known, and the neighbour
            has not reported its ranges yet.
        """
        ...

    async def ranges_held(self) -> Mapping[UUID, HeldValues]:
        """At the Subscriber: return the ranges from which it draws, by article, and the highest value that it has
        seen.
        """
        ...

    async def learn_ranges(
        self, held: Mapping[UUID, HeldValues]
    ) -> Mapping[UUID, Sequence[AllottedRange] | None]:
        """At the Publisher: record ranges that it has allotted to the neighbour, and never use their values.

        Returns:
            The ranges by article with their new numbers; None for an article of which it has allotted some to
            another Subscriber since it was restored.
        """
        ...

    async def note_ranges(self) -> None:
        """At the Publisher: record that the neighbour has reported its ranges, and knows their new numbers."""
        ...

    async def withdraw_ranges(self, artid: UUID) -> None:
        """At the Subscriber: stop drawing from its present ranges."""
        ...

    async def allot_ranges(self, artid: UUID, held: RangesHeld) -> Sequence[AllottedRange]:
        """At the Publisher: allot missing ranges, in one commit, or return allotments that were not received.

        No ranges are allotted while the Publisher does not know its Subscribers' ranges, because it was restored
        from a backup.
        """
        ...

    async def receive_ranges(self, artid: UUID, allotted: Sequence[AllottedRange]) -> None:
        """At the Subscriber: add ranges that were allotted to it; idempotent."""
        ...


class MergeEndPort(MergeRangePort, Protocol):
    """Interface to one node of a session, as an agent for one neighbour sees it."""

    name: str

    async def open(self, *, alone: bool) -> None:
        """Connect.

        Args:
            alone: whether no other agent may work for this neighbour (MergeError 21036 if one does).
        """
        ...

    async def close(self) -> None:
        """Close the connection; idempotent."""
        ...

    async def marks(self) -> Marks:
        """Return its marks about the neighbour."""
        ...

    async def knows(self, generation: Generation) -> bool:
        """Return whether it has closed that generation."""
        ...

    async def rewind(self) -> None:
        """Take another replica number: this node was restored from a backup, and its neighbour knows versions that
        it has lost.

        Rows that it has changed since the neighbour's last confirmation may have versions that it had used before,
        for other changes: these rows are changed once more, by the new number. Its marks about the neighbour are
        reset.
        """
        ...

    async def begin_anew(self, neighbour: int, cleaned: int) -> None:
        """Reset the marks about the neighbour, which has this replica number now, and the sources of rows that came
        from it.

        The following session compares all rows ever changed, except those of which the neighbour has removed
        metadata: up to its generation `cleaned`, which this node had received before.
        """
        ...

    async def introduce(self, servers: Sequence[ServerSubscription]) -> None:
        """At the Publisher: record server subscriptions below the neighbour, replacing those recorded before.

        Their priorities are limited to the neighbour's.
        """
        ...

    async def schema_changes(self) -> Sequence[SchemaChange]:
        """Return the schema changes that it has performed, in order; from now on rows are sent in the shape after
        the last.
        """
        ...

    async def alter(self, change: SchemaChange) -> None:
        """At the Subscriber: perform the Publisher's next schema change in one commit, which also records it."""
        ...

    async def articles(self) -> Mapping[UUID, SessionArticle]:
        """Return its articles."""
        ...

    async def read(self, after: int, articles: Sequence[UUID]) -> OutgoingChanges:
        """Close a generation, and read the changes that the neighbour does not have, in one transaction."""
        ...

    async def encounters(self, part: Slice, *, is_upload: bool) -> Sequence[MergeEncounter]:
        """Return the rows of a slice with the held rows, without keeping locks."""
        ...

    async def apply(
        self, part: Slice, coming: Generation, judge: Judge | None = None
    ) -> SliceOutcome:
        """Apply rows of the neighbour's generation in one commit, which also records that the generation has begun
        to arrive.

        Args:
            judge: judges every row once it is locked; None to decide by priorities.
        """
        ...

    async def receive(
        self, generation: Generation, repeated: Sequence[Slice], judges: Mapping[UUID, Judge]
    ) -> SliceOutcome:
        """Record that the neighbour's generation is complete; in the same commit, retry rows that have failed.

        A row that fails again is recorded as a conflict of type 5 to 10, and is undone at its origin if a judge
        decides so.

        Args:
            judges: judges by article, for articles that have one.
        """
        ...

    async def outgoing_conflicts(self) -> Sequence[ConflictRecord]:
        """Return conflicts that must be recorded at the neighbour, a Subscriber, and are not yet."""
        ...

    async def log_conflicts(self, records: Sequence[ConflictRecord]) -> None:
        """Record the conflicts; idempotent."""
        ...

    async def release_conflicts(self, ids: Sequence[UUID]) -> None:
        """Record that the neighbour has recorded these conflicts; idempotent."""
        ...

    async def acknowledge(
        self, generation: Generation, missing: Mapping[UUID, Collection[UUID]]
    ) -> None:
        """Record that the neighbour has this node's generation, except for rows that failed there or were deferred.

        Those rows are sent again, and their metadata is kept until the neighbour has them.
        """
        ...

    async def end(self, record: SessionRecord) -> int:
        """At the Publisher: record a session; unless it has failed, remove metadata that is no longer needed.

        Returns:
            The generation up to which metadata was removed.
        """
        ...

    async def settle(self, generation: Generation, cleaned: int) -> None:
        """At the Subscriber, when a session has ended: remove metadata that the Publisher has removed.

        Args:
            generation: the Publisher's generation, which includes all changes that this node had sent before.
            cleaned: the generation up to which the Publisher has removed metadata.
        """
        ...
