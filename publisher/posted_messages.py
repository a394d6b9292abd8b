"""Messages posted into the log: they reach every Subscriber in the order of the commits around them.

A message is a row of ``msrepl.log_message``; the log reader makes a command of it, for article 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

Connection = AsyncConnection[Any]

#: Time that messages stay in their table; the log contains them from their commit on.
_KEPT = "1 day"


@dataclass(frozen=True, slots=True, kw_only=True)
class PostedMessage:
    """A message in the log."""

    id: int
    """Number of the message, which its body contains as ``id``."""
    after: str
    """Position of the log at or before the message's commit."""


async def post_message(
    connection: Connection, kind: str, body: Mapping[str, object]
) -> PostedMessage:
    """Post a message in a transaction of its own.

    Args:
        connection: an administrator's at the Publisher, in autocommit mode and in no transaction.
        kind: ``tracer_token`` or ``validation``.
    """
    async with connection.transaction():
        await connection.execute(
            "delete from msrepl.log_message where created_at < now() - %s::interval", (_KEPT,)
        )
        cursor = await connection.execute(
            """
            with n as materialized (
                select nextval(pg_get_serial_sequence('msrepl.log_message', 'id')) as id)
            insert into msrepl.log_message (id, kind, body) overriding system value
            select n.id, %s, %s || jsonb_build_object('id', n.id) from n
            returning id, pg_current_wal_insert_lsn()::text
            """,
            (kind, Jsonb(dict(body))),
        )
        row = await cursor.fetchone()
    assert row is not None
    return PostedMessage(id=row[0], after=row[1])


async def stored_message(
    distribution: Connection, publisher: str, message: PostedMessage
) -> str | None:
    """Return the commit LSN of a message in the distribution database; None if it is not stored yet."""
    cursor = await distribution.execute(
        """
        select c.xact_seqno::text
        from msrepl.mspublisher_databases d
        cross join lateral msrepl.commands_between(
            d.id, greatest(%s::pg_lsn, '0/1') - 1::numeric, 'FFFFFFFF/FFFFFFFF') c
        where d.publisher = %s
          and case when c.article_id = 0 then c.command::jsonb ->> 'id' end = %s
        """,
        (message.after, publisher, str(message.id)),
    )
    row = await cursor.fetchone()
    return str(row[0]) if row is not None else None
