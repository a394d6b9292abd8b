"""How far two neighbours are with each other's generations, and where a session goes on. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from uuid import UUID

from twopc.errors import MergeError
from twopc.merge.schema_changes import NO_STEP, SchemaMark


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A closed generation of one node, as another names it."""

    number: int
    guid: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSubscription:
    """A server subscription, as a republisher names it to its own Publisher."""

    name: str
    replicas: tuple[int, ...]
    """Those that the node has been, and at last that which it is."""
    priority: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What one node has noted about a neighbour, in the commits of the rows that it is about."""

    replica: int
    """The node itself."""
    neighbour: int
    """The replica with which it has been in touch under that name."""
    former: tuple[int, ...] = ()
    """Replicas that the node has been: it takes another number if it was restored from a backup."""
    neighbour_former: tuple[int, ...] = ()
    """Replicas that the neighbour has been, as far as the node knows."""
    sent: int = 0
    """The last generation of its own that the neighbour has confirmed."""
    received: Generation | None = None
    """The last of the neighbour's that it has as a whole."""
    coming: Generation | None = None
    """One of the neighbour's of which it has at least a part."""
    known_from: int = 0
    """Of a comparison that was begun anew and has received nothing yet: the neighbour's generation up to which the node
    had everything before."""
    cleaned: int = 0
    """What this generation of its own and those before it have changed is forgotten, but for the rows themselves."""
    servers: tuple[ServerSubscription, ...] = ()
    """Server subscriptions at the node, and below it."""
    behind: tuple[ServerSubscription, ...] = ()
    """Those that the neighbour has named, with no higher a priority than its own."""
    schema: SchemaMark = NO_STEP
    """The last schema change that the node has made."""
    is_expired: bool = False
    """The neighbour is a Subscriber that has had no session for too long."""

    @property
    def neighbour_generations(self) -> tuple[Generation, ...]:
        """Generations that the neighbour must know, or it was restored from before them."""
        return tuple(each for each in (self.received, self.coming) if each is not None)


def start(sender: Marks, receiver: Marks) -> int:
    """The generation after which the sender's changes are read (seed 001): the lower of the two marks.

    They differ if a session was cut off between the commits at the two ends. What arrives twice is known by its
    lineage.
    """
    received = receiver.received.number if receiver.received is not None else 0
    return min(sender.sent, received)


class Acquaintance(Enum):
    """What a node knows of the number that its neighbour has."""

    SAME = auto()
    RENAMED = auto()
    """The neighbour was restored from a backup, and has taken another number since."""
    REWOUND = auto()
    """The neighbour was restored to what it was before it took the number that is known."""


def acquaintance(name: str, marks: Marks, other_name: str, other: Marks) -> Acquaintance:
    """Whom `marks` are about, seen from `other`.

    Raises:
        MergeError: the other node is not, and never was, the one that they are about.
    """
    if marks.neighbour == other.replica:
        return Acquaintance.SAME
    if other.replica in marks.neighbour_former:
        return Acquaintance.REWOUND
    if {marks.neighbour, *marks.neighbour_former} & set(other.former):
        return Acquaintance.RENAMED
    raise MergeError(
        f"{other_name} is not the database that {name} has merged with: subscribe anew, or restore it"
    )


def introduced(
    servers: Iterable[ServerSubscription], priority: float
) -> tuple[ServerSubscription, ...]:
    """What a Publisher believes of the server subscriptions below a republisher.

    Args:
        priority: the republisher's own.
    """
    return tuple(replace(each, priority=min(each.priority, priority)) for each in servers)
