"""Connections of the log reader, and what is pinned in them.

Values in the log are written as text by the session that reads it, so whatever the server, the database or
the role has set must not show in them.
"""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, conninfo

from twopc.sql import path
from twopc.sql.catalog_texts import PRINTED

Connection = AsyncConnection[Any]

#: What decides how values look as text.
OUTPUT = {
    **PRINTED,
    "search_path": "",  # names of tables, functions and types are written with their schema
}
#: What could end or hinder a session that reads and stores for hours, or make a store less than durable.
_LASTING = path.LASTING | {
    "lock_timeout": "0",
    "synchronous_commit": "on",  # the slot moves on what is stored
    "client_min_messages": "warning",  # some of them matter
}


def pinned(dsn: str, name: str, **more: str) -> str:
    """The connection string with our settings on top; they win over those of the database and the role.

    Args:
        name: the session's `application_name`.
        more: further parameters of the connection.
    """
    return conninfo.make_conninfo(
        dsn,
        application_name=name,
        client_encoding="UTF8",
        options=path.options(dsn, OUTPUT | _LASTING, path=None),
        **more,
    )


async def connect(dsn: str, name: str, **more: str) -> Connection:
    """A connection in autocommit mode; see `pinned`."""
    return await AsyncConnection.connect(pinned(dsn, name, **more), autocommit=True)
