"""Business-logic handlers: what an agent asks about every row of an article on its way. Pure.

A handler belongs to the agent, not to a database. It is asked inside the transaction that writes the row, so it
should be quick; whatever it raises makes that row a failed change, and ends nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from twopc.merge.decision import Side
from twopc.merge.encounters import MergeEncounter, Resolution, Row


@dataclass(frozen=True, slots=True)
class Accept:
    """The incoming change holds."""


@dataclass(frozen=True, slots=True)
class Reject:
    """What is held stays, and the change is undone where it was made."""


@dataclass(frozen=True, slots=True)
class Replace:
    """The row gets these values, at both ends; columns that are not named stay as they are."""

    row: Row


Answer = Accept | Reject | Replace | None
"""None: as without a handler."""


class MergeHandler:
    """A base class, of which each method does nothing: override those that matter."""

    def session_begins(self, publisher: str, subscriber: str) -> None:
        """Before anything travels; what it raises ends the session."""

    def session_ends(self, publisher: str, subscriber: str) -> None:
        """After all that has travelled; not called if the session ended early."""

    def row_inserted(self, encounter: MergeEncounter) -> Answer:
        """A row that is not held, and would be inserted."""

    def row_updated(self, encounter: MergeEncounter) -> Answer:
        """A row that would take the place of what is held, or be merged with it."""

    def row_deleted(self, encounter: MergeEncounter) -> Answer:
        """A row that is held, and would be deleted."""

    def update_conflict(self, encounter: MergeEncounter) -> Answer:
        """Two updates of a row; `Accept` lets the incoming one win, `Reject` what is held."""

    def delete_conflict(self, encounter: MergeEncounter) -> Answer:
        """An update and a deletion of a row."""

    def failed_change(self, encounter: MergeEncounter, sqlstate: str, reason: str) -> Answer:
        """A change that could not be applied, twice.

        `Accept` and None record it, and try it again in each session; `Reject` undoes it where it was made; `Replace`
        tries a row with other values.
        """


def resolution(answer: object) -> Resolution | None:
    """What a handler's answer means.

    Raises:
        ValueError: it is none.
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
    """What a handler says of an encounter."""
    if encounter.conflict is not None:
        if encounter.is_update_conflict:
            return handler.update_conflict(encounter)
        return handler.delete_conflict(encounter)
    if encounter.incoming is None:
        return handler.row_deleted(encounter) if encounter.held is not None else None
    if encounter.held is None:
        return handler.row_inserted(encounter)
    return handler.row_updated(encounter)
