"""A transaction of one statement in one message: its text, and what came back.

It must not know how a commit is agreed on.
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
"""A plan's result type changed, or the statement is gone: prepare it anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunResult:
    """What a statement of `PostgresCoordinator.run` returned."""

    rows: tuple[tuple[Any, ...], ...]
    rowcount: int
    """Rows that it changed or returned; -1 if the server does not say."""
    tag: str
    """The command tag."""
    gid: str
    """The global transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OneShotMessage:
    """The statements that stand before the vote."""

    text: bytes
    results: int
    """How many results they have; the statement's own is the last."""


async def prepare(session: ServerSession, statement: str) -> ServerReport | None:
    """Have the session keep the statement prepared; why it could not, if so.

    It stays if the transaction fails. Alone in its message: with several commands in it the message that asks for
    the votes would ask, or end the transaction, another time.
    """
    name = f"twopc_{session.statements_made}"
    session.statements_made += 1
    lean = session.lean
    # what an earlier transaction has set is not for this one to be read by
    failure = refusal(await lean.run(b"reset all"), lean) or refusal(
        await lean.run_one(f"prepare {name} as {statement}".encode()), lean
    )
    if failure is None:
        session.statements[statement] = name
    return failure


def message(
    session: ServerSession, begin: bytes, begin_results: int, statement: str, params: Sequence[Any]
) -> OneShotMessage:
    """Begin, and the statement by its prepared name."""
    session.soil(statement)
    transformer = Transformer(session.connection)
    values = b",".join([transformer.as_literal(value) for value in params])
    execute = b"execute " + session.statements[statement].encode()
    execute += b"(" + values + b")" if params else b""
    return OneShotMessage(text=begin + b";" + execute + b";", results=begin_results + 1)


def is_stale(sent: OneShotMessage, good: int, sqlstate: str) -> bool:
    """Whether the statement failed because it is not prepared any more, or not as it was.

    Args:
        sent: the message.
        good: how many results came before the failure.
        sqlstate: of the failure.
    """
    return sqlstate in _STALE and good == sent.results - 1


def done(
    session: ServerSession, gid: str, results: Sequence[pq.abc.PGresult], sent: OneShotMessage
) -> RunResult:
    """The statement's result as Python values, when it is known to be committed.

    Raises:
        ResultLostError: the connection broke behind the decision, and recovery found out what it was.
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
    """A statement that most likely reads only: whether it did is asked before anything is prepared."""
    async with transaction:
        transaction.session.soil(statement)
        cursor = AsyncRawCursor(transaction.session.connection)
        await cursor.execute(statement, params)
        rows = tuple(await cursor.fetchall()) if cursor.description else ()
        tag = cursor.statusmessage or ""
    return RunResult(rows=rows, rowcount=cursor.rowcount, tag=tag, gid=transaction.gid)
