"""A Subscriber's first rows: tables and rows as of one moment at the Publisher.

Knows nothing of agents, but says what the copy has seen, so that an agent can go on where it ends: the
Publisher is neither stopped nor locked, and transactions commit while rows are read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, sql

from sim.topology.nodes import grant_tables
from subscriber import tables
from twopc.articles import Article
from twopc.sql import fragments as f
from twopc.sql.describe import describe

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What a copy has seen of the Publisher."""

    snapshot: str
    """pg_snapshot: the transactions that are in the copy."""
    seqno: str
    """pg_lsn: none of those that commit from here on is in it."""


@asynccontextmanager
async def reading(publisher: Connection) -> AsyncIterator[Moment]:
    """See the Publisher as of one moment while inside.

    A branch that was prepared before and is committed afterwards is not in the copy: the snapshot does
    not see it, and its commit comes after the position.
    """
    async with publisher.transaction():
        await publisher.execute("set transaction isolation level repeatable read, read only")
        cursor = await publisher.execute("select pg_current_snapshot()::text")
        row = await cursor.fetchone()
        assert row is not None
        # asked for after the snapshot was taken: whatever it sees has written its commit before
        cursor = await publisher.execute("select pg_current_wal_insert_lsn()::text")
        position = await cursor.fetchone()
        assert position is not None
        yield Moment(snapshot=row[0], seqno=position[0])


async def bring(
    publisher: Connection,
    here: Connection,
    articles: Sequence[Article],
    role: str,
    *,
    rows: bool,
) -> list[dict[str, Any]]:
    """Tables, and their rows as `publisher` sees them; returns what was added to each table.

    Args:
        publisher: inside `reading`, if rows are brought.
        here: inside a transaction at the Subscriber.
        role: the application's, which may use the tables.
        rows: False: the rows are there already.
    """
    copies: list[dict[str, Any]] = []
    # what an agent brings is not for replication: no trigger of the user's sees it
    await here.execute("set local session_replication_role = replica")
    for article in articles:
        copies.append(await _bring_table(here, article))
        held = await describe(here, article.schema, article.table)
        if rows:
            columns = tables.copied_columns(article, held)
            await tables.fill(here, article, columns, rows_of(publisher, article, columns))
        await grant_tables(here, article.schema, article.table, role)
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
    """The article's foreign keys, once every table is there; returns the names of those added."""
    held = await describe(here, article.schema, article.table)
    known = {key.name for key in held.references}
    missing = [key for key in article.references if key.name not in known]
    for key in missing:
        await here.execute(tables.foreign_key_text(key).encode())
    return [key.name for key in missing]


async def _exists(connection: Connection, article: Article) -> bool:
    found = await connection.execute(
        "select to_regclass(%s) is not null",
        (f.table_of(article).as_string(connection),),
    )
    row = await found.fetchone()
    return row is not None and bool(row[0])


async def rows_of(
    connection: Connection, article: Article, columns: Sequence[str]
) -> AsyncIterator[bytes]:
    """COPY text of the rows that belong to an article."""
    condition = f.raw(article.row_filter) if article.row_filter else sql.SQL("true")
    command = sql.SQL("copy (select {} from {} where {}) to stdout").format(
        f.identifiers(columns), f.table_of(article), condition
    )
    async with connection.cursor() as cursor, cursor.copy(command) as copy:
        async for block in copy:
            yield bytes(block)


async def empty(here: Connection, articles: Sequence[Article]) -> None:
    """Take the copies' rows away, past every trigger; children refer to nothing afterwards."""
    await here.execute("set local session_replication_role = replica")
    for article in articles:
        await here.execute(sql.SQL("delete from {}").format(f.table_of(article)))
    await here.execute("set local session_replication_role to default")
