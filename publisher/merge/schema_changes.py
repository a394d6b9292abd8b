"""Changes of columns of subscribed articles: checks, and the change at the Publisher.

Subscribers make the same change in their next session, before any row is exchanged. Every function takes an
administrator's connection (a superuser's) and does its work in one transaction.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc.articles import Column, Table
from twopc.drivers.merge import partitions, schema_changes, tracking
from twopc.drivers.merge.rows import article_named
from twopc.drivers.merge.tracking import StoredMergeArticle
from twopc.errors import ArticleError
from twopc.merge.schema_changes import SchemaChange, SchemaChangeKind, widens
from twopc.publisher.merge.publication import check_table
from twopc.publisher.merge.resolvers import check_resolver
from twopc.publisher.row_filter import read_filter
from twopc.sql.describe import describe
from twopc.sql.fragments import raw

Connection = AsyncConnection[Any]

LOCK_TIMEOUT_MS = 5000
"""Time that a change waits for sessions and applications, while others wait for the change."""

NAME_BYTES_MAX = 63
"""Maximum length of a name; PostgreSQL truncates longer ones."""

_IS_SUBSCRIBER = "select exists (select from msrepl.sysmergesubscriptions as s where s.is_publisher and not s.is_self)"
#: Objects that are dropped silently with a column.
_INVOLVED = """
select format('key or constraint %%I', k.conname) from pg_constraint as k join pg_attribute as a
    on a.attrelid = %(table)s::text::regclass and a.attname = %(column)s
where (k.conrelid = a.attrelid and a.attnum = any (k.conkey)) and k.contype <> 'n'
    or k.confrelid = a.attrelid and a.attnum = any (k.confkey)
union all
select format('index %%s', i.indexrelid::regclass) from pg_index as i join pg_attribute as a
    on a.attrelid = %(table)s::text::regclass and a.attname = %(column)s
where i.indrelid = a.attrelid and exists (
    select from pg_depend as d where d.classid = 'pg_class'::regclass and d.objid = i.indexrelid
        and d.refclassid = 'pg_class'::regclass and d.refobjid = a.attrelid and d.refobjsubid = a.attnum)
