"""The role in whose name one published or subscribed table is written and filtered, as text.

Whoever owns a table decides what is evaluated when a row of it is written: constraints, indexes, domains,
defaults, generated columns, triggers. So whatever writes rows for us, at either end, is a SECURITY DEFINER
function of a role that may write this table and nothing else. Its caller goes on with rights of its own, and
makes sure that nothing has happened to its search path: `path_is_kept`.
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
    """Drops it, unless a function of ours is still its own; harmless where it is not."""
    return drop_role_text(names.table_role(owner, schema, table))


def drop_role_text(role: str) -> str:
    """As `drop_text`, by the role's name."""
    return render(
        "twopc", "drop_table_role", role=sql.Identifier(role), role_text=sql.Literal(role)
    )


def runs_as(role: str) -> sql.Composed:
    """The first lines of each function that is its own."""
    return compose("twopc", "runs_as", role_text=sql.Literal(role))


def path_is_kept(table: str) -> sql.Composed:
    """What the caller of such a function does afterwards.

    Args:
        table: as messages call it.
    """
    return compose("twopc", "path_is_kept", table_name=sql.Literal(table))
