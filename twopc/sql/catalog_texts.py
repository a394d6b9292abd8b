"""Printing of catalog contents independently of the session's search path and settings."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from psycopg import AsyncConnection, sql
from psycopg.rows import tuple_row

#: Settings that determine the text of names and values, apart from ``search_path``.
PRINTED: Final = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "1",  # the shortest text that yields the same value when read
    "bytea_output": "hex",
    "lc_monetary": "C",
    "xmlbinary": "base64",
    "quote_all_identifiers": "off",
    "standard_conforming_strings": "on",
}

#: The settings as clauses of CREATE FUNCTION, for functions that compare or store such texts.
PINNED: Final = sql.SQL("\n").join(
    [
        sql.SQL("set {} = {}").format(sql.SQL(name), sql.Literal(value))
        for name, value in PRINTED.items()
    ]
)


@asynccontextmanager
async def full_names(connection: AsyncConnection[Any]) -> AsyncIterator[None]:
    """Within the block, print types, functions, tables and sequences with their schemas, and constants with the
    settings `PRINTED`.

    An empty ``search_path`` has that effect on names. The caller's settings are restored afterwards.
    """
    async with connection.transaction():
        before = await _set(connection, PRINTED | {"search_path": ""})
        yield
        await _set(connection, before)


async def _set(connection: AsyncConnection[Any], settings: Mapping[str, str]) -> Mapping[str, str]:
    """Set the settings until the transaction ends, and return their previous values."""
    cursor = connection.cursor(row_factory=tuple_row)
    await cursor.execute(
        "select name, current_setting(name), set_config(name, value, true)"
        " from unnest(%s::text[], %s::text[]) as s(name, value)",
        ([*settings], [*settings.values()]),
    )
    return {name: before for name, before, _ in await cursor.fetchall()}
