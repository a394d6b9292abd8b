"""A transaction of one statement in one message: its text, and its result.

This module must not depend on the commit protocol.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncRawCursor, pq
from psycopg.adapt import Transformer

from twopc.drivers.lean import ServerReport
from twopc.drivers.server_sessions import ServerSession
from twopc.drivers.sessions import refusal
from twopc.drivers.transaction import Transaction
from twopc.errors import ResultLostError

_STALE = frozenset(("0A000", "26000"))
"""The result type of a prepared statement has changed, or the statement no longer exists: it must be prepared anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """Result of a statement of `PostgresCoordinator.run`."""

    rows: tuple[tuple[Any, ...], ...]
    rowcount: int
    """Number of rows that the statement changed or returned; -1 if the server does not report it."""
    tag: str
    """The command tag."""
    gid: str
    """Id of the global transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneShotMessage:
    """The statements that precede the request for the vote."""

    text: bytes
    results: int
    """Number of their results; the last is that of the application's statement."""


async def prepare(session: ServerSession, statement: str) -> ServerReport | None:
    """Prepare the statement in the session; return the server's report if that fails.

    The prepared statement persists if the transaction fails. It is sent in a message of its own: an application's
    text with several commands could otherwise end the transaction before the request for the votes, or repeat it.
    """
    name = f"twopc_{session.statements_made}"
    session.statements_made += 1
    lean = session.lean
    # settings of an earlier transaction must not affect how this statement is parsed
    failure = refusal(await lean.run(b"reset all"), lean) or refusal(
        await lean.run_one(f"prepare {name} as {statement}".encode()), lean
    )
    if failure is None:
        session.statements[statement] = name
    return failure


def message(
    session: ServerSession, begin: bytes, begin_results: int, statement: str, params: Sequence[Any]
) -> OneShotMessage:
    """Return the message with BEGIN, and EXECUTE of the prepared statement."""
    session.soil(statement)
    transformer = Transformer(session.connection)
    values = b",".join([transformer.as_literal(value) for value in params])
    execute = b"execute " + session.statements[statement].encode()
    execute += b"(" + values + b")" if params else b""
    return OneShotMessage(text=begin + b";" + execute + b";", results=begin_results + 1)


def is_stale(sent: OneShotMessage, good: int, sqlstate: str) -> bool:
    """Return whether the statement failed because it is no longer prepared, or not as before.

    Args:
        sent: the message.
        good: number of results before the failure.
        sqlstate: SQLSTATE of the failure.
    """
    return sqlstate in _STALE and good == sent.results - 1


def done(
    session: ServerSession, gid: str, results: Sequence[pq.abc.PGresult], sent: OneShotMessage
) -> RunResult:
    """Return the statement's result as Python values, once the transaction is known to be committed.

    Raises:
        ResultLostError: the connection broke after the decision, and recovery determined the outcome.
    """
    if len(results) < sent.results:
        raise ResultLostError(
            f"{gid}: committed at every site, but the connection to {session.subscriber} broke before"
            " the statement's result arrived; read what you need again, and do not repeat it",
            gid=gid,
            node=session.subscriber,
        )
    result = results[sent.results - 1]
    rows: list[tuple[Any, ...]] = []
    if result.nfields:
        transformer = Transformer(session.connection)
        transformer.set_pgresult(result)
        rows = transformer.load_rows(0, result.ntuples, tuple)
    count = result.command_tuples
    return RunResult(
        rows=tuple(rows),
        rowcount=-1 if count is None else count,
        tag=(result.command_status or b"").decode(),
        gid=gid,
    )


async def read(transaction: Transaction, statement: str, params: Sequence[Any]) -> RunResult:
    """Run a statement that probably only reads; whether it changed anything is checked before any branch is
    prepared.
    """
    async with transaction:
        transaction.session.soil(statement)
        cursor = AsyncRawCursor(transaction.session.connection)
        await cursor.execute(statement, params)
        rows = tuple(await cursor.fetchall()) if cursor.description else ()
        tag = cursor.statusmessage or ""
    return RunResult(rows=rows, rowcount=cursor.rowcount, tag=tag, gid=transaction.gid)
