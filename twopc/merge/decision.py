"""What becomes of a row that a neighbour has sent: detection of conflicts, and the default resolver. Pure.

The SQL twin, which decides on servers, is ``msrepl.merge_decide``; a test compares the two on drawn pairs. Conflicts
are resolved at a Publisher alone, on the way up. On the way down a row that the Subscriber has changed meanwhile is
left: it goes up in the next session.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum

from twopc.merge.lineage import Lineage, covers, joined, stamped

PUBLISHER_PRIORITY = 100.0
"""Of the Publisher's own changes, and of what it has accepted from a client subscription."""
CLIENT_PRIORITY = 0.0
"""Of a client subscription's change until it is accepted: the first to the Publisher wins."""

ColumnVersion = tuple[int, int]
"""Replica and version of a column's last change."""


class Verdict(StrEnum):
    """What is done with an incoming row."""

    APPLY = "apply"
    """It stands on all that is held here: it takes its place."""
    SKIP = "skip"
    """All that it stands on is held here."""
    MERGE = "merge"
    """Different columns were changed: both changes hold."""
    KEEP = "keep"
    """What is held stays: it has won, or both are deletions."""
    REPLACE = "replace"
    """It has won, and takes the place of what is held."""
    DEFER = "defer"
    """It must go up first what is held here."""


class Side(StrEnum):
    """Whose row stays, by the choice of a resolver, a handler or an administrator."""

    HELD = "held"
    """What is held stays, also where the incoming row would have been applied: the change is undone at its origin."""
    INCOMING = "incoming"
    """The incoming row wins a conflict."""


class ConflictType(IntEnum):
    """Types of ``MSmerge_conflicts_info``."""

    UPDATE_UPDATE = 1
    UPDATE_UPDATE_COLUMN = 2
    DELETE_WINS = 3
    UPDATE_WINS = 4
    UPLOAD_INSERT_FAILED = 5
    DOWNLOAD_INSERT_FAILED = 6
    UPLOAD_DELETE_FAILED = 7
    DOWNLOAD_DELETE_FAILED = 8
    UPLOAD_UPDATE_FAILED = 9
    DOWNLOAD_UPDATE_FAILED = 10
    RESOLVED_BY_HAND = 11


