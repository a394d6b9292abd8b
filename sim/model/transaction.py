"""A global transaction of an application in virtual time: the product's own, called with steps.

This module decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twopc.drivers.lean import ServerReport
from twopc.drivers.outcome import rejection
from twopc.drivers.transaction import Transaction
from twopc.sim.model.values import RequestLostError, SqlError, StatementResult, Steps


class ModelTransaction:
    """One global transaction of an application.

    Args:
        whole: a transaction of the coordinator's process, not begun.
    """

    def __init__(self, whole: Transaction) -> None:
        self.whole = whole

    @property
    def gid(self) -> str:
        """Gid; empty before the transaction has begun."""
        return self.whole.gid

    @property
    def pids(self) -> dict[str, int]:
        """Pids of its sessions, by Subscriber; 0 where it is not open."""
        return {part.subscriber: part.pid for part in self.whole.parts}

    def begin(self) -> Steps[None]:
        """Begin the transaction at every Subscriber. Raise RejectedError."""
        yield from self.whole.begin().__await__()

    def execute(
        self, text: str, params: Mapping[str, Any] | None = None, *, at: str = "", beneath: bool = False
    ) -> Steps[StatementResult]:  # fmt: skip
        """Execute one statement.

        Args:
            at: the Subscriber; required if there are several.
            beneath: whether to execute on the connection itself, without the transaction's checks and notes.

        Raises:
            RejectedError: the statement failed, and the transaction can only be rolled back.
            LocalProtocolError: the statement is not allowed now.
        """
        part = self.whole.at(at) if at else self.whole
        connection = part.session.connection
        if not beneath:
            part.check(text)
        try:
            rows: StatementResult = yield from connection.execute(text, params)
        except SqlError as error:
            failure = ServerReport(
                message=error.message, sqlstate=error.sqlstate, detail=error.detail, hint=error.hint,
                context=error.context,
            )  # fmt: skip
            raise _refusal(part, failure) from error
        except RequestLostError as error:
            raise _refusal(part, ServerReport(message=str(error), sqlstate="08006")) from error
        if not beneath:
            part.note(text, rows.tag)
        return rows

    def commit(self) -> Steps[None]:
        """Commit at all nodes or at none. Raise RejectedError, InDoubtError, HeuristicError or LocalProtocolError."""
        return self.whole.commit().__await__()

    def rollback(self) -> Steps[None]:
        """Roll back at all nodes; no effect after the transaction's end."""
        return self.whole.rollback().__await__()

    def cancel(self) -> None:
        """Cancel running statements at the Subscribers."""
        for part in self.whole.parts:
            if part.pid:
                part.session.connection.session.cancel()


def _refusal(part: Transaction, failure: ServerReport) -> Exception:
    """Return the exception for an error: the Subscriber's own errors become the project's too."""
    node = part.node_of(failure)
    return part.refusal(failure) or rejection(failure, gid=part.gid, node=node)
