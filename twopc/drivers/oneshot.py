"""A transaction of one statement in one message: its text, and what came back.

It must not know how a commit is agreed on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncRawCursor, pq
from psycopg.adapt import Transformer

from twopc.drivers.sessions import Session
from twopc.drivers.transaction import Transaction
from twopc.errors import ResultLostError

_STALE = frozenset(("0A000", "26000"))
"""A plan's result type changed, or the statement is gone: prepare it anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What a statement of `PostgresCoordinator.run` returned."""

    rows: tuple[tuple[Any, ...], ...]
    rowcount: int
    """Rows that it changed or returned; -1 if the server does not say."""
    tag: str
    """The command tag."""
    gid: str
    """The global transaction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """The statements that stand before the vote."""

    text: bytes
    results: int
    """How many results they have; the statement's own is the last."""
    statement: str
    prepared: int
    """At which result the statement is prepared by this message; 0: it was before."""


def message(
    session: Session, begin: bytes, begin_results: int, statement: str, params: Sequence[Any]
) -> Message:
    """Begin, and the statement by its prepared name."""
    session.soil(statement)
    name = session.statements.get(statement)
    first = name is None
    if name is None:
        name = session.statements[statement] = f"twopc_{session.statements_made}"
        session.statements_made += 1
    transformer = Transformer(session.connection)
    values = b",".join([transformer.as_literal(value) for value in params])
    execute = b"execute " + name.encode() + (b"(" + values + b")" if params else b"")
    # It stays if the transaction fails.
    # The line ends before the semicolon: the statement may end in a comment.
    prepare = f"prepare {name} as {statement}\n;".encode() if first else b""
    return Message(
        text=begin + b";" + prepare + execute + b";",
        results=begin_results + 1 + first,
        statement=statement,
        prepared=begin_results + 1 if first else 0,
    )


def forget_if_stale(session: Session, sent: Message, good: int, sqlstate: str) -> bool:
    """After a failure: have the statement prepared again, if it is not or cannot be used.

    Args:
        session: that it was sent in.
        sent: the message.
        good: how many results came before the failure.
        sqlstate: of the failure.

    Returns:
        Whether it was found like that: then it may be tried again, and will be prepared.
    """
    if good < sent.prepared or sqlstate in _STALE:
        session.statements.pop(sent.statement, None)
    return sqlstate in _STALE and not sent.prepared and good == sent.results - 1


def done(session: Session, gid: str, results: Sequence[pq.abc.PGresult], sent: Message) -> Done:
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
    return Done(
        rows=tuple(rows),
        rowcount=-1 if count is None else count,
        tag=(result.command_status or b"").decode(),
        gid=gid,
    )


async def read(transaction: Transaction, statement: str, params: Sequence[Any]) -> Done:
    """A statement that most likely reads only: whether it did is asked before anything is prepared."""
    async with transaction:
        transaction.session.soil(statement)
        cursor = AsyncRawCursor(transaction.session.connection)
        await cursor.execute(statement, params)
        rows = tuple(await cursor.fetchall()) if cursor.description else ()
        tag = cursor.statusmessage or ""
    return Done(rows=rows, rowcount=cursor.rowcount, tag=tag, gid=transaction.gid)
