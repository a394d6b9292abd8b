"""Make a schema change at one node: alter the table, make what hangs on its columns again, and note the change, in one commit.

Which changes there may be is `twopc.publisher.merge.schema_changes`'s business. Every function takes an administrator's
connection (a superuser's).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc import names
from twopc.drivers.merge import tracking
from twopc.drivers.merge.tracking import StoredMergeArticle
from twopc.errors import MergeError
from twopc.merge.schema_changes import SchemaChange, SchemaChangeKind, SchemaMark, mark_of, widens
from twopc.sql import path
from twopc.sql.fragments import qualified, raw
from twopc.sql.merge_session_texts import SessionTexts
from twopc.sql.render import render

Connection = AsyncConnection[Any]

#: Agents that read wait for the first, those that write for the second.
_LOCK = (
    "lock table msrepl.msmerge_genhistory in share row exclusive mode",
    "lock table msrepl.sysmergeschemachange in access exclusive mode",
)
_CHANGES = """
select s.schemaversion, s.schemaguid, s.artid, s.schematype, s.column_name, s.column_number, s.column_type, s.column_default
from msrepl.sysmergeschemachange as s order by s.schemaversion
"""
_NOTE = """
insert into msrepl.sysmergeschemachange
    (schemaversion, schemaguid, artid, schematype, column_name, column_number, column_type, column_default)
values (%s, %s, %s, %s, %s, %s, %s, %s)
"""
_OWNER = """
select r.rolname::text from msrepl.sysmergearticles as a join pg_class as c on c.oid = a.objid
join pg_roles as r on r.oid = c.relowner where a.artid = %s
"""
#: A type by the name that its user knows it by; none that somebody has made, whose functions are code of theirs.
_TYPE = """
select format_type(t.oid, %(modifier)s) from pg_type as t
where t.oid = to_regtype(%(name)s) and t.typnamespace = 'pg_catalog'::regnamespace and t.typtype in ('b', 'r', 'm')
"""
_MODIFIER = "select to_regtypemod(%s)"
_HELD = """
select format_type(b.atttypid, b.atttypmod) from msrepl.sysmergearticles as a
join pg_attribute as b on b.attrelid = a.objid and b.attname = %s and not b.attisdropped
where a.artid = %s
"""
_COLUMNS = {
    SchemaChangeKind.ADD: (
        "update msrepl.sysmergearticles set columns = columns || %(column)s::text,"
        " column_numbers = column_numbers || %(number)s::integer where artid = %(artid)s"
    ),
    SchemaChangeKind.DROP: (
        "update msrepl.sysmergearticles set columns = array_remove(columns, %(column)s),"
        " column_numbers = array_remove(column_numbers, %(number)s) where artid = %(artid)s"
    ),
}
#: Rows on record have no value of a column that comes later.
_NOTE_MISSING = """
update msrepl.msmerge_conflicts_info set missing_columns = missing_columns || %s::integer where tablenick = %s
"""
#: Two changes of a column that is no more are no conflict.
_FORGET_VERSIONS = (
    "update {} as m set colv[%(number)s] = 0 where coalesce(m.colv[%(number)s], 0) <> 0"
)


def changes_of(rows: Iterable[Sequence[Any]]) -> list[SchemaChange]:
    """Schema changes as a node's list has them."""
    return [
        SchemaChange(
            version=version,
            guid=guid,
            artid=artid,
            kind=SchemaChangeKind(kind),
            column=column,
            number=number,
            type=type_,
            default=default,
        )
        for version, guid, artid, kind, column, number, type_, default in rows
    ]


async def schema_changes(connection: Connection) -> list[SchemaChange]:
    """The schema changes that a node has made, in order."""
    return changes_of(await (await connection.execute(_CHANGES)).fetchall())


async def adopt(connection: Connection, changes: Iterable[SchemaChange]) -> None:
    """Note changes after which a node's tables were made."""
    for change in changes:
        await _note(connection, change)


async def lock(connection: Connection) -> SchemaMark:
    """Have sessions wait until the transaction ends, and schema changes; the last that the node has made."""
    for statement in _LOCK:
        await connection.execute(statement.encode())
    return mark_of(await schema_changes(connection))


async def own_type(connection: Connection, written: str) -> str | None:
    """A type as this server calls it (`format_type`); None if it is none of PostgreSQL's own.

    Raises:
        psycopg.Error: the text is no type; the transaction goes on.
    """
    async with connection.transaction():
        [(modifier,)] = await (await connection.execute(_MODIFIER, (written,))).fetchall()
        cursor = await connection.execute(_TYPE, {"name": written, "modifier": modifier})
        row = await cursor.fetchone()
    return None if row is None else str(row[0])


async def replay(connection: Connection, change: SchemaChange, *, lock_timeout_ms: int) -> None:
    """Make a Publisher's change at a Subscriber, which is not there yet.

    Raises:
        MergeError: it is not the next one there; nothing is changed.
    """
    async with connection.transaction():
        await connection.execute(
            "select set_config('lock_timeout', %s, true)", (str(lock_timeout_ms),)
        )
        held = await lock(connection)
        if held.version + 1 != change.version:
            raise MergeError(
                f"schema change {change.version} is not the next of {connection.info.dbname!r}, which has made "
                f"{held.version}: another session was quicker; run it again"
            )
        await make(connection, change)


