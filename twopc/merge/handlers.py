"""Business-logic handlers, which an agent calls for every row of an article in a session. Pure.

A handler belongs to the agent, not to a database. It is called inside the transaction that writes the row, so it
should be quick; an exception that it raises makes that row a failed change, and has no other effect.
"""

from __future__ import annotations

from dataclasses import dataclass

from twopc.merge.decision import Side
from twopc.merge.encounters import MergeEncounter, Resolution, Row


@dataclass(frozen=True, slots=True)
class Accept:
    """Answer that accepts the incoming change."""


@dataclass(frozen=True, slots=True)
class Reject:
    """Answer that keeps the held row, and undoes the change where it was made."""


@dataclass(frozen=True, slots=True)
class Replace:
    """Answer that gives the row other values, at both ends; columns that are not named keep their values."""

    row: Row


Answer = Accept | Reject | Replace | None
"""Answer of a handler; None has the same effect as no handler."""


class MergeHandler:
    """Base class of handlers, whose methods do nothing: override the methods that are needed."""

    def session_begins(self, publisher: str, subscriber: str) -> None:
        """Called before any change is propagated; an exception ends the session."""

    def session_ends(self, publisher: str, subscriber: str) -> None:
        """Called after all changes were propagated; not called if the session ended early."""

    def row_inserted(self, encounter: MergeEncounter) -> Answer:
        """Called for a row that is not held and would be inserted."""

    def row_updated(self, encounter: MergeEncounter) -> Answer:
        """Called for a row that would replace the held row or be merged with it."""

    def row_deleted(self, encounter: MergeEncounter) -> Answer:
        """Called for a held row that would be deleted."""

    def update_conflict(self, encounter: MergeEncounter) -> Answer:
        """Called for a conflict of two updates; `Accept` lets the incoming row win, `Reject` the held row."""

    def delete_conflict(self, encounter: MergeEncounter) -> Answer:
        """Called for a conflict of an update and a deletion."""

    def failed_change(self, encounter: MergeEncounter, sqlstate: str, reason: str) -> Answer:
        """Called for a change that could not be applied, twice.

        `Accept` and None record the failure and retry the change in each session; `Reject` undoes the change where
        it was made; `Replace` tries a row with other values.
        """


def resolution(answer: object) -> Resolution | None:
    """Return the resolution that a handler's answer stands for.

    Raises:
        ValueError: the value is not an answer.
    """
    match answer:
        case None:
            return None
        case Accept():
            return Resolution(winner=Side.INCOMING)
        case Reject():
            return Resolution(winner=Side.HELD)
        case Replace(row=row):
            return Resolution(row=row)
        case _:
            raise ValueError(
                f"Accept(), Reject(), Replace(row) or None is expected, not {answer!r}"
            )


def asked(handler: MergeHandler, encounter: MergeEncounter) -> Answer:
    """Call the handler's method for an encounter, and return its answer."""
    if encounter.conflict is not None:
        if encounter.is_update_conflict:
            return handler.update_conflict(encounter)
        return handler.delete_conflict(encounter)
    if encounter.incoming is None:
        return handler.row_deleted(encounter) if encounter.held is not None else None
    if encounter.held is None:
        return handler.row_inserted(encounter)
    return handler.row_updated(encounter)
