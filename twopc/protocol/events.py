"""Events: the inputs of `Coordinator.receive` and `Participant.receive`.

Events are values without behaviour. They hold no gid and no connection: a machine stands for one global transaction
(or one branch of it), and the driver knows which. Events may be reused: a driver is free to keep one
``VotedYes(participant="pub")`` for all its transactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from twopc.protocol.effects import Outcome, Record, Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events."""

    remote: ClassVar[bool] = False
    """Whether the peer sent the event, so that an unexpected one raises `RemoteProtocolError`."""


# -- from the application, to the coordinator ------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin(Event):
    """The global transaction begins."""

    participants: tuple[str, ...]
    """Names of the branches, in the order in which they are asked to vote and finished.

    With the variant *last agent*, the last branch is the agent.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAsked(Event):
    """The application asks for commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortAsked(Event):
    """The application asks for abort; no effect once the decision is being logged."""

    reason: str = ""


# -- about the machine's own log, to either machine ------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged(Event):
    """The record of a forced `Log` effect is durable. Never reported for an unforced one."""

    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFailed(Event):
    """The record of a forced `Log` effect was certainly not written and never will be."""

    record: Record
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogUnknown(Event):
    """Whether the record of a forced `Log` effect was written is unknown, for example after a lost connection."""

    record: Record
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFound(Event):
    """Answer to `ReadBack`: the record is durable."""

    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMissing(Event):
    """Answer to `ReadBack`: the record is not in the log and can no longer be added.

    A read that does not find the record is not enough, because a slow write may still complete. A driver that
    reports this event has inserted the record's key itself, or knows that the writer has ended.
    """

    record: Record


# -- from a participant, to the coordinator --------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class VotedYes(Event):
    """The branch is durably prepared. On PostgreSQL: the command tag was ``PREPARE TRANSACTION``."""

    remote: ClassVar[bool] = True
    participant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VotedNo(Event):
    """The branch was rolled back instead of prepared, and no trace of it is left."""

    remote: ClassVar[bool] = True
    participant: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VotedReadOnly(Event):
    """The branch changed nothing and has ended; the outcome does not affect it."""

    remote: ClassVar[bool] = True
    participant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteUnknown(Event):
    """No vote will arrive, for example because the connection is lost; the branch may be prepared.

    The event counts as a no, and the participant is fenced. The last agent may have committed.
    """

    participant: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchCommitted(Event):
    """The branch is durably committed (on its synchronous standby too, if one is configured)."""

    remote: ClassVar[bool] = True
    participant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchAborted(Event):
    """The branch is rolled back and can never be prepared again."""

    remote: ClassVar[bool] = True
    participant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AckLost(Event):
    """No acknowledgement will arrive for the last message; the timer will send the message again."""

    participant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquired(Event):
    """A prepared branch asks for the outcome."""

    remote: ClassVar[bool] = True
    participant: str


# -- time, to either machine -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(Event):
    """The time set by `SetTimer` has come. A late or repeated event has no effect."""

    name: Timer


# -- to a participant ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkBegun(Event):
    """The branch begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrote(Event):
    """The branch changed something. On PostgreSQL: it has a transaction id (``xid``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFailed(Event):
    """The branch failed and can only be rolled back, even if the application ignored the error."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareAsked(Event):
    """The coordinator asks for the vote."""

    remote: ClassVar[bool] = True
    participants: tuple[str, ...]
    """All branches of the global transaction, recorded so that peers can be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideAsked(Event):
    """The coordinator delegates the decision to this branch, the last agent, which commits in one phase."""

    remote: ClassVar[bool] = True
    participants: tuple[str, ...]
    """The prepared branches that wait for the decision; empty for a plain commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitTold(Event):
    """The decision is commit."""

    remote: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTold(Event):
    """The decision is abort."""

    remote: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceTold(Event):
    """Abort, ensure that a prepare in progress cannot take effect later, and report the branch's outcome.

    A last agent that has committed reports the commit, and stays committed.
    """

    remote: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedByHand(Event):
    """An operator finished a prepared branch without the coordinator (a *heuristic* outcome)."""

    outcome: Outcome
