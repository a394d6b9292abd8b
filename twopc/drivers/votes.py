"""Votes in the results of a message. A vote is a command tag, and nothing else.

``PREPARE TRANSACTION`` of a failed transaction succeeds, prepares nothing, and answers ``ROLLBACK``. Pure: results in, events out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from psycopg import pq

from twopc.drivers.lean import ServerReport, first_error
from twopc.protocol import events as e

#: SQLSTATE classes after which the Publisher may have prepared although its answer, or the link, reports an error.
_OPEN_CLASSES: Final = frozenset(("", "08", "53", "57", "58", "XX"))
_OPEN_STATES: Final = frozenset(("25P03", "25P04"))  # a session was ended by a timeout

# Events of the path that nearly every transaction takes, built once for each participant.
yes = lru_cache(maxsize=1024)(lambda name: e.VotedYes(participant=name))
read_only = lru_cache(maxsize=1024)(lambda name: e.VotedReadOnly(participant=name))
committed = lru_cache(maxsize=1024)(lambda name: e.BranchCommitted(participant=name))
aborted = lru_cache(maxsize=1024)(lambda name: e.BranchAborted(participant=name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballot:
    """The branches that vote, and the way in which they are asked."""

    publisher: str
    subscriber: str
    agent: bool
    """Whether the Subscriber was asked to commit in one phase, so that its answer is the decision."""
    work_results: int
    """Number of results before the votes."""


@lru_cache(maxsize=1024)
def ballot(publisher: str, subscriber: str, agent: bool, work_results: int) -> Ballot:
    """Return the `Ballot` with these fields; it is built once."""
    return Ballot(
        publisher=publisher, subscriber=subscriber, agent=agent, work_results=work_results
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Votes:
    """The votes of both branches, and the error report of a refusal."""

    publisher: e.Event
    subscriber: e.Event
    failure: ServerReport | None
    good: int
    """Number of results before the failure."""

    @property
    def is_alone(self) -> bool:
        """Whether the Subscriber's branch is prepared, and the Publisher has none."""
        return type(self.publisher) is e.VotedReadOnly and type(self.subscriber) is e.VotedYes


def read(ballot: Ballot, results: Sequence[pq.abc.PGresult], *, lost: str, unsynced: bool) -> Votes:
    """Return the votes, from the results of ``<work>; CALL prepare_publisher; PREPARE TRANSACTION``, or ``COMMIT;
    flush_log``.

    A server stops at the first error, so commands after an error were certainly not run; commands after a lost
    connection may have been.

    Args:
        ballot: the ballot of the message.
        results: the results that arrived.
        lost: reason why the connection is lost; empty if it is not.
        unsynced: whether the wait for a synchronous standby was interrupted.
    """
    asked = ballot.work_results
    good, failure = first_error(results, lost)
    refused = good < len(results)
    if good > asked:
        calls = results[asked].get_value(0, 0)
        publisher: e.Event = (
            read_only(ballot.publisher) if calls in (None, b"0") else yes(ballot.publisher)
        )
    elif ballot.agent and not refused:
        # Unknown, but relevant only if the agent has committed, which implies a yes.
        publisher = yes(ballot.publisher)
    elif refused and (good < asked or not _leaves_open(failure)):
        publisher = e.VotedNo(participant=ballot.publisher, reason=str(failure))
    else:
        publisher = e.VoteUnknown(participant=ballot.publisher, reason=str(failure))
    if good > asked + 1:
        unsynced |= ballot.agent and good == asked + 2
        subscriber, failure = tag_vote(ballot, results[asked + 1].command_status, unsynced)
    elif refused and not (lost and good == asked + 1):
        subscriber = e.VotedNo(participant=ballot.subscriber, reason=str(failure))
    else:
        subscriber = e.VoteUnknown(participant=ballot.subscriber, reason=str(failure))
    return Votes(publisher=publisher, subscriber=subscriber, failure=failure, good=good)


def tag_vote(
    ballot: Ballot, tag: bytes | None, unsynced: bool
) -> tuple[e.Event, ServerReport | None]:
    """Return the Subscriber's vote, or the agent's decision, from the command tag."""
    name = ballot.subscriber
    if tag != (b"COMMIT" if ballot.agent else b"PREPARE TRANSACTION"):
        failure = ServerReport(
            message=f"the transaction had failed before: the answer was {(tag or b'').decode()!r}",
            sqlstate="25P02",
        )
        return e.VotedNo(participant=name, reason=str(failure)), failure
    if unsynced:
        done = "committed" if ballot.agent else "prepared"
        failure = ServerReport(
            message=f"it is {done}, but perhaps not durable, or not on the synchronous standby"
        )
        return e.VoteUnknown(participant=name, reason=str(failure)), failure
    return committed(name) if ballot.agent else yes(name), None


def _leaves_open(failure: ServerReport | None) -> bool:
    return (
        failure is None or failure.sqlstate[:2] in _OPEN_CLASSES or failure.sqlstate in _OPEN_STATES
    )
