"""A Subscriber's first rows: tables and rows as of one snapshot of the Publisher.

Independent of agents, and of what a copy's snapshot includes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc.articles import Article
from twopc.errors import LockTimeoutError, SubscriptionError
from twopc.names import VERSION_COLUMN
from twopc.publisher import membership
from twopc.sim.topology.grants import grant_tables
from twopc.sql import fragments as f
from twopc.sql import path
from twopc.sql.describe import describe
from twopc.subscriber import initial_load, tables
from twopc.subscriber.table_changes import changing

Connection = AsyncConnection[Any]


async def bring(
    publisher: Connection,
    here: Connection,
    articles: Sequence[Article],
    role: str,
    *,
    rows: bool,
    read_only: bool = False,
) -> list[dict[str, Any]]:
    """Create tables with the rows that `publisher` sees; return what was added to each table.

    Args:
        publisher: inside a transaction that sees one snapshot, if rows are copied.
        here: inside a transaction at the Subscriber.
        role: the application's role, which is granted the use of the tables.
        rows: False: the rows are there already.
        read_only: the role may only read the tables.

    Raises:
        SubscriptionError: a table does not match its article, or is not empty; or it should hold rows and does not
            exist.
    """
    copies: list[dict[str, Any]] = []
    await here.execute(path.READ_LOCAL)
    # rows that an agent copies are not for replication: no trigger of the user's fires
    await here.execute("set local session_replication_role = replica")
    for article in articles:
        copies.append(await _bring_table(here, article))
        held = await describe(here, article.schema, article.table)
        if not rows and (copies[-1]["created_table"] or copies[-1]["added_version"]):
            raise SubscriptionError(
                f"table {article.name} at {here.info.dbname!r} must hold the Publisher's rows already, "
                f"with their {VERSION_COLUMN}: copy them, or subscribe with sync='automatic'"
            )
        if rows:
            columns = tables.copied_columns(article, held)
            await initial_load.fill(here, article, columns, rows_of(publisher, article, columns))
        await grant_tables(here, article.schema, article.table, role, read_only=read_only)
    await here.execute("set local session_replication_role to default")
    for article, copy in zip(articles, copies, strict=True):
        added = await _bring_keys(here, article)
        if not copy["created_table"]:
            copy["added_keys"] = added
    return copies


async def _bring_table(here: Connection, article: Article) -> dict[str, Any]:
    if not await _exists(here, article):
        await tables.create_table(here, article)
        return {"created_table": True, "added_version": False}
    held = await describe(here, article.schema, article.table)
    return {
        "created_table": False,
        "added_version": await tables.adopt_table(here, article, held),
    }


async def _bring_keys(here: Connection, article: Article) -> list[str]:
    """Create the article's missing foreign keys, once every table exists; return the names of those added."""
    if not article.references:
        return []
    held = await describe(here, article.schema, article.table)
    known = {key.name for key in held.references}
    missing = [key for key in article.references if key.name not in known]
    for key in missing:
        await here.execute(tables.foreign_key_text(key).encode())
    return [key.name for key in missing]


async def _exists(connection: Connection, article: Article) -> bool:
    rows = await connection.execute(
        "select to_regclass(%s) is not null",
        (f.table_of(article).as_string(connection),),
    )
    row = await rows.fetchone()
    return row is not None and bool(row[0])


async def rows_of(
    connection: Connection, article: Article, columns: Sequence[str]
) -> AsyncIterator[bytes]:
    """Yield the rows that belong to an article as COPY text."""
    command = sql.SQL("copy (select {} from {} as {} where {}) to stdout").format(
        f.identifiers(columns, membership.ALIAS),
        f.table_of(article),
        sql.Identifier(membership.ALIAS),
        await membership.condition(connection, article),
    )
    async with connection.cursor() as cursor, cursor.copy(command) as copy:
        async for block in copy:
            yield bytes(block)


async def bring_again(publisher: Connection, here: Connection, articles: Sequence[Article]) -> None:
    """Replace the rows of copies by the rows that `publisher` sees; see `bring`."""
    await here.execute(path.READ_LOCAL)
    await here.execute("set local session_replication_role = replica")
    for article in articles:
        held = await describe(here, article.schema, article.table)
        columns = tables.copied_columns(article, held)
        async with changing(here, article) as change:
            await change(sql.SQL("delete from {}").format(f.table_of(article)))
        await initial_load.fill(here, article, columns, rows_of(publisher, article, columns))
    await here.execute("set local session_replication_role to default")


async def lock_out(here: Connection, articles: Sequence[Article], timeout_ms: int) -> None:
    """Prevent changes of the copies until the transaction ends; wait for transactions that are changing them.

    Raises:
        LockTimeoutError: a transaction that changes them does not end in time.
    """
    locked = sql.SQL(", ").join(f.table_of(article) for article in articles)
    async with _limited(here, timeout_ms, "are being written and cannot be replaced"):
        await here.execute(sql.SQL("lock table {} in share row exclusive mode").format(locked))


async def close_tables(here: Connection, timeout_ms: int) -> None:
    """Prevent any use of a Subscriber's copies until the transaction ends; wait for transactions that use them.

    Raises:
        LockTimeoutError: a transaction that uses them does not end in time.
    """
    cursor = await here.execute(
        "select dest_schema, article from msrepl.msreplication_objects "
        "where to_regclass(format('%I.%I', dest_schema, article)) is not null order by 1, 2"
    )
    rows = [sql.Identifier(*name) for name in await cursor.fetchall()]
    async with _limited(here, timeout_ms, "are in use and cannot be taken out of the subscription"):
        for table in rows:
            await here.execute(sql.SQL("lock table {} in access exclusive mode").format(table))


@asynccontextmanager
async def _limited(here: Connection, timeout_ms: int, why: str) -> AsyncIterator[None]:
    """Limit the waiting for locks in the block, and explain why a lock was not to be had in time."""
    await here.execute("select set_config('lock_timeout', %s, true)", (f"{timeout_ms}ms",))
    try:
        yield
    except psycopg.errors.LockNotAvailable as error:
        raise LockTimeoutError(
            f"the tables at {here.info.dbname!r} {why}: end that transaction (`twopc indoubt` shows what is "
            "prepared) and try again",
            sqlstate=error.sqlstate or "",
        ) from error
