"""Routines among the articles of a distribution database, and the set of routines whose calls are stored.

Every function takes an administrator's connection and does its work in one transaction.
"""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb

from twopc import names
from twopc.proc_execution import BESIDE, ProcArticle, ProcType, beside
from twopc.publisher.distribution.registry import ARTICLES_CHANGED

Connection = AsyncConnection[Any]


async def put_proc_article(
    connection: Connection, publisher_database_id: int, article: ProcArticle
) -> None:
    """Insert or update a routine: its calls under its number, its definitions under the second one
    (`twopc.proc_execution.beside`).
    """
    stored = article.as_json()
    del stored["definition"]
    async with connection.transaction():
        for number in (article.article_id, beside(article.article_id)):
            await connection.execute(
                """
                insert into msrepl.msarticles
                    (publisher_database_id, article_id, source_schema, source_object, columns, key, propagation,
                     procedures, kind, proc)
                values (%s, %s, %s, %s, '[]', '{}', '{}', '{}', 'proc', %s)
                on conflict (publisher_database_id, article_id) do update
                set (source_schema, source_object, proc)
                  = (excluded.source_schema, excluded.source_object, excluded.proc)
                """,
                (publisher_database_id, number, article.schema, article.name, Jsonb(stored)),
            )
        await connection.execute(f"notify {ARTICLES_CHANGED}".encode())


async def drop_proc_article(
    connection: Connection, publisher_database_id: int, article_id: int
) -> None:
    """Remove a routine with both numbers, and the subscriptions to them; do nothing if it does not exist."""
    at = (publisher_database_id, [article_id, beside(article_id)])
    async with connection.transaction():
        for table in ("mssubscriptions", "msarticles"):
            statement = sql.SQL(
                "delete from {} where publisher_database_id = %s and article_id = any (%s)"
            )
            await connection.execute(statement.format(sql.Identifier(names.SCHEMA, table)), at)
        await connection.execute(f"notify {ARTICLES_CHANGED}".encode())


async def proc_articles(
    connection: Connection, publisher_database_id: int
) -> tuple[ProcArticle, ...]:
    """Return the articles of a Publisher's database that are routines, by number; without definitions."""
    cursor = await connection.execute(
        "select proc from msrepl.msarticles "
        "where publisher_database_id = %s and kind = 'proc' and article_id < %s order by article_id",
        (publisher_database_id, BESIDE),
    )
    return tuple([ProcArticle.from_json(proc) for (proc,) in await cursor.fetchall()])


async def called(connection: Connection, publisher_database_id: int) -> frozenset[int]:
    """Return the routines whose calls are stored now."""
    cursor = await connection.execute(
        "select article_id from msrepl.msarticles where publisher_database_id = %s and calls",
        (publisher_database_id,),
    )
    return frozenset(number for (number,) in await cursor.fetchall())


async def wanted_calls(connection: Connection, publisher_database_id: int) -> frozenset[int]:
    """Return the routines whose calls should be stored: read-only Subscribers exist, and each has the routine.

    A switch must be made at both ends. On: first in the distribution database (`set_calls`), then at the
    Publisher (`twopc.publisher.proc_execution.set_called`); off: in the opposite order. A call that the
    Publisher has marked and that is read when the routine is off in the distribution database is sent as rows.
    """
    cursor = await connection.execute(
        """
        select a.article_id
        from msrepl.msarticles a
        where a.publisher_database_id = %(publisher)s and a.kind = 'proc' and a.article_id < %(beside)s
          and a.proc ->> 'type' <> %(schema_only)s and not (a.proc ->> 'commits')::boolean
          and exists (
              select from msrepl.mssubscriptions s
              where s.publisher_database_id = a.publisher_database_id and s.update_mode = 'read only')
          and not exists (
              select from msrepl.mssubscriptions s
              where s.publisher_database_id = a.publisher_database_id and s.update_mode = 'read only'
                and not exists (
                    select from msrepl.mssubscriptions p
                    where (p.publisher_database_id, p.article_id, p.subscriber)
                        = (s.publisher_database_id, a.article_id, s.subscriber) and p.status = 2))
        """,
        {
            "publisher": publisher_database_id,
            "beside": BESIDE,
            "schema_only": str(ProcType.SCHEMA_ONLY),
        },
    )
    return frozenset(number for (number,) in await cursor.fetchall())


async def set_calls(connection: Connection, publisher_database_id: int) -> frozenset[int]:
    """Store calls of the routines that `wanted_calls` returns, and of no others; return these routines."""
    async with connection.transaction():
        requested = await wanted_calls(connection, publisher_database_id)
        await connection.execute(
            """
            update msrepl.msarticles set calls = article_id = any (%(wanted)s)
            where publisher_database_id = %(publisher)s and kind = 'proc'
              and calls is distinct from (article_id = any (%(wanted)s))
            """,
            {"publisher": publisher_database_id, "wanted": list(requested)},
        )
    return requested
