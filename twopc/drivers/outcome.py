"""From what happened to what the application is told: the exception for each outcome."""

from __future__ import annotations

from twopc.drivers.lean import Report
from twopc.errors import RejectedError, VoteError, from_sqlstate


def rejection(found: Report, *, gid: str, node: str) -> RejectedError:
    """The refusal that an error report stands for; the transaction is, or can only be, rolled back."""
    return from_sqlstate(
        found.sqlstate, found.message, detail=found.detail, hint=found.hint, node=node, gid=gid
    )


def refusal_at_commit(found: Report | None, reason: str, *, gid: str, node: str) -> RejectedError:
    """The refusal of a commit, once it is rolled back everywhere."""
    if found is None:
        return VoteError(f"rolled back at every site: {reason}", gid=gid, node=node)
    error = rejection(found, gid=gid, node=node)
    if type(error) is not RejectedError:
        return error
    message = found.message
    if found.sqlstate == "25P02":
        message = "an earlier statement had failed, and its error was not acted on"
    return VoteError(
        f"rolled back at every site: {message}",
        gid=gid,
        node=node,
        sqlstate=found.sqlstate,
        detail=found.detail,
        hint=found.hint,
    )
