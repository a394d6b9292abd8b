"""What the log reader says of itself in the distribution database."""

from __future__ import annotations

import psycopg

from twopc.errors import TwopcError
from twopc.log import get_logger
from twopc.publisher.log_reader.session import connect

_log = get_logger(__name__)

_RECORD = """
with there as (
    update msrepl.mspublisher_databases d
    set last_error = coalesce(%(message)s, d.last_error)
    where d.publisher = %(publisher)s
    returning d.id, d.read_to
)
insert into msrepl.msdistribution_history
    (publisher_database_id, event, xact_seqno, error, message)
select id, %(event)s, read_to, %(error)s, %(message)s from there
"""


async def record(dsn: str, publisher: str, event: str, error: BaseException | None = None) -> None:
    """Add a row to the history, on a connection of its own: after an error there may be no other.

    If that fails too, nothing is recorded: the error itself is what matters.

    Args:
        event: started, succeeded, retry or failed.
        error: the reason for the latter two; it stays visible until something is stored.
    """
    state = error.sqlstate if isinstance(error, psycopg.Error) else None
    try:
        connection = await connect(dsn, f"msrepl logreader {publisher}")
        async with connection:
            await connection.execute(
                _RECORD,
                {
                    "publisher": publisher,
                    "event": event,
                    "error": state,
                    "message": None if error is None else str(error),
                },
            )
    except (psycopg.Error, TwopcError, OSError) as failure:
        _log.warning("not recorded", publisher=publisher, event_kind=event, reason=str(failure))
