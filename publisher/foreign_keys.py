"""Foreign keys between published tables: deferrable while they are published.

One statement at a Subscriber may change parents and children; its calls arrive one after the other, and
the keys are checked after the last one (`msrepl.defer_keys`). PostgreSQL defers a key only if it was
declared so, which changes nothing for anybody else: it stays initially immediate.
"""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, sql

Connection = AsyncConnection[Any]

_NOT_DEFERRABLE = """
select child.article_id, format('%%I.%%I', n.nspname, r.relname) as table, c.conname::text as key
from pg_constraint c
join pg_class r on r.oid = c.conrelid
join pg_namespace n on n.oid = r.relnamespace
join msrepl.sysarticles child on child.objid = c.conrelid
join msrepl.sysarticles parent on parent.objid = c.confrelid
where c.contype = 'f' and c.conparentid = 0 and not c.condeferrable
  and %(relid)s in (c.conrelid, c.confrelid)
order by 2, 3
"""

_ALTERED = """
select a.article_id, format('%%I.%%I', n.nspname, r.relname) as table, c.conname::text as key
from msrepl.sysarticles a
join pg_constraint c on c.conrelid = a.objid and c.contype = 'f' and c.conparentid = 0
                    and c.conname = any (a.altered_keys)
join pg_class r on r.oid = c.conrelid
join pg_namespace n on n.oid = r.relnamespace
where %(relid)s in (c.conrelid, c.confrelid)
order by 2, 3
"""


async def make_deferrable(connection: Connection, relid: int) -> None:
    """Make every key between this published table and published tables deferrable; note which were not."""
    for article, table, key in await _keys(connection, _NOT_DEFERRABLE, relid):
        await _alter(connection, table, key, "deferrable initially immediate")
        await connection.execute(
            "update msrepl.sysarticles set altered_keys = altered_keys || %s::text where article_id = %s",
            (key, article),
        )


async def restore(connection: Connection, relid: int) -> None:
    """Put back what `make_deferrable` changed, before the table's article goes."""
    for article, table, key in await _keys(connection, _ALTERED, relid):
        await _alter(connection, table, key, "not deferrable")
        await connection.execute(
            """
            update msrepl.sysarticles set altered_keys = array_remove(altered_keys, %s::text)
            where article_id = %s
            """,
            (key, article),
        )


async def _keys(connection: Connection, query: str, relid: int) -> list[tuple[int, str, str]]:
    cursor = await connection.execute(query, {"relid": relid})
    return [(article, table, key) for article, table, key in await cursor.fetchall()]


async def _alter(connection: Connection, table: str, key: str, how: str) -> None:
    # the table's name comes quoted from the server
    await connection.execute(
        sql.SQL("alter table {} alter constraint {} {}").format(
            sql.SQL(table), sql.Identifier(key), sql.SQL(how)
        )
    )
