"""The messages that request the votes, or ask whether a branch changed anything, over the application's session.

This module must not depend on the machine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from psycopg import pq

from twopc.drivers import votes
from twopc.drivers.lean import ServerReport, first_error
from twopc.drivers.points import Points
from twopc.drivers.ports import LeanPort
from twopc.drivers.sessions import refusal
from twopc.names import branch_gid, node_of
from twopc.protocol import events as e

_IS_READ_ONLY: Final = b"select pg_current_xact_id_if_assigned() is null"


def array(names: Sequence[str]) -> str:
    """Return an array literal; names contain no characters that need more than the quotes."""
    return "{" + ",".join(f'"{name}"' for name in names) + "}"


def question(
    gid: str,
    ballot: votes.Ballot,
    prove: Callable[[str, str, int], str],
    pid: int,
    branches: Sequence[str] = (),
) -> tuple[bytes, bytes]:
    """Return the request for the Publisher's vote, and the request for the Subscriber's.

    Args:
        gid: id of the global transaction.
        ballot: the branches that vote.
        prove: makes the proof of the vote, which names all branches; see `twopc.proof`.
        pid: process id of the session.
        branches: all branches, the Publisher's own first; only if there are several Subscribers.
    """
    named = ",".join(branches or (ballot.publisher, ballot.subscriber))
    proof = prove(f"vote {named}", gid, pid)
    more = f", '{array(branches)}'" if branches else ""
    call = f"call msrepl.prepare_publisher('{gid}', null, '{proof}'{more});".encode()
    if ballot.agent:
        return call, b"commit; select msrepl.flush_log()"
    return call, f"prepare transaction '{branch_gid(gid, ballot.subscriber)}'".encode()


def ask(
    points: Points, lean: LeanPort, ballot: votes.Ballot, first: bytes, last: bytes
) -> Awaitable[list[pq.abc.PGresult]]:
    """Request both votes in one message, and return the results.

    The last agent's decision is part of the message: the server runs COMMIT only if the procedure before it
    succeeded, which is the order that the machine requires and in which it gets the events. The agent's answer
    counts only once its commit is durable.

    While points are armed, two messages are sent, so that a fault can strike between them.
    """
    if not points.armed:
        return lean.run(first + last)
    return _ask_in_turn(points, lean, ballot, first, last)


async def _ask_in_turn(
    points: Points, lean: LeanPort, ballot: votes.Ballot, first: bytes, last: bytes
) -> list[pq.abc.PGresult]:
    reach, phase = points.reach, "commit" if ballot.agent else "prepare"
    await reach(f"coordinator.before_prepare({node_of(ballot.publisher)})")
    results = await lean.run(first)
    await reach(f"coordinator.after_prepare({node_of(ballot.publisher)})")
    await reach(f"coordinator.before_{phase}({ballot.subscriber})")
    if refusal(results, lean) is None:
        results += await lean.run(last)
    await reach(f"coordinator.after_{phase}({ballot.subscriber})")
    return results


async def ask_to_decide(
    lean: LeanPort, ballot: votes.Ballot, name: str
) -> tuple[e.Event, ServerReport | None]:
    """Have the only participant commit in one phase; return its decision, and the error report of a refusal."""
    results = await lean.run(b"commit")
    good, failure = first_error(results, lean.lost)
    if good:
        return votes.tag_vote(ballot, results[0].command_status, lean.unsynced)[0], failure
    vote = e.VotedNo if results else e.VoteUnknown
    return vote(participant=name, reason=str(failure)), failure


async def commit_what_read_only(lean: LeanPort) -> tuple[bool, ServerReport | None]:
    """Commit in one phase if nothing was changed.

    Returns whether the transaction has ended, and the error report of a failure; False if something was changed.
    """
    results = await lean.run(_IS_READ_ONLY)
    failure = refusal(results, lean)
    if failure is None:
        if results[0].get_value(0, 0) != b"t":
            return False, None
        results = await lean.run(b"commit")
        failure = refusal(results, lean)
    return True, failure
