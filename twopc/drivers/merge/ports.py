"""What a merge session needs of each of its two ends, whichever world they are in.

Every method may raise `psycopg.Error`, where nobody answers or the end refuses.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from twopc.merge.articles import DEFAULT_OPTIONS, MergeOptions
from twopc.merge.encounters import MergeEncounter
from twopc.merge.judge import Judge
from twopc.merge.marks import Generation, Marks, ServerSubscription
from twopc.merge.plan import Slice
from twopc.merge.ranges import AllottedRange, HeldValues, RangesHeld
from twopc.merge.schema_changes import SchemaChange


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionArticle:
    """What a session needs to know of an article."""

    name: str
    parents: tuple[UUID, ...]
    """The articles that it refers to."""
    columns: tuple[str, ...]
    """In the order of a row's values."""
    column_tracking: bool
    numbers: tuple[int, ...] = ()
    """Of each column, which of the column versions is its own; empty: as they stand."""
    options: MergeOptions = DEFAULT_OPTIONS
    is_filtered: bool = False
    """At the Publisher: not every Subscriber gets every row."""
    has_ranges: bool = False
    """Values of its identity column are drawn from ranges."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConflictRecord:
    """A conflict on its way from a Publisher's records to a Subscriber's; only the ends look into it."""

    id: UUID
    artid: UUID
    content: tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OutgoingChanges:
    """What a range of one end's generations has changed, read in the snapshot that ends it."""

    generation: Generation
    slices: Mapping[UUID, Sequence[Slice]]
    """By article, each in the order of `rowguid`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceOutcome:
    """What became of a slice."""

    applied: int = 0
    """Rows that were written."""
    skipped: int = 0
    """Rows of which all was known."""
    conflicts: int = 0
    deferred: Sequence[UUID] = ()
    """Rows that were left, because they have a change that must go up first."""
    rejected: int = 0
    """Rows that were not taken, and whose change is undone at the other end."""
    failed: Mapping[UUID, str] = field(default_factory=dict)
    """Rows that could not be written, each with the reason."""

    def __add__(self, later: SliceOutcome) -> SliceOutcome:
        """What became of both; what has failed at first is tried again, and only what fails later counts."""
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
    """What a session has done to one article, in one direction."""

    artid: UUID
    is_upload: bool
    rows: int = 0
    """Rows that were written."""
    deletes: int = 0
    """Those of them that went."""
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
    """Why it has failed."""


class MergeRangePort(Protocol):
    """One end of a session, as far as identity ranges go; only articles that have them are named."""

    async def ranges(self) -> Mapping[UUID, RangesHeld]:
        """At the Subscriber: what it has, by article."""
        ...

    async def knows_ranges(self, newest: Mapping[UUID, int]) -> bool | None:
        """At the Publisher: whether it has allotted these ranges to the neighbour, by article and first value.

        Returns:
            False if not: it was restored from a backup. None: that is known already, and the neighbour has not told yet
            what it holds.
        """
        ...

    async def ranges_held(self) -> Mapping[UUID, HeldValues]:
        """At the Subscriber: the values that it draws from, by article, and the highest that it has seen."""
        ...

    async def learn_ranges(
        self, held: Mapping[UUID, HeldValues]
    ) -> Mapping[UUID, Sequence[AllottedRange] | None]:
        """At the Publisher: enter ranges that it has allotted to the neighbour, and give no value that is among them.

        Returns:
            By article the ranges as it numbers them now; None: it has allotted some to another since it was restored.
        """
        ...

    async def note_ranges(self) -> None:
        """At the Publisher: the neighbour has told its ranges, and knows them by their present numbers."""
        ...

    async def withdraw_ranges(self, artid: UUID) -> None:
        """At the Subscriber: draw from the ranges that it has no more."""
        ...

    async def allot_ranges(self, artid: UUID, held: RangesHeld) -> Sequence[AllottedRange]:
        """At the Publisher: allot what is missing, in one commit, or repeat what has not arrived.

        None are allotted while the Publisher does not know what its Subscribers hold: it was restored from a backup.
        """
        ...

    async def receive_ranges(self, artid: UUID, allotted: Sequence[AllottedRange]) -> None:
        """At the Subscriber: take ranges that were allotted to it; idempotent."""
        ...


class MergeEndPort(MergeRangePort, Protocol):
    """One end of a session: a database, as an agent for one neighbour sees it."""

    name: str

    async def open(self, *, alone: bool) -> None:
        """Connect.

        Args:
            alone: no other agent may work for this neighbour (MergeError 21036 if one does).
        """
        ...

    async def close(self) -> None:
        """Idempotent."""
        ...

    async def marks(self) -> Marks:
        """How far it is with the neighbour."""
        ...

    async def knows(self, generation: Generation) -> bool:
        """Whether it has closed that generation."""
        ...

    async def rewind(self) -> None:
        """Take another number: this end was restored from a backup, and its neighbour knows what it has forgotten.

        What it has changed since the neighbour last confirmed anything may have versions that it has given before,
        to other changes: it is changed once more, by the new number. Its marks about the neighbour begin anew.
        """
        ...

    async def begin_anew(self, neighbour: int, cleaned: int) -> None:
        """Forget how far it is with the neighbour, which has this number now, and what came from there.

        Everything that was ever changed is compared in the session that follows, but for what the neighbour has
        forgotten: up to its generation `cleaned`, which this end had before.
        """
        ...

    async def introduce(self, servers: Sequence[ServerSubscription]) -> None:
        """At the Publisher: enter server subscriptions below the neighbour, in place of those entered before.

        None is believed to have a higher priority than the neighbour.
        """
        ...

    async def schema_changes(self) -> Sequence[SchemaChange]:
        """The schema changes that it has made, in order; rows travel from now on in the shape after the last."""
        ...

    async def alter(self, change: SchemaChange) -> None:
        """At the Subscriber: make the Publisher's next schema change in one commit, which also notes it."""
        ...

    async def articles(self) -> Mapping[UUID, SessionArticle]:
        """Its articles."""
        ...

    async def read(self, after: int, articles: Sequence[UUID]) -> OutgoingChanges:
        """Close a generation, and read what the neighbour does not have, in one transaction."""
        ...

    async def encounters(self, part: Slice, *, is_upload: bool) -> Sequence[MergeEncounter]:
        """The rows of a slice, and what is held of them, by themselves: nothing is locked afterwards."""
        ...

    async def apply(
        self, part: Slice, coming: Generation, judge: Judge | None = None
    ) -> SliceOutcome:
        """Apply rows of the neighbour's generation in one commit, which also notes that it has begun to arrive.

        Args:
            judge: is asked about every row, once it is locked; None: nobody is, and priorities decide.
        """
        ...

    async def receive(
        self, generation: Generation, repeated: Sequence[Slice], judges: Mapping[UUID, Judge]
    ) -> SliceOutcome:
        """Note that the neighbour's generation is here; in the same commit, try once more what has failed.

        What fails again is recorded as a conflict of type 5 to 10, and is undone at its origin if a judge says so.

        Args:
            judges: of articles that have one.
        """
        ...

    async def outgoing_conflicts(self) -> Sequence[ConflictRecord]:
        """Conflicts that are to be on record at the neighbour, a Subscriber, and are not yet."""
        ...

    async def log_conflicts(self, records: Sequence[ConflictRecord]) -> None:
        """Put them on record; idempotent."""
        ...

    async def release_conflicts(self, ids: Sequence[UUID]) -> None:
        """Note that they are on record at the neighbour; idempotent."""
        ...

    async def acknowledge(
        self, generation: Generation, missing: Mapping[UUID, Collection[UUID]]
    ) -> None:
        """Note that the neighbour has this end's generation, but for rows that failed there, or were left.

        Those are sent again, and their metadata is not removed before the neighbour has them.
        """
        ...

    async def end(self, record: SessionRecord) -> int:
        """At the Publisher: record a session; unless it has failed, forget what nobody needs any more.

        Returns:
            The generation up to which is forgotten what its generations have changed.
        """
        ...

    async def settle(self, generation: Generation, cleaned: int) -> None:
        """At the Subscriber, when a session is over: forget what the Publisher has forgotten.

        Args:
            generation: the Publisher's, which holds all that this end had sent before.
            cleaned: that up to which the Publisher has forgotten.
        """
        ...
