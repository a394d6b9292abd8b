"""One transaction of a load, attempted once: what its client was told."""

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
    """Begin, carry out, commit; whatever goes wrong, the client has no transaction afterwards."""
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
    """Roll back, or close: a server that is gone has done so, and says no more."""
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
