"""The decision about a row that a neighbour has sent: detection of conflicts, and the default resolver. Pure.

The SQL function that decides on servers is ``msrepl.merge_decide``; a test compares the two on drawn pairs.
Conflicts are resolved only at a Publisher, during an upload. In a download, a row that the Subscriber has changed
meanwhile is deferred: the change is uploaded in the next session.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum

from twopc.merge.lineage import Lineage, covers, joined, stamped

PUBLISHER_PRIORITY = 100.0
"""Priority of the Publisher's own changes, and of changes accepted from a client subscription."""
CLIENT_PRIORITY = 0.0
"""Priority of a client subscription's change until it is accepted: the first change to reach the Publisher wins."""

ColumnVersion = tuple[int, int]
"""Replica and version of a column's last change."""


class Verdict(StrEnum):
    """Action to take on an incoming row."""

    APPLY = "apply"
    """The incoming row includes every change of the held row, and replaces it."""
    SKIP = "skip"
    """The held row includes every change of the incoming row."""
    MERGE = "merge"
    """Different columns were changed: both changes take effect."""
    KEEP = "keep"
    """The held row stays: it has won, or both are deletions."""
    REPLACE = "replace"
    """The incoming row has won, and replaces the held row."""
    DEFER = "defer"
    """The Subscriber must first upload its change of the held row."""


class Side(StrEnum):
    """The row that is kept, as chosen by a resolver, a handler or an administrator."""

    HELD = "held"
    """The held row stays, even if the incoming row would have been applied: the change is undone at its origin."""
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
    """The metadata of a changed row."""

    lineage: Lineage
    gone: bool = False
    columns: tuple[ColumnVersion | None, ...] | None = None
    """For each column the version of its last change, None if it has none; None as a whole if columns are not
    tracked, or nothing is known.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeDecision:
    """The decision about an incoming row."""

    verdict: Verdict
    version: RowVersion
    """Metadata of the row after the decision."""
    conflict: ConflictType | None = None
    taken: tuple[bool, ...] = field(default=())
    """With MERGE: for each column, whether its value is taken from the incoming row."""


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
    """Return the decision about an incoming row.

    Args:
        held: metadata of the held row; None if the row was never changed at this replica.
        replica: this replica, which gives a version of its own to a combination of two rows.
        resolves: whether this is the Publisher, and the row is uploaded.
        held_priority: priority of the node that wrote the held row.
        priority: priority of the node that sends the row; the row wins only if this priority is the higher one.
        is_same: whether the two rows have the same values. Different values with the same lineage are a conflict,
            too: a replica that was restored from a backup has used a version twice.
        choice: the row to keep, if priorities do not decide.
        is_present: whether a row is held; ignored if metadata is held.
        is_confirmed: whether the sender is the Publisher and has confirmed the held row. The incoming row then
            replaces the held row, even if the sender has forgotten meanwhile which changes the row includes.
        lowest: the highest version that a row without metadata may have had.
        others: replicas whose changes the sender knows only through this replica.
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
    columns = _reverted_columns(winner, undone, stamp, is_whole=is_whole, is_known=not is_ahead)
    conflict = _type(winner, loser, column_tracking=column_tracking)
    return MergeDecision(
        verdict=Verdict.REPLACE if wins else Verdict.KEEP,
        version=RowVersion(lineage=lineage, gone=winner.gone, columns=columns),
        conflict=None if is_ahead or is_apart else conflict,
    )


def without_forgotten(
    incoming: RowVersion, held: Lineage, others: Collection[int], lowest: int
) -> RowVersion:
    """Return the row without column versions that this replica knew and has forgotten; the sender has them from
    here.

    If the row includes all changes of the held row, all column versions are kept, because columns are not compared.

    Args:
        held: lineage of the held row.
        others: replicas whose changes the sender knows only through this replica.
        lowest: the highest version that may be forgotten.
    """
    if incoming.columns is None or covers(incoming.lineage, held):
        return incoming
    columns = tuple(
        None if column and column[0] in others and column[1] <= lowest else column
        for column in incoming.columns
    )
    return replace(incoming, columns=columns)


def _reverted_columns(
    winner: RowVersion,
    undone: tuple[bool, ...],
    stamp: ColumnVersion,
    *,
    is_whole: bool,
    is_known: bool,
) -> tuple[ColumnVersion | None, ...] | None:
    """Return the winner's column versions, with a new version for each column that reverts the loser's change, so
    that nodes which have the loser's value receive the winner's.
    """
    before = winner.columns
    if before is None and (is_known or not undone):
        return None
    pairs = zip(_padded(before, len(undone)), undone, strict=True)
    return tuple(stamp if is_whole or is_undone else column for column, is_undone in pairs)


def priority_of(writer: int, servers: Mapping[int, float]) -> float:
    """Return the priority of a version that the Publisher holds.

    Args:
        writer: the replica that wrote the version.
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
    """Return the column versions, with None for columns that were added later."""
    held = columns or ()
    return (*held, *(None,) * (count - len(held)))


def unseen(one: RowVersion, other: RowVersion) -> tuple[bool, ...]:
    """Return for each column of `one` whether `other` does not include its last change."""
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
