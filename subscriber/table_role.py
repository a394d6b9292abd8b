"""The role in whose name one subscribed table is written, as text.

Whoever owns a table decides what is evaluated when a row of it is written: constraints, indexes, domains,
defaults, generated columns, triggers. So whatever writes rows for us, what comes back from the Publisher and
what agents bring, is a SECURITY DEFINER function of a role that may write this table and nothing else.
"""

from __future__ import annotations

from psycopg import sql

from twopc import names
from twopc.sql.fragments import qualified
from twopc.sql.render import compose, render


def create_text(owner: str, schema: str, table: str, privileges: str) -> str:
    """Creates it if it is not there, and gives it rights on its table.

    Args:
        owner: of our objects in the database.
    """
    role = names.table_role(owner, schema, table)
    return render(
        "subscriber",
        "create_table_role",
        role=sql.Identifier(role),
        role_text=sql.Literal(role),
        schema=sql.Identifier(names.SCHEMA),
        table_schema=sql.Identifier(schema),
        table=qualified(schema, table),
        privileges=sql.SQL(privileges),
        comment=sql.Literal(f"Writes {names.article_name(schema, table)} for replication"),
    )


def drop_text(owner: str, schema: str, table: str) -> str:
    """Drops it, unless a function of ours is still its own; harmless where it is not."""
    role = names.table_role(owner, schema, table)
    return render(
        "subscriber", "drop_table_role", role=sql.Identifier(role), role_text=sql.Literal(role)
    )


def runs_as(role: str) -> sql.Composed:
    """The first lines of each function that is its own."""
    return compose("subscriber", "runs_as", role_text=sql.Literal(role))
