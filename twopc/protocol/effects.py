"""What a protocol machine asks for: the outputs of `receive`, in the order they are to be performed.

A `Log` stands before every `Send` that depends on it. After a forced one the machine waits for
`Logged`; an unforced one needs no report. A crash may cut a tuple of effects after any of them.

Effects are values: they name a participant, never a connection, and the driver knows the gid.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

#: To whom a participant sends. No branch can be named so.
COORDINATOR: Final = ""


class Outcome(StrEnum):
    """How a global transaction, or a branch of it, ended."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    READ_ONLY = "read_only"
    """Of a branch only: it changed nothing."""
    IN_DOUBT = "in_doubt"
    """Of an answer to the application only: it may have committed, and will be settled later."""


class Timer(StrEnum):
    """Names of timers; a machine has at most one of each."""

    VOTE = "vote"
    """Coordinator: not all votes are in."""
    RESEND = "resend"
    """Coordinator: an answer to what was sent is missing."""
    INQUIRY = "inquiry"
    """Participant: prepared and not told the decision."""
    IDLE = "idle"
    """Participant: unprepared and left alone."""


class Message(StrEnum):
    """What machines say to each other."""

    PREPARE = "prepare"
    DECIDE = "decide"
    COMMIT = "commit"
    ABORT = "abort"
    FENCE = "fence"
    """Abort, where the branch may be preparing, prepared, or not there at all."""

    VOTE_YES = "vote_yes"
    VOTE_NO = "vote_no"
    VOTE_READ_ONLY = "vote_read_only"
    COMMITTED = "committed"
    ABORTED = "aborted"
    INQUIRE = "inquire"


class RecordKind(StrEnum):
    """Kinds of records in the logs of coordinator and participant."""

    COLLECTING = "collecting"
    """Coordinator, presumed commit: these participants are about to be asked."""
    COMMIT = "commit"
    """Coordinator: the decision."""
    ABORT = "abort"
    """Coordinator: the decision, where abort is not presumed."""
    END = "end"
    """Coordinator: every participant is settled; what the log holds may be forgotten."""
    PREPARED = "prepared"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One record of a log, under the gid that the driver knows."""

    kind: RecordKind
    participants: tuple[str, ...] = ()
    """Whom it concerns; of ``COMMIT`` those that are prepared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """Base of all effects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Log(Effect):
    """Write a record to the machine's log."""

    record: Record
    forced: bool
    """True: make it durable and report `Logged`, `LogFailed` or `LogUnknown`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBack(Effect):
    """Find out whether a record was written; report `LogFound` or `LogMissing` (read both)."""

    record: Record


@dataclass(frozen=True, slots=True, kw_only=True)
class Send(Effect):
    """Send a message."""

    to: str
    """A participant's name, or `COORDINATOR`."""
    message: Message
    participants: tuple[str, ...] = ()
    """With ``PREPARE`` all branches, with ``DECIDE`` those that wait for the decision."""
    reason: str = ""
    """With ``VOTE_NO``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetTimer(Effect):
    """Report `TimerFired` at a time; replaces the machine's timer of the same name."""

    name: Timer
    at: float
    """Seconds, on the clock whose reading is passed to `receive`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelTimer(Effect):
    """That timer is no longer wanted."""

    name: Timer


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish(Effect):
    """Tell the application the outcome; comes at most once."""

    outcome: Outcome
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage(Effect):
    """Report that a branch ended otherwise than decided: somebody finished it by hand.

    The decision is not forgotten then, as evidence.
    """

    participant: str
    decided: Outcome
    actual: Outcome


NOTHING: Final[tuple[Effect, ...]] = ()


# A coordinator has few sets of participants, and thousands of transactions a second over them.


@lru_cache(maxsize=4096)
def record_of(kind: RecordKind, participants: tuple[str, ...] = ()) -> Record:
    """That record, built once."""
    return Record(kind=kind, participants=participants)


@lru_cache(maxsize=4096)
def log(kind: RecordKind, participants: tuple[str, ...] = (), *, forced: bool) -> Log:
    """That effect, built once."""
    return Log(record=record_of(kind, participants), forced=forced)


@lru_cache(maxsize=4096)
def send(to: str, message: Message, participants: tuple[str, ...] = ()) -> Send:
    """That effect, built once."""
    return Send(to=to, message=message, participants=participants)


@lru_cache(maxsize=4096)
def send_all(
    names: tuple[str, ...], message: Message, participants: tuple[str, ...] = ()
) -> tuple[Send, ...]:
    """The same message to each of `names`, in that order."""
    return tuple([send(name, message, participants) for name in names])
