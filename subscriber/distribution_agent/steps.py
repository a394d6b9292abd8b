"""Steps of an agent in a session at the Subscriber: values, in the order of a transaction.

Pure. The module must not know how a step is performed.
"""

from __future__ import annotations

from dataclasses import dataclass

from twopc.names import StreamId
from twopc.subscriber.distribution_agent.loads import StreamPart


@dataclass(frozen=True, slots=True)
class BeginBatch:
    """Begin a transaction, with the session settings that the agent chose at connecting."""


@dataclass(frozen=True, slots=True)
class Move:
    """Move the position; refused (40001) if the position is not the one that the agent expects."""

    was: int
    becomes: int


@dataclass(frozen=True, slots=True)
class Apply:
    """Apply commands in their order."""

    part: StreamPart
    exact: bool = False
    """Whether commands are applied one by one even if all are of one type."""


@dataclass(frozen=True, slots=True)
class ApplyNet:
    """Apply a net effect, in an order in which no operation is in the way of another."""

    commands: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class CheckConstraints:
    """Check deferred constraints now instead of at the commit."""


@dataclass(frozen=True, slots=True)
class MakeDurable:
    """Let the commit wait until the transaction is durable, whatever the profile says."""


@dataclass(frozen=True, slots=True)
class Prepare:
    """Prepare the transaction."""

    gid: StreamId


@dataclass(frozen=True, slots=True)
class CommitBatch:
    """Commit the transaction."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """Roll back the transaction; does nothing outside a transaction."""


@dataclass(frozen=True, slots=True)
class FinishPrepared:
    """Commit or roll back a prepared transaction; must be the only step of its group."""

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
