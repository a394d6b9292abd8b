"""Encounters of an incoming row with the held row, as resolvers and handlers see them, and the resolutions. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from twopc.merge.decision import ConflictType, MergeDecision, RowVersion, Side, Verdict

Row = Mapping[str, Any]
"""Values by column, without the column that identifies the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeEncounter:
    """An incoming row of an upload or a download, before anything is done with it.

    Values are those that psycopg returns; a value that Python cannot represent (a date of ``infinity``, a
    user-defined type) is text.
    """

    table: str
    rowguid: UUID
    at: str
    """The node at which the two rows meet."""
    is_upload: bool
    """Whether the row comes from a Subscriber: only then are conflicts resolved."""
    held: Row | None
    """The held row; None if there is none, or it was deleted."""
    incoming: Row | None
    """The incoming row; None if it was deleted."""
    held_by: str
    """The node that made the last change of the held row."""
    incoming_by: str
    """The node from which the incoming row comes."""
    held_priority: float
    priority: float
    held_version: RowVersion | None
    """Metadata of the held row; None if the row was never changed here."""
    incoming_version: RowVersion
    default: MergeDecision
    """The decision that applies without another resolution."""
    is_same: bool = False
    """Whether both rows have the same values, or both are deleted, so that only their lineages differ."""
    answer: object = None
    """Answer of the article's SQL resolver; an exception if the resolver failed."""

    @property
    def conflict(self) -> ConflictType | None:
        """The type of the conflict; None if there is none."""
        return self.default.conflict

    @property
    def winner(self) -> Side:
        """The row that is kept without another resolution."""
        return Side.HELD if self.default.verdict is Verdict.KEEP else Side.INCOMING

    @property
    def is_update_conflict(self) -> bool:
        """Whether two rows are in conflict, neither of them deleted."""
        return self.conflict is not None and self.held is not None and self.incoming is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """The resolution of an encounter."""

    winner: Side | None = None
    """The row that is kept; None for the default."""
    row: Row | None = None
    """Values that replace those of the kept row, as a change of the node where the rows meet."""


def checked(answer: object, encounter: MergeEncounter) -> Resolution | None:
    """Return the answer of a resolver or a handler, if it is valid.

    Raises:
        ValueError: the answer is not valid.
    """
    if answer is None:
        return None
    if not isinstance(answer, Resolution):
        raise ValueError(f"a Resolution or None is expected, not {answer!r}")
    if answer.row is None:
        return answer
    _, columns = standing(encounter, Side.HELD)
    if unknown := sorted(set(answer.row) - set(columns)):
        raise ValueError(f"{encounter.table} has no column {unknown[0]!r}")
    return answer


def standing(encounter: MergeEncounter, winner: Side) -> tuple[Side, Row]:
    """Return the row in which values are replaced: the winner's, or the other one if the winner's was deleted."""
    rows = {Side.HELD: encounter.held, Side.INCOMING: encounter.incoming}
    other = Side.INCOMING if winner is Side.HELD else Side.HELD
    for side in (winner, other):
        if (row := rows[side]) is not None:
            return side, row
    raise ValueError("there is no row to put values on: both are deleted")
