"""What an agent does in a session at the Subscriber, step by step: values, in the order of a transaction.

Pure. It must not know how a step is performed.
"""

from __future__ import annotations

from dataclasses import dataclass

from twopc.names import StreamId
from twopc.subscriber.distribution_agent.loads import StreamPart


@dataclass(frozen=True, slots=True)
class BeginBatch:
    """Begin a transaction, with the session's settings as the agent made them."""


@dataclass(frozen=True, slots=True)
class Move:
    """Move the position; refused (40001) if it is not where the agent believes it to be."""

    was: int
    becomes: int


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply commands in their order."""

    part: StreamPart
    exact: bool = False
    """One by one, even if all are of one kind."""


@dataclass(frozen=True, slots=True)
class ApplyNet:
    """Apply a net effect, in an order in which nothing is in the way of anything."""

    commands: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class CheckConstraints:
    """Check now what would be checked at the commit."""


@dataclass(frozen=True, slots=True)
class MakeDurable:
    """The transaction's commit waits until it is durable, whatever the profile says."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """Prepare the transaction."""

    gid: StreamId


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """Commit the transaction."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """Roll the transaction back; harmless outside of one."""


@dataclass(frozen=True, slots=True)
class FinishPrepared:
    """Finish a prepared transaction; a group of its own."""

    gid: StreamId
    commit: bool


Step = (
    BeginBatch
    | Move
    | Apply
    | ApplyNet
    | CheckConstraints
    | MakeDurable
    | Prepare
    | CommitBatch
    | Rollback
    | FinishPrepared
)
