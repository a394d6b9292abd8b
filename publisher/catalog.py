"""Articles as stored in ``msrepl.sysarticles``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from twopc import names
from twopc.errors import ArticleError
from twopc.propagation import Propagation
from twopc.sql.fragments import qualified

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArticle:
    """A row of ``msrepl.sysarticles``, with the current state of its table."""

    article_id: int
    objid: int
    source_schema: str
    """Schema and name of the table when the procedures were generated."""
    source_object: str
    columns: tuple[str, ...] | None
    """Chosen columns, under their current names; None for all columns."""
    lost_columns: bool
    """Whether a chosen column has been dropped."""
    filter_clause: str | None
    added_version: bool
    stale: str | None
    propagation: dict[str, Any]
    """See `twopc.propagation.Propagation.from_json`."""
    destination_procedures: dict[str, str]
    """Names of the default procedures at Subscribers, by operation."""
    schema: str | None
    """Current schema and name of the table; None if it was dropped."""
    table: str | None


_STORED = """
select a.article_id, a.objid::bigint, a.source_schema, a.source_object, a.filter_clause,
       a.added_version, a.stale, a.propagation, a.destination_procedures, n.nspname::text as schema, c.relname::text as table,
       case when a.columns is not null then coalesce(
            (select array_agg(t.attname::text order by t.attnum) from pg_attribute t
             where t.attrelid = a.objid and t.attnum = any (a.columns) and not t.attisdropped),
            array[]::text[]) end as columns,
       a.columns is not null and exists (
            select from unnest(a.columns) as k(attnum)
            left join pg_attribute t on t.attrelid = a.objid and t.attnum = k.attnum
            where t.attnum is null or t.attisdropped) as lost_columns
from msrepl.sysarticles a
left join pg_class c on c.oid = a.objid
left join pg_namespace n on n.oid = c.relnamespace
"""


async def stored_articles(
    connection: Connection, condition: str, *arguments: Any
) -> list[StoredArticle]:
    """Return the articles that satisfy a condition (the end of a query), with the current state of their tables."""
    async with connection.cursor(row_factory=class_row(StoredArticle)) as cursor:
        await cursor.execute(f"{_STORED} {condition}".encode(), arguments or None)
        rows = await cursor.fetchall()
    return [
        dataclasses.replace(row, columns=tuple(row.columns)) if row.columns is not None else row
        for row in rows
    ]


async def find_article(connection: Connection, schema: str, table: str) -> StoredArticle | None:
    """Return the article of a table, by the table's current name or the one under which it was published."""
    result = await stored_articles(
        connection,
        "where (n.nspname, c.relname) = (%s, %s) or (a.source_schema, a.source_object) = (%s, %s) "
        "order by (n.nspname, c.relname) = (%s, %s) desc nulls last",
        *(schema, table) * 3,
    )
    return result[0] if result else None


async def get_article(connection: Connection, schema: str, table: str) -> StoredArticle:
    """Return the article of a table as `find_article` does.

    Raises:
        ArticleError: the table is not published.
    """
    stored = await find_article(connection, schema, table)
    if stored is None:
        everything = await stored_articles(connection, "order by 3, 4")
        known = [names.article_name(a.source_schema, a.source_object) for a in everything]
        raise ArticleError(
            f"table {schema}.{table} is not published; published are: {', '.join(known) or 'none'}"
        )
    return stored


async def fresh_articles(connection: Connection) -> list[StoredArticle]:
    """Return all articles, in the order of publication.

    Raises:
        ArticleError: the procedures of an article no longer fit its table.
    """
    result = await stored_articles(connection, "order by a.article_id")
    for stored in result:
        if stored.stale is not None:
            where = names.article_name(stored.source_schema, stored.source_object)
            raise ArticleError(
                f"table {where} cannot be subscribed to: {stored.stale}; "
                "`twopc regenerate` or `twopc unpublish` it first"
            )
    return result


async def register(
    connection: Connection,
    schema: str,
    table: str,
    columns: tuple[str, ...] | None,
    row_filter: str | None,
    propagation: Propagation,
    *,
    added_version: bool,
) -> None:
    """Insert an article, still without procedures."""
    await connection.execute(
        """
        insert into msrepl.sysarticles
            (objid, source_schema, source_object, columns, filter_clause, added_version,
             propagation, structure)
        select c.oid, %(schema)s, %(table)s,
               case when %(columns)s::text[] is not null then array(
                   select a.attnum from pg_attribute a
                   where a.attrelid = c.oid and a.attname = any (%(columns)s::text[])) end,
               %(filter)s, %(added)s, %(propagation)s, ''
        from pg_class c where c.oid = %(name)s::text::regclass
        """,
        {
            "schema": schema,
            "table": table,
            "columns": list(columns) if columns is not None else None,
            "filter": row_filter,
            "added": added_version,
            "propagation": Jsonb(propagation.as_json()),
            "name": qualified(schema, table).as_string(connection),
        },
    )


async def unguard(connection: Connection, article_id: int | None = None) -> None:
    """Allow changes of triggers and replica identities of an article's table, or of all, until `guard`."""
    await connection.execute(
        "update msrepl.sysarticles set fingerprints = null where article_id = coalesce(%s, article_id)",
        (article_id,),
    )


async def guard(connection: Connection, article_id: int | None = None) -> None:
    """Refuse changes of triggers and replica identities from now on: see ``msrepl.fingerprints``."""
    await connection.execute(
        "update msrepl.sysarticles set fingerprints = msrepl.fingerprints(objid) "
        "where article_id = coalesce(%s, article_id)",
        (article_id,),
    )
