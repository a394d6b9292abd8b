"""Passwords in statements, kept out of the server's log and statistics.

This module must not depend on the passwords' purpose.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection, sql

#: Settings that cause the text of a statement to be written, with values that prevent it.
_SILENT = {
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_transaction_sample_rate": "0",
    "log_min_error_statement": "panic",
    "pg_stat_statements.track_utility": "off",  # a placeholder setting if the module is not loaded
}

_HELD = """
select array_agg(coalesce(current_setting(name, true), 'on') order by place)
from unnest(%s::text[]) with ordinality as t(name, place)
"""
_SET = "select set_config(name, value, true) from unnest(%s::text[], %s::text[]) as t(name, value)"


def verifier(connection: AsyncConnection[Any], role: str, password: str) -> sql.Literal:
    """Return the SCRAM verifier that CREATE ROLE ... PASSWORD accepts instead of a password; it cannot be used to
    log in.
    """
    made = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
    return sql.Literal(made.decode())


@asynccontextmanager
async def unlogged(connection: AsyncConnection[Any]) -> AsyncIterator[None]:
    """Within a superuser's transaction: keep the texts of the statements in the block out of logs and statistics.

    For passwords that the server must receive in plain text.
    """
    names = list(_SILENT)
    cursor = await connection.execute(_HELD, (names,))
    [(held,)] = await cursor.fetchall()
    await connection.execute(_SET, (names, list(_SILENT.values())))
    yield
    # After an error nothing needs to be restored: the settings end with the transaction.
    await connection.execute(_SET, (names, held))
