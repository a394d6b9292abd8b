"""Marks: how far two neighbours have received each other's generations, and where a session continues. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum, auto
from uuid import UUID

from twopc.errors import MergeError
from twopc.merge.schema_changes import NO_STEP, SchemaMark


@dataclass(frozen=True, slots=True, kw_only=True)
class Generation:
    """A closed generation of one node, as another node refers to it."""

    number: int
    guid: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSubscription:
    """A server subscription, as a republisher reports it to its own Publisher."""

    name: str
    replicas: tuple[int, ...]
    """The former replicas of the node, and last its present one."""
    priority: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """A node's record about a neighbour, written in the same commits as the rows concerned."""

    replica: int
    """Replica of the node itself."""
    neighbour: int
    """The neighbour's replica, as last known under that name."""
    former: tuple[int, ...] = ()
    """Former replicas of the node, which takes another number if it was restored from a backup."""
    neighbour_former: tuple[int, ...] = ()
    """Former replicas of the neighbour, as far as the node knows."""
    sent: int = 0
    """The node's last generation that the neighbour has confirmed."""
    received: Generation | None = None
    """The neighbour's last generation that the node has received completely."""
    coming: Generation | None = None
    """A generation of the neighbour of which the node has received at least a part."""
    known_from: int = 0
    """The neighbour's generation up to which the node had received everything before a comparison was restarted
    that has received nothing yet.
    """
    cleaned: int = 0
    """The node's last generation whose metadata was removed, with that of all earlier generations; the rows
    themselves are kept.
    """
    servers: tuple[ServerSubscription, ...] = ()
    """Server subscriptions at the node, and below it in the hierarchy."""
    behind: tuple[ServerSubscription, ...] = ()
    """Server subscriptions that the neighbour has reported, with a priority no higher than its own."""
    schema: SchemaMark = NO_STEP
    """The last schema change that the node has performed."""
    is_expired: bool = False
    """Whether the neighbour is a Subscriber that has had no session for too long."""

    @property
    def neighbour_generations(self) -> tuple[Generation, ...]:
        """Generations that the neighbour must know, unless it was restored from an earlier backup."""
        return tuple(each for each in (self.received, self.coming) if each is not None)


def start(sender: Marks, receiver: Marks) -> int:
    """Return the generation after which the sender's changes are read (seed 001): the lower of the two marks.

    The marks differ if a session was interrupted between the commits at the two ends. A row that arrives twice is
    recognised by its lineage.
    """
    received = receiver.received.number if receiver.received is not None else 0
    return min(sender.sent, received)


class Acquaintance(Enum):
    """Relation between the neighbour's replica number and the number that a node knows."""

    SAME = auto()
    RENAMED = auto()
    """The neighbour was restored from a backup, and has taken another number since."""
    REWOUND = auto()
    """The neighbour was restored to a state before it took the number that the node knows."""


def acquaintance(name: str, marks: Marks, other_name: str, other: Marks) -> Acquaintance:
    """Return the relation between the neighbour in `marks` and the node that `other` describes.

    Raises:
        MergeError: the other node is not, and never was, the neighbour in `marks`.
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
    """Return the server subscriptions below a republisher as its Publisher records them.

    Args:
        priority: the republisher's own.
    """
    return tuple(replace(each, priority=min(each.priority, priority)) for each in servers)
