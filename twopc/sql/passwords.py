"""Passwords on their way into a server: neither its log nor its statistics show them.

It must not know whose passwords they are.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection, sql

#: What would write the text of a statement somewhere, and how to keep it from that.
_SILENT = {
    "log_statement": "none",
    "log_min_duration_statement": "-1",
    "log_min_duration_sample": "-1",
    "log_transaction_sample_rate": "0",
    "log_min_error_statement": "panic",
    "pg_stat_statements.track_utility": "off",  # only a word where the module is not loaded
}

_HELD = """
select array_agg(coalesce(current_setting(name, true), 'on') order by place)
from unnest(%s::text[]) with ordinality as t(name, place)
"""
_SET = "select set_config(name, value, true) from unnest(%s::text[], %s::text[]) as t(name, value)"


def verifier(connection: AsyncConnection[Any], role: str, password: str) -> sql.Literal:
    """What CREATE ROLE ... PASSWORD takes instead of a password; nobody can log in with it."""
    made = connection.pgconn.encrypt_password(password.encode(), role.encode(), b"scram-sha-256")
    return sql.Literal(made.decode())


@asynccontextmanager
async def unlogged(connection: AsyncConnection[Any]) -> AsyncIterator[None]:
    """Within a superuser's transaction: the text of what runs inside is written nowhere.

    For passwords that the server must have as they are.
    """
    names = list(_SILENT)
    cursor = await connection.execute(_HELD, (names,))
    row = await cursor.fetchone()
    assert row is not None
    await connection.execute(_SET, (names, list(_SILENT.values())))
    yield
    # After an error there is nothing to put back: the settings end with the transaction.
    await connection.execute(_SET, (names, row[0]))
