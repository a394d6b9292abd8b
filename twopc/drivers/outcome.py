"""The exception for each outcome of a transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twopc import forbidden
from twopc.drivers.lean import ServerReport
from twopc.errors import HeuristicError, InDoubtError, RejectedError, VoteError, from_sqlstate
from twopc.names import node_of
from twopc.protocol.effects import Outcome

if TYPE_CHECKING:
    from twopc.drivers.postgres import Driver
    from twopc.drivers.transaction import Transaction

#: SQLSTATEs with which the victim of a deadlock across servers fails, waiting over its link or at its own node.
VICTIM = frozenset(("40P01", "57014"))


def raise_unless_committed(transaction: Transaction, driver: Driver) -> None:
    """Raise the exception for the transaction's outcome, unless it is committed.

    Raises:
        HeuristicError: the nodes differ, because a branch was finished manually.
        RejectedError: the transaction was rolled back at every node.
        InDoubtError: the outcome is not known.
    """
    gid, failure, damage = transaction.gid, driver.failure, driver.damage
    if damage is not None:
        raise HeuristicError(
            f"{gid}: decided {damage.decided}, but {damage.participant} is {damage.actual}: that"
            " branch was finished by hand",
            gid=gid,
            node=node_of(damage.participant),
        )
    if driver.answer is Outcome.COMMITTED:
        return
    if driver.answer is not Outcome.ABORTED:
        raise InDoubtError(f"{gid}: {driver.reason}; recovery will settle it", gid=gid)
    part = transaction.at(driver.blamed)
    if part.cycle and failure is not None and failure.sqlstate in VICTIM:
        raise part.deadlock(failure)
    node = part.node_of(failure) if failure is not None else ""
    raise refusal_at_commit(failure, driver.reason, gid=gid, node=node)


def rejection(result: ServerReport, *, gid: str, node: str) -> RejectedError:
    """Return the exception for an error report; the transaction is, or can only be, rolled back."""
    return from_sqlstate(
        result.sqlstate, result.message, detail=result.detail, hint=result.hint, node=node, gid=gid
    )


def refusal_at_commit(
    result: ServerReport | None, reason: str, *, gid: str, node: str
) -> RejectedError:
    """Return the exception for a refused commit, once the transaction is rolled back at every node."""
    if result is None:
        message = f"rolled back at every site: {reason}"
        return VoteError(message, gid=gid, node=node, sqlstate="40000")
    error = rejection(result, gid=gid, node=node)
    if type(error) is not RejectedError:
        return error
    message = result.message
    if result.sqlstate == "25P02":
        message = "an earlier statement had failed, and its error was not acted on"
    return VoteError(
        f"rolled back at every site: {message}",
        gid=gid,
        node=node,
        sqlstate=result.sqlstate,
        detail=result.detail,
        hint=result.hint or forbidden.remedy(result.sqlstate, result.message),
    )
