"""SQL texts of the role that writes and filters one published or subscribed table.

The owner of a table decides which code is evaluated when a row of it is written: constraints, indexes, domains,
defaults, generated columns, triggers. Therefore all our code that writes rows, at either end, is in SECURITY
DEFINER functions of a role that may write this table and nothing else. The caller of such a function continues with
rights of its own, and checks that its search path was not changed: `path_is_kept`.
"""

from __future__ import annotations

from psycopg import sql

from twopc import names
from twopc.sql.fragments import qualified
from twopc.sql.render import compose, render


def create_text(owner: str, schema: str, table: str, privileges: str) -> str:
    """Return the statement that creates the role if it does not exist, and grants it rights on its table.

    Args:
        owner: owner of our objects in the database.
    """
    role = names.table_role(owner, schema, table)
    return render(
        "twopc",
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
    """Return the statement that drops the role, unless it still owns a function of ours; no effect if the role does
    not exist.
    """
    return drop_role_text(names.table_role(owner, schema, table))


def drop_role_text(role: str) -> str:
    """Return the statement of `drop_text` for a role given by name."""
    return render(
        "twopc", "drop_table_role", role=sql.Identifier(role), role_text=sql.Literal(role)
    )


def runs_as(role: str) -> sql.Composed:
    """Return the first lines of each function that the role owns."""
    return compose("twopc", "runs_as", role_text=sql.Literal(role))


def path_is_kept(table: str) -> sql.Composed:
    """Return the check that the caller of such a function makes afterwards.

    Args:
        table: name of the table in messages.
    """
    return compose("twopc", "path_is_kept", table_name=sql.Literal(table))
