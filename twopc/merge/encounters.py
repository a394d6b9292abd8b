"""An incoming row and what is held of it, as resolvers and handlers see them, and what they answer. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from twopc.merge.decision import ConflictType, MergeDecision, RowVersion, Side, Verdict

Row = Mapping[str, Any]
"""Values by column, without the one by which rows are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeEncounter:
    """A row that has come up or down, before anything is done with it.

    Values are those that psycopg reads; one that Python has no value for (a date of ``infinity``, a type of the
    user's) is text.
    """

    table: str
    rowguid: UUID
    at: str
    """The node where they meet."""
    is_upload: bool
    """It has come up from a Subscriber: only then conflicts are resolved."""
    held: Row | None
    """The row that is there; None: there is none, or it was deleted."""
    incoming: Row | None
    """The row that has come; None: it was deleted."""
    held_by: str
    """The node that has made the row what it is."""
    incoming_by: str
    """The node that it comes from."""
    held_priority: float
    priority: float
    held_version: RowVersion | None
    """None: the row was never changed here."""
    incoming_version: RowVersion
    default: MergeDecision
    """What becomes of it if nobody says otherwise."""
    is_same: bool = False
    """Both rows have the same values, or both are deleted: only what they stand on differs."""
    answer: object = None
    """What the article's SQL resolver has said of it; an exception if it failed."""

    @property
    def conflict(self) -> ConflictType | None:
        """The type of the conflict, None: there is none."""
        return self.default.conflict

    @property
    def winner(self) -> Side:
        """Whose row stays if nobody says otherwise."""
        return Side.HELD if self.default.verdict is Verdict.KEEP else Side.INCOMING

    @property
    def is_update_conflict(self) -> bool:
        """Two rows are in conflict, neither of them deleted."""
        return self.conflict is not None and self.held is not None and self.incoming is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What becomes of an encounter."""

    winner: Side | None = None
    """Whose row stays; None: as by default."""
    row: Row | None = None
    """Values that are put on top of that row, as a change of the node where they meet."""


def checked(answer: object, encounter: MergeEncounter) -> Resolution | None:
    """What a resolver or a handler has said, if it makes sense.

    Raises:
        ValueError: it does not.
    """
    if answer is None:
        return None
    if not isinstance(answer, Resolution):
        raise ValueError(f"a Resolution or None is expected, not {answer!r}")
    if answer.row is None:
        return answer
    columns = encounter.held if encounter.held is not None else encounter.incoming
    if columns is None:
        raise ValueError("there is no row to put values on: both are deleted")
    if unknown := sorted(set(answer.row) - set(columns)):
        raise ValueError(f"{encounter.table} has no column {unknown[0]!r}")
    return answer


def standing(encounter: MergeEncounter, winner: Side) -> tuple[Side, Row]:
    """The row on which values are put: the winner's, or the other one if the winner's was deleted."""
    rows = {Side.HELD: encounter.held, Side.INCOMING: encounter.incoming}
    other = Side.INCOMING if winner is Side.HELD else Side.HELD
    for side in (winner, other):
        if (row := rows[side]) is not None:
            return side, row
    raise ValueError("there is no row to put values on: both are deleted")
