"""What can happen to a protocol machine: the inputs of `Coordinator.receive` and `Participant.receive`.

Events are values without behaviour. They know no gid and no connection: a machine stands for one
global transaction (or one branch of it), and whoever drives it knows which. They may be reused:
a driver is free to keep one ``VotedYes(participant="pub")`` for all its transactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from twopc.protocol.effects import Outcome, Record, Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Base of all events."""

    remote: ClassVar[bool] = False
    """True: sent by the peer, so that one out of place is a `RemoteProtocolError`."""


# -- from the application, to the coordinator ------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin(Event):
    """The global transaction begins."""

    participants: tuple[str, ...]
    """The branches' names, in the order in which they are asked and finished.

    Under *last agent* the last one is the agent.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitAsked(Event):
    """The application asks for commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortAsked(Event):
    """The application gives up; without effect once the decision is being logged."""

    reason: str = ""


# -- about the machine's own log, to either machine ------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Logged(Event):
    """The record of a forced `Log` effect is durable. Never reported for an unforced one."""

    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFailed(Event):
    """The record of a forced `Log` effect surely was not written and never will be."""

    record: Record
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogUnknown(Event):
    """Whether the record was written is not known, for example after a lost connection."""

    record: Record
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFound(Event):
    """Answer to `ReadBack`: the record is durable."""

    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class LogMissing(Event):
    """Answer to `ReadBack`: the record is not there and can no longer get there.

    Not to have seen it is not enough, since a slow write may still land. Whoever reports this has
    taken the record's key itself, or knows that the writer is gone.
    """

    record: Record


# -- from a participant, to the coordinator --------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class VotedYes(Event):
    """The branch is prepared and durable. On PostgreSQL: the tag was ``PREPARE TRANSACTION``."""

    remote: ClassVar[bool] = True
    participant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VotedNo(Event):
    """The branch was rolled back instead of prepared, and nothing of it is left."""

    remote: ClassVar[bool] = True
    participant: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class VotedReadOnly(Event):
    """The branch changed nothing and has ended; the outcome is the same to it."""

    remote: ClassVar[bool] = True
    participant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VoteUnknown(Event):
    """No vote will come, for example because the connection is lost; the branch may be prepared.

    Counts as a no, but that participant is fenced. For the last agent: it may have committed.
    """

    participant: str
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchCommitted(Event):
    """The branch is committed, durably (on its synchronous standby too, where one is named)."""

    remote: ClassVar[bool] = True
    participant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchAborted(Event):
    """The branch is rolled back and can never be prepared again."""

    remote: ClassVar[bool] = True
    participant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AckLost(Event):
    """No acknowledgement will come for what was last sent; the timer will send it again."""

    participant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquired(Event):
    """A prepared branch asks for the outcome."""

    remote: ClassVar[bool] = True
    participant: str


# -- time, to either machine -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class TimerFired(Event):
    """The time asked for by `SetTimer` has come. One that comes late, or twice, does no harm."""

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
    """The branch failed, and nothing but its rollback is left. A swallowed error fails it too."""

    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareAsked(Event):
    """The coordinator asks for the vote."""

    remote: ClassVar[bool] = True
    participants: tuple[str, ...]
    """All branches of the global transaction, recorded so that they can be asked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DecideAsked(Event):
    """The coordinator hands the decision to this, the last agent: commit in one phase."""

    remote: ClassVar[bool] = True
    participants: tuple[str, ...]
    """The prepared branches that wait for the decision; empty: a plain commit."""


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
    """Abort, and make sure that a prepare still under way cannot survive; tell how it stands.

    A last agent that has committed answers so, and stays committed.
    """

    remote: ClassVar[bool] = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedByHand(Event):
    """An operator finished a prepared branch without the coordinator (a *heuristic* outcome)."""

    outcome: Outcome
