"""A row filter: the condition, over the columns of a table, that selects the rows of an article.

The server itself parses the condition, as that of a temporary policy: it checks the text, qualifies every name
in it with its schema, and records which columns and functions it uses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc.articles import Table
from twopc.errors import ArticleError
from twopc.publisher.rights import RequiredObject, needs
from twopc.sql.catalog_texts import full_names
from twopc.sql.fragments import qualified

Connection = AsyncConnection[Any]

_POLICY = sql.Identifier("msrepl_row_filter")

_USED = """
select array(select a.attname::text
             from pg_depend d
             join pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
             where d.classid = 'pg_policy'::regclass and d.objid = p.oid
               and d.refclassid = 'pg_class'::regclass and d.refobjid = p.polrelid
             order by a.attnum),
       array(select distinct c.oid::regclass::text
             from pg_depend d
             join pg_class c on c.oid = d.refobjid
             where d.classid = 'pg_policy'::regclass and d.objid = p.oid
               and d.refclassid = 'pg_class'::regclass and d.refobjid <> p.polrelid),
       pg_get_expr(p.polqual, p.polrelid), p.oid, p.polwithcheck is not null,
       p.polqual::text ~ ':varattno 0 '
from pg_policy p
where p.polrelid = %(table)s::text::regclass and p.polname = 'msrepl_row_filter'
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """A condition that the server has accepted."""

    text: str
    """Condition with every name qualified."""
    columns: tuple[str, ...]
    """Columns that the condition names."""
    looks_at_row: bool
    """Whether it uses a row as a whole, and so every column; PostgreSQL records no dependency for this."""
    needs: tuple[RequiredObject, ...]
    """Objects that the table's role must be able to use to evaluate the condition."""


async def read_filter(connection: Connection, table: Table, text: str) -> RowFilter:
    """Have the server parse a condition.

    Raises:
        ArticleError: the text is not a condition, or it uses other tables. Nothing is changed in either case.
    """
    where = qualified(table.schema, table.name)
    problem = f"row filter {text!r} of table {table.schema}.{table.name}"
    try:
        async with connection.transaction():
            await connection.execute(
                # on a separate line, since a comment at the end of the text would hide the parenthesis
                sql.SQL("create policy {} on {} using (\n{}\n)").format(
                    _POLICY, where, sql.SQL(text)
                )
            )
            async with full_names(connection):
                cursor = await connection.execute(_USED, {"table": where.as_string(connection)})
                row = await cursor.fetchone()
            assert row is not None
            columns, others, qualified_text, oid, more, looks_at_row = row
            used = await needs(connection, "pg_policy", [oid])
            await connection.execute(sql.SQL("drop policy {} on {}").format(_POLICY, where))
    except psycopg.Error as error:
        raise ArticleError(
            f"{problem} is not a condition over its columns: {error.diag.message_primary or error}"
        ) from error
    if more:
        raise ArticleError(f"{problem} is not a condition over its columns: it ends early")
    if others:
        raise ArticleError(
            f"{problem} looks at {', '.join(others)}, whose changes would move rows in and out "
            "unseen: use columns of the table only"
        )
    return RowFilter(
        text=qualified_text, columns=tuple(columns), looks_at_row=looks_at_row, needs=used
    )
