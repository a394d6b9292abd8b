"""What makes the values that only the Publisher can make: identities, sequences, functions of the user's."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, sql

from twopc.articles import Article
from twopc.sql.fragments import qualified
from twopc.sql.printing import full_names

Connection = AsyncConnection[Any]


async def generators(connection: Connection, article: Article) -> dict[str, str]:
    """Per column that the Publisher makes: the expression that makes a value."""
    sequences = await identity_sequences(connection, article)
    return {
        column.name: f"nextval({sql.Literal(sequences[column.name]).as_string(None)}::regclass)"
        if column.identity
        else str(column.default)
        for column in article.made_by_publisher
    }


async def identity_sequences(connection: Connection, article: Article) -> dict[str, str]:
    """Per identity column: the sequence behind it, quoted, with its schema."""
    table = qualified(article.schema, article.table).as_string(connection)
    async with full_names(connection):
        cursor = await connection.execute(
            """
            select c.name, pg_get_serial_sequence(%s, c.name) from unnest(%s::text[]) as c(name)
            """,
            (table, [column.name for column in article.columns if column.identity]),
        )
        return dict(await cursor.fetchall())
