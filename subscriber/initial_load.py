"""Load a Publisher's rows into a Subscriber's copy.

The loading role is a superuser, with whose privileges no code of a user's must run. So rows are loaded by COPY
directly only if COPY evaluates no code of a user's; otherwise they go through a temporary table and are inserted
with the privileges of the copy's role.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from enum import Enum, auto
from typing import Any

from psycopg import AsyncConnection, sql

from twopc.articles import Article
from twopc.errors import SubscriptionError
from twopc.sql import fragments as f
from twopc.subscriber.table_changes import changing

Connection = AsyncConnection[Any]

#: Whether PostgreSQL reads all values by its own code: built-in types, enums, and arrays of both.
_OWN_TYPES = """
select coalesce(bool_and(e.typtype = 'e'
       or e.typnamespace = 'pg_catalog'::regnamespace and e.typtype in ('b', 'r', 'm')), true)
from pg_attribute as a join pg_type as t on t.oid = a.atttypid
join pg_type as e on e.oid = case when t.typcategory = 'A' and t.typelem <> 0 then t.typelem else t.oid end
where a.attrelid = %(table)s::text::regclass and a.attnum > 0 and not a.attisdropped
"""
#: Whether a table belongs to the loading role, has no keys and no enabled triggers, and calls no code of a user's.
_BARE = """
select c.relkind = 'r' and not c.relhasindex and not c.relhassubclass and not c.relrowsecurity
   and c.relowner = (select r.oid from pg_roles as r where r.rolname = current_user)
   and not exists (select from pg_inherits as i where i.inhrelid = c.oid)
   and not exists (select from pg_trigger as g
                   where g.tgrelid = c.oid and not g.tgisinternal and g.tgenabled <> 'D')
   and not exists (select from pg_depend as d left join pg_type as y on y.oid = d.refobjid
                   where (d.classid, d.objid) in (
                             select 'pg_constraint'::regclass, k.oid from pg_constraint as k where k.conrelid = c.oid
                             union all
                             select 'pg_attrdef'::regclass, k.oid from pg_attrdef as k where k.adrelid = c.oid)
                     and (d.refclassid in ('pg_proc'::regclass, 'pg_operator'::regclass, 'pg_cast'::regclass)
                          or d.refclassid = 'pg_type'::regclass and y.typtype <> 'e'))
from pg_class as c where c.oid = %(table)s::text::regclass
"""


class _Way(Enum):
    COPY = auto()
    """COPY into the copy itself."""
    VALUES = auto()
    """Through a temporary table with the same column types."""
    TEXTS = auto()
    """Through a temporary table of text, since input functions of types may be a user's code as well."""


async def copy_in(
    connection: Connection,
    into: sql.Composable,
    blocks: AsyncIterable[bytes],
    *,
    binary: bool = False,
) -> None:
    """COPY blocks into a table; `into` may include a column list.

    Args:
        binary: whether the blocks are in COPY's binary format; otherwise they are text.
    """
    command = sql.SQL("copy {} from stdin (format {})").format(
        into, sql.SQL("binary" if binary else "text")
    )
    async with connection.cursor() as cursor, cursor.copy(command) as copy:
        async for block in blocks:
            await copy.write(block)


async def fill(
    connection: Connection,
    article: Article,
    columns: Sequence[str],
    blocks: AsyncIterable[bytes],
) -> None:
    """Load the Publisher's rows into an empty copy; inside a transaction.

    Args:
        blocks: COPY text of `columns`, in that order.

    Raises:
        SubscriptionError: the copy is not empty.
    """
    result = await connection.execute(sql.SQL("select from {} limit 1").format(f.table_of(article)))
    if result.rowcount:
        raise SubscriptionError(
            f"table {article.name} at {connection.info.dbname!r} is not empty: the initial copy "
            "would mix with its rows; empty it first"
        )
    await add_rows(connection, article, columns, blocks)


async def add_rows(
    connection: Connection,
    article: Article,
    columns: Sequence[str],
    blocks: AsyncIterable[bytes],
    *,
    binary: bool = False,
) -> None:
    """Load further rows of the Publisher into a copy; inside a transaction.

    Args:
        blocks: values of `columns`, in that order, in COPY format.
        binary: whether the blocks are in binary format.

    Raises:
        SubscriptionError: a column has a type whose values cannot be read in binary format.
    """
    table = f.table_of(article)
    match await _way(connection, table):
        case _Way.COPY:
            into = sql.SQL("{} ({})").format(table, f.identifiers(columns))
            await copy_in(connection, into, blocks, binary=binary)
        case _Way.VALUES:
            await _add_values(connection, article, columns, blocks, binary=binary)
        case _Way.TEXTS:
            if binary:
                raise SubscriptionError(
                    f"table {article.name} at {connection.info.dbname!r} has columns of types of users, which cannot be "
                    "filled in binary format: make a snapshot in text"
                )
            await _add_texts(connection, article, columns, blocks)


async def _way(connection: Connection, table: sql.Composable) -> _Way:
    names = {"table": table.as_string(connection)}
    if await (await connection.execute(_OWN_TYPES, names)).fetchone() != (True,):
        return _Way.TEXTS
    is_bare = await (await connection.execute(_BARE, names)).fetchone() == (True,)
    return _Way.COPY if is_bare else _Way.VALUES


async def _add_values(
    connection: Connection,
    article: Article,
    columns: Sequence[str],
    blocks: AsyncIterable[bytes],
    *,
    binary: bool,
) -> None:
    table, names = f.table_of(article), f.identifiers(columns)
    await connection.execute(
        sql.SQL("create temp table msrepl_stage as select {} from {} with no data").format(
            names, table
        )
    )
    await copy_in(connection, sql.SQL("pg_temp.msrepl_stage"), blocks, binary=binary)
    async with changing(connection, article) as change:
        await connection.execute("grant select on pg_temp.msrepl_stage to public")
        await change(
            sql.SQL(
                "insert into {} ({}) overriding system value select s.* from pg_temp.msrepl_stage as s"
            ).format(table, names)
        )
    await connection.execute("drop table pg_temp.msrepl_stage")


async def _add_texts(
    connection: Connection,
    article: Article,
    columns: Sequence[str],
    blocks: AsyncIterable[bytes],
) -> None:
    table = f.table_of(article)
    texts = f.numbered("c", len(columns))
    await connection.execute(
        sql.SQL("create temp table msrepl_stage ({})").format(
            f.COMMA.join([sql.SQL("{} text").format(sql.Identifier(name)) for name in texts])
        )
    )
    await copy_in(connection, sql.SQL("pg_temp.msrepl_stage"), blocks)
    async with changing(connection, article) as change:
        await connection.execute("grant select on pg_temp.msrepl_stage to public")
        await connection.execute(
            sql.SQL("create temp table msrepl_shape as select {} from {} with no data").format(
                f.identifiers(columns), table
            )
        )
        # text up to this point: the input function of a type may be a user's code, too
        await change(
            sql.SQL(
                "insert into {} ({}) overriding system value select r.* from pg_temp.msrepl_stage as s,"
                " lateral (select (row(s.*)::pg_catalog.text)::pg_temp.msrepl_shape as v offset 0) as q,"
                " lateral (select (q.v).*) as r"
            ).format(table, f.identifiers(columns))
        )
    await connection.execute("drop table pg_temp.msrepl_stage, pg_temp.msrepl_shape")
