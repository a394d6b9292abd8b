"""Schema changes at one node: alter the table, regenerate the objects that depend on its columns, and record the
change, in one commit.

`twopc.publisher.merge.schema_changes` decides which changes are allowed. Every function takes an administrator's
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

#: Agents that read wait for the first lock, agents that write for the second.
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
#: Name of a built-in type; user-defined types are excluded, because their functions are code of other roles.
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
#: Recorded rows have no value of a column that is added later.
_NOTE_MISSING = """
update msrepl.msmerge_conflicts_info set missing_columns = missing_columns || %s::integer where tablenick = %s
"""
#: Two changes of a dropped column are no conflict.
_FORGET_VERSIONS = (
    "update {} as m set colv[%(number)s] = 0 where coalesce(m.colv[%(number)s], 0) <> 0"
)


def changes_of(rows: Iterable[Sequence[Any]]) -> list[SchemaChange]:
    """Return schema changes from rows of a node's list."""
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
    """Return the schema changes that a node has performed, in order."""
    return changes_of(await (await connection.execute(_CHANGES)).fetchall())


async def adopt(connection: Connection, changes: Iterable[SchemaChange]) -> None:
    """Record changes that a node's tables already include."""
    for change in changes:
        await _note(connection, change)


async def lock(connection: Connection) -> SchemaMark:
    """Block sessions and schema changes until the transaction ends, and return the mark of the node's last change."""
    for statement in _LOCK:
        await connection.execute(statement.encode())
    return mark_of(await schema_changes(connection))


async def own_type(connection: Connection, written: str) -> str | None:
    """Return a type by this server's name (`format_type`); None if it is not a built-in type.

    Raises:
        psycopg.Error: the text is not a type; the transaction can continue.
    """
    async with connection.transaction():
        [(modifier,)] = await (await connection.execute(_MODIFIER, (written,))).fetchall()
        cursor = await connection.execute(_TYPE, {"name": written, "modifier": modifier})
        row = await cursor.fetchone()
    return None if row is None else str(row[0])


async def replay(connection: Connection, change: SchemaChange, *, lock_timeout_ms: int) -> None:
    """Perform a Publisher's change at a Subscriber that has not performed it yet.

    Raises:
        MergeError: the change is not the next one for the Subscriber; nothing is changed.
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
    """Alter the table, and record the change, in a transaction that has called `lock`.

    Raises:
        psycopg.Error: the table cannot be altered in this way.
        MergeError: the article does not exist, or the column cannot have that type.
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
    """Check that the text of a type is this server's name of a built-in type, since it becomes part of a statement."""
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
    """Alter the article's table as its owner, and its conflict table as ours."""
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
    """Return the DDL of a change.

    Args:
        of_losers: whether the table is the one of rows that lost conflicts, where an added column of earlier rows
            is NULL.
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
    """Regenerate the objects that depend on the table's columns."""
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
