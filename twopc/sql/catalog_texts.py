"""Have the server print what its catalogs hold so that it means, and is, the same to everybody."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from psycopg import AsyncConnection, sql
from psycopg.rows import tuple_row

#: What decides how names and values look as text, apart from ``search_path``.
PRINTED: Final = {
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "timezone": "UTC",
    "extra_float_digits": "1",  # the shortest text that is read back as the same value
    "bytea_output": "hex",
    "lc_monetary": "C",
    "xmlbinary": "base64",
    "quote_all_identifiers": "off",
    "standard_conforming_strings": "on",
}

#: The same for the head of a function that compares such texts, or keeps them.
PINNED: Final = sql.SQL("\n").join(
    [
        sql.SQL("set {} = {}").format(sql.SQL(name), sql.Literal(value))
        for name, value in PRINTED.items()
    ]
)


@asynccontextmanager
async def full_names(connection: AsyncConnection[Any]) -> AsyncIterator[None]:
    """Within the block, every type, function, table and sequence is printed with its schema, and constants as `PRINTED`.

    The names are what an empty ``search_path`` does. The caller's settings are there again afterwards.
    """
    async with connection.transaction():
        before = await _set(connection, PRINTED | {"search_path": ""})
        yield
        await _set(connection, before)


async def _set(connection: AsyncConnection[Any], settings: Mapping[str, str]) -> Mapping[str, str]:
    """Set them until the transaction ends; returns what they were."""
    cursor = connection.cursor(row_factory=tuple_row)
    await cursor.execute(
        "select name, current_setting(name), set_config(name, value, true)"
        " from unnest(%s::text[], %s::text[]) as s(name, value)",
        ([*settings], [*settings.values()]),
    )
    return {name: before for name, before, _ in await cursor.fetchall()}
