"""Scripts sent as one message each, and all results of the server.

A client library's cursor discards the results before an error, and converts values; here every result is kept as
received, so that it can be shown as other clients show it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import generators, pq
from psycopg.adapt import Transformer

from twopc.sim.report.history import ROWS_MAX
from twopc.sim.sessions.results import Result, Rows


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionMessage:
    """A notice, or a notification (`channel` is set), received by a session."""

    text: str
    """For a notice, the text that libpq prints; for a notification, its payload."""
    channel: str = ""
    pid: int = 0
    """PID of the backend that sent the notification."""


def message_of(arrived: psycopg.errors.Diagnostic | psycopg.Notify) -> SessionMessage:
    """Return the message passed to a notice or notification handler of psycopg."""
    if isinstance(arrived, psycopg.Notify):
        return SessionMessage(text=arrived.payload, channel=arrived.channel, pid=arrived.pid)
    parts = {
        arrived.severity or "NOTICE": arrived.message_primary,
        "DETAIL": arrived.message_detail,
        "HINT": arrived.message_hint,
    }
    lines = (f"{title}:  {text}" for title, text in parts.items() if text)
    return SessionMessage(text="\n".join(lines))


async def send_script(
    connection: psycopg.AsyncConnection[Any], text: str
) -> Sequence[pq.abc.PGresult]:
    """Return all results of a script, with an error as the last one.

    Raises:
        psycopg.OperationalError: the connection was lost.
    """
    async with connection.lock:
        server = connection.pgconn
        server.send_query(text.encode())
        results = [*await connection.wait(generators.execute(server))]
        while server.status == pq.ConnStatus.BAD and (more := server.get_result()) is not None:
            results.append(more)  # the client library's own error about the loss
        return results


def failure(
    connection: psycopg.AsyncConnection[Any], results: Sequence[pq.abc.PGresult]
) -> psycopg.Error | None:
    """Return the error that has ended a script; None if there was none."""
    failed = next((each for each in results if each.status == pq.ExecStatus.FATAL_ERROR), None)
    if failed is None:
        return None
    return psycopg.errors.error_from_result(failed, encoding=connection.info.encoding)


def last_result(
    connection: psycopg.AsyncConnection[Any], results: Sequence[pq.abc.PGresult]
) -> Result:
    """Return the last statement's result with converted values, or with text if they cannot be converted."""
    if not results:
        return Result()
    last = results[-1]
    tag = (last.command_status or b"").decode()
    if last.status != pq.ExecStatus.TUPLES_OK:
        return Result(tag=tag, rowcount=-1 if last.command_tuples is None else last.command_tuples)
    reading = Transformer(connection)
    reading.set_pgresult(last)
    names = tuple(column.decode() for column in _columns(last))
    try:
        rows: Sequence[Sequence[Any]] = reading.load_rows(0, last.ntuples, tuple)
    # for example, a DateStyle that psycopg does not support
    except (NotImplementedError, psycopg.DataError):
        rows = _texts(last, last.ntuples)
    return Result(
        rows=Rows(dict(zip(names, row, strict=True)) for row in rows),
        rowcount=last.ntuples,
        tag=tag,
        columns=names,
    )


def printable(results: Sequence[pq.abc.PGresult]) -> list[dict[str, Any]]:
    """Return the results as text, as a client without knowledge of types could show them, for a history.

    One mapping for each result: with rows (`columns`, `rows`: values in the server's text format, the first
    `ROWS_MAX`; `rowcount`: number of all rows), of an error (`error`: severity and message), or of any other kind
    (`tag`).
    """
    outcome: list[dict[str, Any]] = []
    for each in results:
        if each.status == pq.ExecStatus.TUPLES_OK:
            rows = _texts(each, min(each.ntuples, ROWS_MAX))
            columns = [column.decode() for column in _columns(each)]
            outcome.append({"columns": columns, "rows": rows, "rowcount": each.ntuples})
        elif each.status == pq.ExecStatus.FATAL_ERROR:
            outcome.append({"error": _error_text(each)})
        else:
            outcome.append({"tag": _text(each.command_status) or ""})
    return outcome


def _texts(result: pq.abc.PGresult, count: int) -> list[list[str | None]]:
    """Return the values of the first rows."""
    columns = range(result.nfields)
    return [[_text(result.get_value(row, column)) for column in columns] for row in range(count)]


def _error_text(result: pq.abc.PGresult) -> str:
    severity = result.error_field(pq.DiagnosticField.SEVERITY)
    message = result.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
    if severity is None or message is None:  # libpq's own errors have no fields
        # libpq appends this line when it is asked again
        return result.error_message.decode(errors="replace").removesuffix("invalid socket\n")
    return f"{_text(severity)}:  {_text(message)}"


def _columns(result: pq.abc.PGresult) -> list[bytes]:
    return [result.fname(column) or b"" for column in range(result.nfields)]


def _text(value: bytes | None) -> str | None:
    return None if value is None else bytes(value).decode(errors="replace")