@dataclass(frozen=True, slots=True, kw_only=True)
class RowVersion:
    """The metadata of a row that was changed."""

    lineage: Lineage
    gone: bool = False
    columns: tuple[ColumnVersion | None, ...] | None = None
    """For each column its last change, None: none; None as a whole: not tracked, or nothing known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeDecision:
    """What becomes of an incoming row."""

    verdict: Verdict
    version: RowVersion
    """The metadata of the row afterwards."""
    conflict: ConflictType | None = None
    taken: tuple[bool, ...] = field(default=())
    """For MERGE: which columns come from the incoming row."""


def decide(
    held: RowVersion | None,
    incoming: RowVersion,
    *,
    replica: int,
    resolves: bool,
    column_tracking: bool,
    held_priority: float,
    priority: float,
    is_same: bool = True,
    choice: Side | None = None,
    is_present: bool = True,
    is_confirmed: bool = False,
    lowest: int = 0,
    others: Collection[int] = (),
) -> MergeDecision:
    """What becomes of an incoming row.

    Args:
        held: what is known here; None: the row was never changed here.
        replica: this one; what it makes of two rows gets a version of its own.
        resolves: it is the Publisher, and the row comes up.
        held_priority: of whoever wrote what is held.
        priority: of whoever sends the row. It wins if it is higher; of two equal ones the first has won.
        is_same: the two rows have the same values. If they differ, and stand on the same changes, a replica that was
            restored from a backup has given a version twice: that is a conflict, too.
        choice: whose row stays, if it is not left to priorities.
        is_present: a row is held; of no account where something is known of it.
        is_confirmed: the sender is the Publisher, and has confirmed what is held. What it sends takes the place of
            that, even if it has forgotten meanwhile what the row stands on.
        lowest: a row of which nothing is known may have had versions up to this one.
        others: replicas of whose changes the sender knows from here alone.
    """
    floor = lowest if held is None else 0
    held = held or RowVersion(lineage={}, gone=not is_present)
    incoming = without_forgotten(incoming, held.lineage, others, lowest)
    is_ambiguous = held.lineage == incoming.lineage and not is_same
    if covers(held.lineage, incoming.lineage) and not is_ambiguous:
        return MergeDecision(verdict=Verdict.SKIP, version=held)
    is_ahead = covers(incoming.lineage, held.lineage) and not (is_ambiguous and resolves)
    is_ahead = is_ahead or (is_confirmed and not resolves)
    if is_ahead and choice is not Side.HELD:
        return MergeDecision(verdict=Verdict.APPLY, version=incoming)
    if not resolves and not is_ahead:
        return MergeDecision(verdict=Verdict.DEFER, version=held)
    lineage = stamped(joined(held.lineage, incoming.lineage), replica)
    lineage[replica] = max(lineage[replica], floor + 1)
    stamp = (replica, lineage[replica])
    of_held, of_incoming = unseen(held, incoming), unseen(incoming, held)
    is_apart = (
        column_tracking
        and not (is_ambiguous or held.gone or incoming.gone)
        and not any(a and b for a, b in zip(of_held, of_incoming, strict=True))
    )
    if is_apart and choice is not Side.HELD:
        merged = _chosen(held.columns, incoming.columns, of_incoming)
        version = RowVersion(lineage=lineage, columns=merged)
        return MergeDecision(verdict=Verdict.MERGE, version=version, taken=of_incoming)
    if held.gone and incoming.gone:
        return MergeDecision(verdict=Verdict.KEEP, version=replace(held, lineage=lineage))
    wins = priority > held_priority if choice is None else choice is Side.INCOMING
    winner, loser, undone = (incoming, held, of_held) if wins else (held, incoming, of_incoming)
    is_whole = loser.gone or is_ambiguous
    columns = _given_back(winner, undone, stamp, is_whole=is_whole, is_known=not is_ahead)
    conflict = _type(winner, loser, column_tracking=column_tracking)
    return MergeDecision(
        verdict=Verdict.REPLACE if wins else Verdict.KEEP,
        version=RowVersion(lineage=lineage, gone=winner.gone, columns=columns),
        conflict=None if is_ahead or is_apart else conflict,
    )


def without_forgotten(
    incoming: RowVersion, held: Lineage, others: Collection[int], lowest: int
) -> RowVersion:
    """A row without the column versions that were known here and are forgotten: its sender has them from here.

    If the row stands on all that is held, nothing is left out: there is nothing to compare columns for.

    Args:
        held: what the row stands on that is here.
        others: replicas of whose changes the sender knows from here alone.
        lowest: the highest version that may be forgotten.
    """
    if incoming.columns is None or covers(incoming.lineage, held):
        return incoming
    columns = tuple(
        None if column and column[0] in others and column[1] <= lowest else column
        for column in incoming.columns
    )
    return replace(incoming, columns=columns)


def _given_back(
    winner: RowVersion,
    undone: tuple[bool, ...],
    stamp: ColumnVersion,
    *,
    is_whole: bool,
    is_known: bool,
) -> tuple[ColumnVersion | None, ...] | None:
    """Columns that go back to what the winner has are changed once more, for whoever has seen the loser's."""
    before = winner.columns
    if before is None and (is_known or not undone):
        return None
    pairs = zip(_padded(before, len(undone)), undone, strict=True)
    return tuple(stamp if is_whole or is_undone else column for column, is_undone in pairs)


def priority_of(writer: int, servers: Mapping[int, float]) -> float:
    """The priority of a version that the Publisher holds.

    Args:
        writer: the replica that wrote it.
        servers: the priority of each server subscription, by replica.
    """
    return servers.get(writer, PUBLISHER_PRIORITY)


def _type(winner: RowVersion, loser: RowVersion, *, column_tracking: bool) -> ConflictType:
    if winner.gone:
        return ConflictType.DELETE_WINS
    if loser.gone:
        return ConflictType.UPDATE_WINS
    return ConflictType.UPDATE_UPDATE_COLUMN if column_tracking else ConflictType.UPDATE_UPDATE


def _padded(
    columns: tuple[ColumnVersion | None, ...] | None, count: int
) -> tuple[ColumnVersion | None, ...]:
    """With nothing for columns that were added since."""
    held = columns or ()
    return (*held, *(None,) * (count - len(held)))


def unseen(one: RowVersion, other: RowVersion) -> tuple[bool, ...]:
    """For each column of `one`, whether its last change is one that `other` does not stand on."""
    count = max(len(one.columns or ()), len(other.columns or ()))
    return tuple(
        column is not None and other.lineage.get(column[0], 0) < column[1]
        for column in _padded(one.columns, count)
    )


def _chosen(
    held: tuple[ColumnVersion | None, ...] | None,
    incoming: tuple[ColumnVersion | None, ...] | None,
    taken: tuple[bool, ...],
) -> tuple[ColumnVersion | None, ...]:
    pairs = zip(_padded(held, len(taken)), _padded(incoming, len(taken)), taken, strict=True)
    return tuple(second if is_taken else first for first, second, is_taken in pairs)
