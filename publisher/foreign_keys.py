"""Foreign keys between published tables, which are deferrable while the tables are published.

In transactional publications one statement at a Subscriber may change parents and children; its calls arrive one
after the other, and the keys are checked after the last one (`msrepl.defer_keys`). In merge publications rows
that refer to one another are written one after the other. PostgreSQL defers a key only if it was declared
deferrable, which changes nothing for other sessions: the key stays initially immediate.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from psycopg import AsyncConnection, sql

Connection = AsyncConnection[Any]


class ArticleTable(StrEnum):
    """The table of schema msrepl that has a row for each published table."""

    TRANSACTIONAL = "sysarticles"
    MERGE = "sysmergearticles"


_NOT_DEFERRABLE = """
select child.objid, format('%%I.%%I', n.nspname, r.relname) as table, c.conname::text as key
from pg_constraint c
join pg_class r on r.oid = c.conrelid
join pg_namespace n on n.oid = r.relnamespace
join msrepl.{articles} child on child.objid = c.conrelid
join msrepl.{articles} parent on parent.objid = c.confrelid
where c.contype = 'f' and c.conparentid = 0 and not c.condeferrable
  and %(relid)s in (c.conrelid, c.confrelid)
order by 2, 3
"""

_ALTERED = """
select a.objid, format('%%I.%%I', n.nspname, r.relname) as table, c.conname::text as key
from msrepl.{articles} a
join pg_constraint c on c.conrelid = a.objid and c.contype = 'f' and c.conparentid = 0
                    and c.conname = any (a.altered_keys)
join pg_class r on r.oid = c.conrelid
join pg_namespace n on n.oid = r.relnamespace
where %(relid)s in (c.conrelid, c.confrelid)
order by 2, 3
"""


async def make_deferrable(
    connection: Connection, relid: int, articles: ArticleTable = ArticleTable.TRANSACTIONAL
) -> None:
    """Make every key between this and other published tables deferrable; note which keys were not."""
    for child, table, key in await _keys(connection, _NOT_DEFERRABLE, articles, relid):
        await _alter(connection, table, key, "deferrable initially immediate")
        await _note(connection, "array_append", articles, child, key)


async def restore(
    connection: Connection, relid: int, articles: ArticleTable = ArticleTable.TRANSACTIONAL
) -> None:
    """Restore the keys that `make_deferrable` changed, before the table's article is removed."""
    for child, table, key in await _keys(connection, _ALTERED, articles, relid):
        await _alter(connection, table, key, "not deferrable")
        await _note(connection, "array_remove", articles, child, key)


async def _keys(
    connection: Connection, query: str, articles: ArticleTable, relid: int
) -> list[tuple[int, str, str]]:
    text = sql.SQL(query).format(articles=sql.Identifier(articles))
    cursor = await connection.execute(text, {"relid": relid})
    return [(child, table, key) for child, table, key in await cursor.fetchall()]


async def _note(
    connection: Connection, change: str, articles: ArticleTable, child: int, key: str
) -> None:
    await connection.execute(
        sql.SQL(
            "update msrepl.{} set altered_keys = {}(altered_keys, %s::text) where objid = %s"
        ).format(sql.Identifier(articles), sql.Identifier(change)),
        (key, child),
    )


async def _alter(connection: Connection, table: str, key: str, how: str) -> None:
    # the table's name comes quoted from the server
    await connection.execute(
        sql.SQL("alter table {} alter constraint {} {}").format(
            sql.SQL(table), sql.Identifier(key), sql.SQL(how)
        )
    )
