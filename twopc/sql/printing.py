"""Have the server print names so that they mean the same to everybody."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection


@asynccontextmanager
async def full_names(connection: AsyncConnection[Any]) -> AsyncIterator[None]:
    """Within the block, every type, function, table and sequence is printed with its schema.

    That is what an empty ``search_path`` does. The caller's is there again afterwards.
    """
    async with connection.transaction():
        cursor = await connection.execute("select current_setting('search_path')")
        before = await cursor.fetchone()
        await connection.execute("set local search_path = ''")
        yield
        await connection.execute("select set_config('search_path', %s, true)", before)
