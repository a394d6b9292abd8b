"""Administrators' changes of subscribed tables: initial copies and repairs, made with the tables' roles.

An administrator is a superuser: code that a table's owner has attached to the table must not run with the
administrator's privileges.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection, sql

from twopc import names
from twopc.articles import Article
from twopc.merge.articles import MergeArticle
from twopc.sql import fragments as f
from twopc.sql.render import compose, render
from twopc.sql.table_role import create_text, runs_as
from twopc.subscriber.agents_path import SEARCH_PATH
from twopc.subscriber.objects import owner_role

Connection = AsyncConnection[Any]
Change = Callable[[sql.Composable], Awaitable[int]]
"""Function that executes a statement that changes the table, and returns the number of rows."""

#: Sets the path as a server prints it: SET does not accept the printed form of an empty path.
_PATH = sql.SQL("select pg_catalog.set_config('search_path', {}, false)")
_SEQUENCES = """
select distinct d.refobjid::regclass::text
from pg_attrdef k
join pg_depend d on d.classid = 'pg_attrdef'::regclass and d.objid = k.oid and d.refclassid = 'pg_class'::regclass
join pg_class s on s.oid = d.refobjid and s.relkind = 'S'
where k.adrelid = %(table)s::regclass
order by 1
"""


async def grant_sequences(
    connection: Connection, article: Article | MergeArticle, role: str
) -> None:
    """Let a role use the sequences in defaults of the Subscriber's own columns."""
    cursor = await connection.execute(
        _SEQUENCES, {"table": f.qualified(article.schema, article.table).as_string(None)}
    )
    for (sequence,) in await cursor.fetchall():
        await connection.execute(
            sql.SQL("grant usage on sequence {} to {}").format(
                f.raw(sequence), sql.Identifier(role)
            )
        )


@asynccontextmanager
async def changing(
    connection: Connection, article: Article | MergeArticle
) -> AsyncIterator[Change]:
    """Return a context whose statements run with the privileges of the table's role, as an agent's do.

    Args:
        connection: an administrator's, inside a transaction.
    """
    owner = owner_role(connection.info.dbname)
    role = names.table_role(owner, article.schema, article.table)
    function = sql.Identifier(
        names.SCHEMA, names.sync_row_type("change", article.schema, article.table)
    )
    cursor = await connection.execute("show search_path")
    row = await cursor.fetchone()
    assert row is not None
    # SET, not SET LOCAL: after the commit, SET LOCAL would reveal a setting made by code of the table's owner
    as_before = _PATH.format(row[0])
    cursor = await connection.execute(f"select {SEARCH_PATH}".encode())
    row = await cursor.fetchone()
    assert row is not None
    as_an_agent = _PATH.format(row[0])
    await connection.execute(
        create_text(owner, article.schema, article.table, "select, insert, update, delete").encode()
    )
    await grant_sequences(connection, article, role)
    await connection.execute(
        render(
            "twopc.subscriber",
            "change_table",
            function=function,
            runs_as=runs_as(role),
            path_stays=compose("twopc.subscriber", "path_stays"),
            owner=sql.Identifier(role),
            comment=sql.Literal(f"Changes {article.name} for an administrator"),
        ).encode()
    )
    call = sql.SQL("select {}({})")

    async def change(statement: sql.Composable) -> int:
        text = statement.as_string(connection)
        await connection.execute(as_an_agent)
        answer = await connection.execute(call.format(function, sql.Literal(text)))
        await connection.execute(as_before)
        done = await answer.fetchone()
        assert done is not None
        return int(done[0])

    yield change
    await connection.execute(sql.SQL("drop function {}(text)").format(function))
