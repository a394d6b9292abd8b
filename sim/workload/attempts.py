"""One attempt at a transaction of a load, and the outcome that its client learned."""

from __future__ import annotations

import contextlib
from collections.abc import Coroutine
from typing import Any

import psycopg

from twopc.errors import ConflictError, InDoubtError, TransactionError
from twopc.sim.workload.ports import (
    COMMITTED,
    ERROR,
    IN_DOUBT,
    REJECTED,
    AttemptOutcome,
    ClientTransaction,
    LoadClient,
)


async def attempt(client: LoadClient, deed: ClientTransaction, level: str) -> AttemptOutcome:
    """Begin, execute and commit a transaction; after an error, the client has no open transaction."""
    gid = ""
    rowcounts: list[int] = []
    try:
        await client.begin(level)
        gid = client.gid
        for text, params in deed.statements:
            rowcounts.append((await client.execute(text, params)).rowcount)
        await client.commit()
    except InDoubtError as error:
        return AttemptOutcome(
            kind=IN_DOUBT, why=error.sqlstate, fields=_fields(error, gid), rowcounts=rowcounts
        )
    except TransactionError as error:
        report = _fields(error, gid)
        await leave(client.rollback())
        if "conflict" in report:
            return AttemptOutcome(
                kind=REJECTED, why=report["conflict"]["kind"], fields=report, rowcounts=rowcounts
            )
        return AttemptOutcome(kind=ERROR, why=error.sqlstate, fields=report, rowcounts=rowcounts)
    return AttemptOutcome(kind=COMMITTED, fields={"gid": gid}, rowcounts=rowcounts)


async def leave(work: Coroutine[Any, Any, None]) -> None:
    """Await a rollback or a close, and ignore the errors of a server that is gone: it has rolled back."""
    with contextlib.suppress(TransactionError, psycopg.OperationalError):
        await work


def _fields(error: TransactionError, gid: str) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "gid": error.gid or gid,
        "sqlstate": error.sqlstate,
        "number": error.number,
        "message": str(error).strip(),
    }
    kind = getattr(error, "kind", "error")
    if kind != "error":
        facts = error.facts if isinstance(error, ConflictError) else {}
        fields["conflict"] = {**facts, "kind": kind}
    return fields
