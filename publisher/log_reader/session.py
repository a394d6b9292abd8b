"""Connections of the log reader, with fixed settings.

Values in the log are converted to text by the session that reads it, so settings of the server, the database or
the role must not affect them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from psycopg import AsyncConnection, conninfo

from twopc.sql import path
from twopc.sql.catalog_texts import PRINTED

Connection = AsyncConnection[Any]

#: Settings that determine the text of values.
OUTPUT = {
    **PRINTED,
    "search_path": "",  # names of tables, functions and types are written with their schema
}
#: Settings that could end or block a session that reads and stores for hours, or make a store less than durable.
_LASTING = path.LASTING | {
    "lock_timeout": "0",
    "synchronous_commit": "on",  # the slot moves once transactions are stored
    "client_min_messages": "warning",  # some warnings matter
}
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def pinned(dsn: str, name: str, *, settings: Mapping[str, str] = _NONE, **more: str) -> str:
    """Return the connection string with fixed settings, which override those of the database and the role.

    Args:
        name: the session's `application_name`.
        settings: further server settings of the session.
        more: further parameters of the connection.
    """
    return conninfo.make_conninfo(
        path.kept_alive(dsn),
        application_name=name,
        client_encoding="UTF8",
        options=path.options(dsn, OUTPUT | _LASTING | dict(settings), path=None),
        **more,
    )


async def connect(
    dsn: str, name: str, *, settings: Mapping[str, str] = _NONE, **more: str
) -> Connection:
    """Open a connection in autocommit mode; see `pinned`."""
    return await AsyncConnection.connect(
        pinned(dsn, name, settings=settings, **more), autocommit=True
    )