order by 1
"""
_JOINS = """
select j.join_filterclause from msrepl.sysmergesubsetfilters as j where j.artid = %(artid)s or j.join_articleid = %(artid)s
"""


async def add_column(
    connection: Connection, table: str, column: str, type_: str, *, default: str | None = None
) -> SchemaChange:
    """Add a column to an article (sp_repladdcolumn): nullable, or with a constant default, which all rows get.

    Args:
        table: its name, or ``schema.name``.
        type_: a built-in type, with a modifier if necessary: ``numeric(10,2)``.
        default: the text of a constant.

    Raises:
        ArticleError: the column cannot be added; nothing is changed.
    """
    async with connection.transaction():
        stored, described, where = await _begin(connection, table)
        if len(column.encode()) > NAME_BYTES_MAX:
            raise ArticleError(
                f"{where}: the name of column {column!r} has {len(column.encode())} bytes: give it at most {NAME_BYTES_MAX}"
            )
        if any(each.name == column for each in described.columns):
            raise ArticleError(
                f"{where} has a column {column!r} already"
                + (
                    ""
                    if column in (*stored.columns, stored.rowguid)
                    else ", which does not travel: drop it, and add it again by this command"
                )
            )
        canonical = await _own_type(connection, where, column, type_)
        added = Column(name=column, type=canonical, monetary=canonical.startswith("money"))
        check_table(replace(described, columns=(*described.columns, added)), where)
        if default is not None:
            default = await _constant(connection, where, column, canonical, default)
        return await _make(
            connection,
            stored,
            where,
            SchemaChangeKind.ADD,
            column,
            type_=canonical,
            default=default,
        )


async def drop_column(connection: Connection, table: str, column: str) -> SchemaChange:
    """Drop a column of an article (sp_repldropcolumn), with its values at every node.

    Raises:
        ArticleError: rows are identified or filtered by the column, or another object depends on it; nothing is
            changed.
    """
    async with connection.transaction():
        stored, described, where = await _begin(connection, table)
        await _refuse_needed(connection, stored, described, column, where)
        if len(stored.columns) == 1:
            raise ArticleError(
                f"{where} has no column besides {column!r} and the one by which its rows are known: unpublish it instead"
            )
        return await _make(connection, stored, where, SchemaChangeKind.DROP, column)


async def widen_column(connection: Connection, table: str, column: str, type_: str) -> SchemaChange:
    """Change the type of an article's column to one with a wider range of values.

    Raises:
        ArticleError: the type cannot represent all values of the present one, or the column cannot have it;
            nothing is changed.
    """
    async with connection.transaction():
        stored, described, where = await _begin(connection, table)
        held = _propagated_column(stored, described, column, where)
        await _refuse_filtered(connection, stored, described, column, where)
        canonical = await _own_type(connection, where, column, type_)
        if not widens(held.type, canonical):
            raise ArticleError(
                f"{where}: column {column!r} is {held.type}, and {canonical} does not take all of its values: name a "
                "wider type of the same sort"
            )
        return await _make(
            connection, stored, where, SchemaChangeKind.WIDEN, column, type_=canonical
        )


async def _begin(connection: Connection, table: str) -> tuple[StoredMergeArticle, Table, str]:
    """Lock out sessions and other changes; return the article, its table, and the table's name for messages."""
    if await (await connection.execute(_IS_SUBSCRIBER)).fetchone() == (True,):
        raise ArticleError(
            f"table {table}: {connection.info.dbname!r} subscribes to it: change columns at the topmost Publisher"
        )
    await connection.execute("select set_config('lock_timeout', %s, true)", (str(LOCK_TIMEOUT_MS),))
    try:
        await schema_changes.lock(connection)
    except psycopg.errors.LockNotAvailable as error:
        raise _busy(f"table {table}") from error
    stored = await article_named(connection, table)
    where = f"table {stored.source_schema}.{stored.source_object}"
    cursor = await connection.execute(
        "select f.what, f.remedy from msrepl.merge_faults() as f where f.artid = %s",
        (stored.artid,),
    )
    if (fault := await cursor.fetchone()) is not None:
        raise ArticleError(f"{where} {fault[0]}: {fault[1]}")
    return stored, await describe(connection, stored.source_schema, stored.source_object), where


def _busy(where: str) -> ArticleError:
    return ArticleError(
        f"{where} was in use for {LOCK_TIMEOUT_MS} ms, by a session or an application: try again"
    )


def _propagated_column(
    stored: StoredMergeArticle, described: Table, column: str, where: str
) -> Column:
    """Return a column that is propagated.

    Raises:
        ArticleError: the column is not propagated, or cannot be changed.
    """
    if column == stored.rowguid:
        raise ArticleError(
            f"{where}: rows are known by column {column!r} at every node: it stays as it is while the table is merged"
        )
    held = next((each for each in described.columns if each.name == column), None)
    if column == stored.identity_column:
        raise ArticleError(
            f"{where}: column {column!r} has identity ranges: unsubscribe every Subscriber, unpublish the table, and "
            "publish it again"
        )
    if held is None or column not in stored.columns:
        raise ArticleError(
            f"{where}: no column {column!r} travels; those that do: {', '.join(stored.columns)}"
        )
    return held


async def _refuse_needed(
    connection: Connection, stored: StoredMergeArticle, described: Table, column: str, where: str
) -> None:
    _propagated_column(stored, described, column, where)
    if column in (described.key or ()):
        raise ArticleError(
            f"{where}: column {column!r} belongs to the primary key: unsubscribe every Subscriber, unpublish the table, "
            "and publish it again with another key"
        )
    await _refuse_filtered(connection, stored, described, column, where)
    cursor = await connection.execute(
        _INVOLVED, {"table": _name(stored).as_string(connection), "column": column}
    )
    if involved := [each for (each,) in await cursor.fetchall()]:
        raise ArticleError(
            f"{where}: column {column!r} belongs to {', '.join(involved)}: drop that first, at every node"
        )


