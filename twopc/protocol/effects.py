"""Effects: the outputs of a protocol machine's `receive`, in the order in which the driver must perform them.

A `Log` precedes every `Send` that depends on it. After a forced `Log` the machine waits for `Logged`; an unforced
one needs no report. A crash may cut a tuple of effects after any of them.

Effects are values: they name a participant, never a connection, and the driver knows the gid.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

#: Address to which a participant sends. No branch can have this name.
COORDINATOR: Final = ""


class Outcome(StrEnum):
    """The way in which a global transaction, or a branch of one, ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    READ_ONLY = "read_only"
    """Of a branch only: the branch changed nothing."""
    IN_DOUBT = "in_doubt"
    """Of an answer to the application only: the transaction may have committed, and recovery will settle it."""


class Timer(StrEnum):
    """Names of timers; a machine has at most one of each."""

    VOTE = "vote"
    """Coordinator: limit for the arrival of all votes."""
    RESEND = "resend"
    """Coordinator: interval after which an unanswered message is sent again."""
    INQUIRY = "inquiry"
    """Participant: interval after which a prepared branch without a decision inquires."""
    IDLE = "idle"
    """Participant: limit for an unprepared branch that receives no message."""


class Message(StrEnum):
    """Messages between the machines."""

    PREPARE = "prepare"
    DECIDE = "decide"
    COMMIT = "commit"
    ABORT = "abort"
    FENCE = "fence"
    """Abort a branch that may be preparing, prepared, or not present at all."""

    VOTE_YES = "vote_yes"
    VOTE_NO = "vote_no"
    VOTE_READ_ONLY = "vote_read_only"
    COMMITTED = "committed"
    ABORTED = "aborted"
    INQUIRE = "inquire"


class RecordKind(StrEnum):
    """Kinds of records in the logs of coordinator and participants."""

    COLLECTING = "collecting"
    """Coordinator, presumed commit: the named participants are about to be asked for their votes."""
    COMMIT = "commit"
    """Coordinator: the decision to commit."""
    ABORT = "abort"
    """Coordinator: the decision to abort, where abort is not presumed."""
    END = "end"
    """Coordinator: every participant is settled; the records of the transaction may be forgotten."""
    PREPARED = "prepared"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a log, written under the gid that the driver knows."""

    kind: RecordKind
    participants: tuple[str, ...] = ()
    """The participants that the record concerns; for ``COMMIT``, the prepared ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Base of all effects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log(Effect):
    """Write a record to the machine's log."""

    record: Record
    forced: bool
    """Whether the driver must make the record durable and report `Logged`, `LogFailed` or `LogUnknown`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack(Effect):
    """Find out whether a record was written, and report `LogFound` or `LogMissing` (see their docstrings)."""

    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Send(Effect):
    """Send a message."""

    to: str
    """Name of a participant, or `COORDINATOR`."""
    message: Message
    participants: tuple[str, ...] = ()
    """With ``PREPARE``, all branches; with ``DECIDE``, the branches that wait for the decision."""
    reason: str = ""
    """With ``VOTE_NO``, the reason for the vote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTimer(Effect):
    """Report `TimerFired` at the given time; replaces the machine's timer of the same name."""

    name: Timer
    at: float
    """Time in seconds, on the clock whose reading is passed to `receive`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTimer(Effect):
    """Cancel the timer of the given name."""

    name: Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Effect):
    """Report the outcome to the application; emitted at most once."""

    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage(Effect):
    """Report that a branch was finished manually against the decision.

    The decision is then kept in the log, as evidence.
    """

    participant: str
    decided: Outcome
    actual: Outcome


NOTHING: Final[tuple[Effect, ...]] = ()


# A coordinator has few sets of participants, and thousands of transactions a second over them.


@lru_cache(maxsize=4096)
def record_of(kind: RecordKind, participants: tuple[str, ...] = ()) -> Record:
    """Return the `Record` with these fields; it is built once."""
    return Record(kind=kind, participants=participants)


@lru_cache(maxsize=4096)
def log(kind: RecordKind, participants: tuple[str, ...] = (), *, forced: bool) -> Log:
    """Return the `Log` effect with these fields; it is built once."""
    return Log(record=record_of(kind, participants), forced=forced)


@lru_cache(maxsize=4096)
def send(to: str, message: Message, participants: tuple[str, ...] = ()) -> Send:
    """Return the `Send` effect with these fields; it is built once."""
    return Send(to=to, message=message, participants=participants)


@lru_cache(maxsize=4096)
def send_all(
    names: tuple[str, ...], message: Message, participants: tuple[str, ...] = ()
) -> tuple[Send, ...]:
    """Return the effects that send one message to each of `names`, in that order."""
    return tuple([send(name, message, participants) for name in names])
