"""Privileges of the application's role on the tables of a topology."""

from __future__ import annotations

from typing import Any, LiteralString

import psycopg
from psycopg import sql

from twopc.sql.sequences import column_sequences


async def grant_tables(
    connection: psycopg.AsyncConnection[Any],
    schema: str,
    table: str,
    role: str,
    *,
    read_only: bool = False,
) -> None:
    """Grant the application's role the use of a table, or only the reading of it."""
    name = sql.Identifier(role)
    await connection.execute(
        sql.SQL("grant usage on schema {} to {}").format(sql.Identifier(schema), name)
    )
    await connection.execute(
        sql.SQL("grant {} on {} to {}").format(
            sql.SQL("select" if read_only else "select, insert, update, delete"),
            sql.Identifier(schema, table),
            name,
        )
    )
    for sequence in [] if read_only else await _default_sequences(connection, schema, table):
        await connection.execute(
            sql.SQL("grant usage on sequence {} to {}").format(sql.SQL(sequence), name)
        )


async def _default_sequences(
    connection: psycopg.AsyncConnection[Any], schema: str, table: str
) -> list[LiteralString]:
    """Return the sequences that a table's defaults use, quoted; those of identity columns need no privilege."""
    where = sql.Identifier(schema, table).as_string(None)
    sequences = await column_sequences(connection, where)
    return list(dict.fromkeys(each.name for each in sequences if not each.is_identity))


async def revoke_tables(
    connection: psycopg.AsyncConnection[Any], schema: str, table: str, role: str
) -> None:
    """Revoke the privileges that `grant_tables` has granted."""
    name = sql.Identifier(role)
    await connection.execute(
        sql.SQL("revoke all on {} from {}").format(sql.Identifier(schema, table), name)
    )
    await connection.execute(
        sql.SQL("revoke all on schema {} from {}").format(sql.Identifier(schema), name)
    )
    for sequence in await _default_sequences(connection, schema, table):
        await connection.execute(
            sql.SQL("revoke all on sequence {} from {}").format(sql.SQL(sequence), name)
        )