async def _refuse_filtered(
    connection: Connection, stored: StoredMergeArticle, described: Table, column: str, where: str
) -> None:
    held = await partitions.stored_filter(connection, stored.artid)
    is_used = False
    if held is not None and held.condition is not None:
        is_used = column in (await read_filter(connection, described, held.condition)).columns
    cursor = await connection.execute(_JOINS, {"artid": stored.artid})
    word = re.compile(rf'(?<!\w)"?{re.escape(column)}"?(?!\w)')
    if is_used or any(word.search(text) for (text,) in await cursor.fetchall()):
        raise ArticleError(
            f"{where}: filters look at column {column!r}: unsubscribe every Subscriber, unpublish the table, and publish "
            "it again with other filters"
        )


def _name(stored: StoredMergeArticle) -> sql.Identifier:
    return sql.Identifier(stored.source_schema, stored.source_object)


async def _own_type(connection: Connection, where: str, column: str, type_: str) -> str:
    """Return the server's name of a built-in type."""
    problem = f"{where}: column {column!r} cannot be {type_}"
    try:
        name = await schema_changes.own_type(connection, type_)
    except psycopg.Error as error:
        raise ArticleError(f"{problem}: {error.diag.message_primary or error}") from error
    if name is None:
        raise ArticleError(
            f"{problem}: name a type of PostgreSQL's own, such as text or numeric(10,2)"
        )
    return name


async def _constant(
    connection: Connection, where: str, column: str, type_: str, default: str
) -> str:
    """Return the text of a default that every node reads alike, unlike ``now`` or a time zone's name."""
    query = sql.SQL("select ({}::{})::text").format(sql.Literal(default), raw(type_))
    # a cast would truncate a value that is too long
    fits = "select e.message from pg_input_error_info(%s, %s) as e where e.message is not null"
    try:
        async with connection.transaction():
            row = await (await connection.execute(fits, (default, type_))).fetchone()
            [(text,)] = await (await connection.execute(query)).fetchall()
    except psycopg.Error as error:
        raise ArticleError(
            f"{where}: default {default!r} of column {column!r} is no constant of type {type_}: "
            f"{error.diag.message_primary or error}"
        ) from error
    if row is not None:
        raise ArticleError(
            f"{where}: default {default!r} of column {column!r} is no constant of type {type_}: {row[0]}"
        )
    return str(text)


async def _make(
    connection: Connection,
    stored: StoredMergeArticle,
    where: str,
    kind: SchemaChangeKind,
    column: str,
    *,
    type_: str | None = None,
    default: str | None = None,
) -> SchemaChange:
    """Make the change, append it to the list of changes, and delete snapshots made before it."""
    made = await schema_changes.schema_changes(connection)
    [(guid,)] = await (await connection.execute("select gen_random_uuid()")).fetchall()
    change = SchemaChange(
        version=len(made) + 1,
        guid=guid,
        artid=stored.artid,
        kind=kind,
        column=column,
        number=_number(stored, made, kind, column),
        type=type_,
        default=default,
    )
    try:
        async with connection.transaction():
            await schema_changes.make(connection, change)
    except psycopg.errors.LockNotAvailable as error:
        raise _busy(where) from error
    except psycopg.Error as error:
        raise ArticleError(
            f"{where}: column {column!r} cannot be changed so: {error.diag.message_primary or error}"
            + (f": {error.diag.message_detail}" if error.diag.message_detail else "")
        ) from error
    for article in await tracking.articles(connection):
        if article.artid == stored.artid:
            check_resolver(article, where)
    await connection.execute("delete from msrepl.msmerge_dynamic_snapshots")
    return change


def _number(
    stored: StoredMergeArticle, made: Sequence[SchemaChange], kind: SchemaChangeKind, column: str
) -> int:
    """Return the number of the column's version: a new column gets a number that no column has had."""
    if kind is not SchemaChangeKind.ADD:
        return stored.column_numbers[stored.columns.index(column)]
    return 1 + max(
        (*stored.column_numbers, *(each.number for each in made if each.artid == stored.artid)),
        default=0,
    )