async def make(connection: Connection, change: SchemaChange) -> None:
    """Alter the table, and note it, in a transaction that has `lock`.

    Raises:
        psycopg.Error: the table cannot be altered so.
        MergeError: there is no such article, or the column cannot have that type.
    """
    stored = next(
        (each for each in await tracking.stored_articles(connection) if each.artid == change.artid),
        None,
    )
    if stored is None:
        raise MergeError(f"schema change {change.version} is of a table that is not merged here")
    await connection.execute(path.SET_LOCAL)
    if change.type is not None:
        await _check_type(connection, stored, change, change.type)
    await _alter(connection, stored, change)
    if (update := _COLUMNS.get(change.kind)) is not None:
        await connection.execute(
            update.encode(),
            {"column": change.column, "number": change.number, "artid": change.artid},
        )
    if change.kind is SchemaChangeKind.ADD:
        await connection.execute(_NOTE_MISSING, (change.number, stored.nickname))
    if change.kind is SchemaChangeKind.DROP:
        metadata = sql.Identifier(names.SCHEMA, names.merge_metadata(stored.nickname))
        forget = sql.SQL(_FORGET_VERSIONS).format(metadata)
        await connection.execute(forget, {"number": change.number})
    await _regenerate(connection, change)
    await _note(connection, change)


async def _check_type(
    connection: Connection, stored: StoredMergeArticle, change: SchemaChange, type_: str
) -> None:
    """Take no text for a type but the name by which this server knows one: it becomes part of a statement."""
    where = f"schema change {change.version} of table {stored.source_schema}.{stored.source_object}"
    try:
        name = await own_type(connection, type_)
    except psycopg.Error:
        name = None
    if name != type_:
        raise MergeError(
            f"{where}: database {connection.info.dbname!r} has no type {type_!r} of PostgreSQL's own for column "
            f"{change.column!r}: look at msrepl.sysmergeschemachange of its Publisher, or use a server of the same version"
        )
    if change.kind is SchemaChangeKind.WIDEN:
        cursor = await connection.execute(_HELD, (change.column, stored.artid))
        for (held,) in await cursor.fetchall():
            if held != type_ and not widens(held, type_):
                raise MergeError(
                    f"{where}: column {change.column!r} is {held} in database {connection.info.dbname!r}, and {type_} does "
                    "not take all of its values: it was altered by hand; alter it back"
                )


async def _alter(connection: Connection, stored: StoredMergeArticle, change: SchemaChange) -> None:
    """The article's table in its owner's name, and its conflict table in ours."""
    [(owner,)] = await (await connection.execute(_OWNER, (stored.artid,))).fetchall()
    function = sql.Identifier(names.SCHEMA, names.merge_object("alter", stored.artid))
    table = qualified(stored.source_schema, stored.source_object)
    losers = sql.Identifier(
        names.SCHEMA,
        names.merge_conflict_table(stored.publication, stored.source_schema, stored.source_object),
    )
    text = render(
        "twopc",
        "merge_alter_table",
        function=function,
        owner=sql.Identifier(owner),
        owner_text=sql.Literal(owner),
    )
    await connection.execute(text.encode())
    statement = _statement(table, change).as_string(connection)
    await connection.execute(sql.SQL("select {}(%s)").format(function), (statement,))
    await connection.execute(sql.SQL("drop function {}(text)").format(function))
    await connection.execute(_statement(losers, change, of_losers=True))


def _statement(
    table: sql.Identifier, change: SchemaChange, *, of_losers: bool = False
) -> sql.Composed:
    """The DDL of a change.

    Args:
        of_losers: for the table of rows that have lost conflicts, where an added column of earlier ones is NULL.
    """
    column = sql.Identifier(change.column)
    if change.kind is SchemaChangeKind.DROP:
        return sql.SQL("alter table {} drop column {}").format(table, column)
    assert change.type is not None
    if change.kind is SchemaChangeKind.WIDEN:
        return sql.SQL("alter table {} alter column {} type {}").format(
            table, column, raw(change.type)
        )
    statement = sql.SQL("alter table {} add column {} {}").format(table, column, raw(change.type))
    if change.default is None or of_losers:
        return statement
    return sql.SQL("{} default {}").format(statement, sql.Literal(change.default))


async def _regenerate(connection: Connection, change: SchemaChange) -> None:
    """What hangs on the columns of the table, as they are now."""
    owner = tracking.owner_role(connection.info.dbname)
    [stored] = [
        each for each in await tracking.stored_articles(connection) if each.artid == change.artid
    ]
    for article in await tracking.articles(connection):
        if article.artid == change.artid:
            for text in SessionTexts(article, owner, stored.publication).regenerated():
                await connection.execute(text.encode())


async def _note(connection: Connection, change: SchemaChange) -> None:
    await connection.execute(
        _NOTE.encode(),
        (
            change.version,
            change.guid,
            change.artid,
            change.kind.value,
            change.column,
            change.number,
            change.type,
            change.default,
        ),
    )
