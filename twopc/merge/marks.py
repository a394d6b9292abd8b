"""How far two neighbours are with each other's generations, and where a session goes on. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from twopc.errors import MergeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A closed generation of one node, as another names it."""

    number: int
    guid: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What one node has noted about a neighbour, in the commits of the rows that it is about."""

    replica: int
    """The node itself."""
    neighbour: int
    """The replica with which it has been in touch under that name."""
    sent: int = 0
    """The last generation of its own that the neighbour has confirmed."""
    received: Generation | None = None
    """The last of the neighbour's that it has as a whole."""
    coming: Generation | None = None
    """One of the neighbour's of which it has at least a part."""

    @property
    def seen(self) -> tuple[Generation, ...]:
        """Generations that the neighbour must know, or it was restored from before them."""
        return tuple(each for each in (self.received, self.coming) if each is not None)


def start(sender: Marks, receiver: Marks) -> int:
    """The generation after which the sender's changes are read (seed 001): the lower of the two marks.

    They differ if a session was cut off between the commits at the two ends. What arrives twice is known by its
    lineage.
    """
    received = receiver.received.number if receiver.received is not None else 0
    return min(sender.sent, received)


def check_acquaintance(name: str, marks: Marks, other_name: str, other: Marks) -> None:
    """Raise MergeError unless each node is the one that the other has been in touch with."""
    if marks.neighbour != other.replica or other.neighbour != marks.replica:
        raise MergeError(
            f"{other_name} is not the database that {name} has merged with: subscribe anew, or restore it"
        )


def check_memory(name: str, other_name: str, unknown: Generation | None) -> None:
    """Raise MergeError if a node does not know a generation of its own that its neighbour has.

    Changes that it had sent, and what it has written since under the same versions, could not be told apart.
    """
    if unknown is not None:
        raise MergeError(
            f"{name} was restored from a backup: {other_name} has its generation {unknown.number}, which it does "
            f"not know (21333). Make a new copy: unsubscribe and subscribe again"
        )
