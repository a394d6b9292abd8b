"""A Subscriber's copy of a published table: creation from the article, and comparison with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc import names
from twopc.articles import Article, Column, ForeignKey, Table, UniqueKey
from twopc.errors import SubscriptionError
from twopc.sql import fragments as f
from twopc.sql.user_types import types_by_name

Connection = AsyncConnection[Any]


def create_table_text(article: Article) -> str:
    """Return the DDL of the copy.

    Columns whose values the Publisher generates (identity, sequences) are plain in the copy: their values come
    over the link. Other defaults are copied, so that INSERT ... RETURNING shows them. CHECK constraints are
    copied if they use built-in functions and published columns only, so that a bad value is refused before it is
    sent; other CHECK constraints are checked at the Publisher alone.
    """
    definitions = [_definition(column) for column in article.columns]
    definitions += [
        sql.SQL("constraint {} {}").format(sql.Identifier(unique.name), f.raw(unique.constraint))
        for unique in article.uniques
        if unique.constraint is not None
    ]
    definitions += [
        sql.SQL("constraint {} {}").format(sql.Identifier(check.name), f.raw(check.definition))
        for check in article.checks
    ]
    create = sql.SQL("create table {} (\n    {}\n)").format(
        f.table_of(article), sql.SQL(",\n    ").join(definitions)
    )
    indexes = [unique.index for unique in article.uniques if unique.constraint is None]
    return ";\n".join([create.as_string(None), *indexes])


def unique_key_texts(article: Article, uniques: Sequence[UniqueKey]) -> list[str]:
    """Return the DDL of unique keys on a table that was created without them."""
    texts = []
    for unique in uniques:
        if unique.constraint is None:
            texts.append(unique.index)
            continue
        add = sql.SQL("alter table {} add constraint {} {}").format(
            f.table_of(article), sql.Identifier(unique.name), f.raw(unique.constraint)
        )
        texts.append(add.as_string(None))
    return texts


def _definition(column: Column) -> sql.Composed:
    parts: list[sql.Composable] = [sql.Identifier(column.name), f.raw(column.type)]
    if column.collation:
        parts.append(sql.SQL("collate {}").format(f.raw(column.collation)))
    if column.generated:
        kind = "stored" if column.generated == "s" else "virtual"
        parts.append(sql.SQL("generated always as ({}) " + kind).format(f.raw(str(column.default))))
    elif column.default is not None and not column.made_by_publisher:
        parts.append(sql.SQL("default {}").format(f.raw(column.default)))
    if column.not_null:
        parts.append(sql.SQL("not null"))
    return sql.SQL(" ").join(parts)


def foreign_key_text(key: ForeignKey, *, deferrable: bool = False) -> str:
    """Return the DDL of a foreign key between two subscribed tables.

    Args:
        deferrable: whether agents must be able to defer the key. A key that its owner has made initially deferred is
            deferrable in any case; whether another one was deferrable, or publishing has made it so, is not known.
    """
    parts = [
        sql.SQL("alter table {} add constraint {}").format(
            f.qualified(key.schema, key.table), sql.Identifier(key.name)
        ),
        f.raw(key.definition),
    ]
    if key.deferred:
        parts.append(sql.SQL("deferrable initially deferred"))
    elif deferrable:
        parts.append(sql.SQL("deferrable"))
    if not key.validated:
        parts.append(sql.SQL("not valid"))
    return sql.SQL(" ").join(parts).as_string(None)


async def create_table(connection: Connection, article: Article) -> None:
    """Create the copy, and the missing types that it needs.

    Raises:
        SubscriptionError: a type, collation or function that a column needs cannot be created.
    """
    where = f"table {article.name} cannot be created at {connection.info.dbname!r}"
    try:
        async with connection.transaction():
            await _create_schema(connection, article.schema)
            await create_types(connection, article)
            await connection.execute(create_table_text(article))
    except (psycopg.errors.UndefinedObject, psycopg.errors.UndefinedFunction) as error:
        raise SubscriptionError(
            f"{where}: {error.diag.message_primary}; create it there first"
        ) from error
    except psycopg.errors.DuplicateTable as error:
        raise SubscriptionError(
            f"{where}: {error.diag.message_primary}, as an index or another object of its own; "
            "drop or rename it"
        ) from error


async def _create_schema(connection: Connection, schema: str) -> None:
    name = sql.Identifier(schema)
    await connection.execute(sql.SQL("create schema if not exists {}").format(name))


async def create_types(connection: Connection, article: Article) -> None:
    """Create the enums, domains, composites and ranges that the columns need; compare those that exist.

    Raises:
        SubscriptionError: a type differs from the Publisher's, or comes from an extension that is not
            installed in this database.
    """
    held = await types_by_name(connection, [t.name for t in article.types])
    for needed in article.types:
        result = held.get(needed.name)
        where = f"type {needed.name}, needed by column {needed.columns[0]!r} of {article.name},"
        if result is not None:
            if result.definition != needed.definition:
                raise SubscriptionError(
                    f"{where} differs at {connection.info.dbname!r}: it is {result.definition!r}, the "
                    f"Publisher's is {needed.definition!r}; ALTER or drop it there"
                )
        elif needed.definition is not None:
            await _create_schema(connection, needed.schema)
            await connection.execute(needed.definition.encode())
        elif needed.extension is not None:
            raise SubscriptionError(
                f"{where} comes with extension {needed.extension!r}, which is not at "
                f"{connection.info.dbname!r}: CREATE EXTENSION {needed.extension} there first, in "
                f"schema {needed.schema!r}"
            )
        else:
            raise SubscriptionError(
                f"{where} is not at {connection.info.dbname!r} and is no enum, domain, composite or "
                "range: create it there first"
            )


async def adopt_table(connection: Connection, article: Article, table: Table) -> bool:
    """Make an existing table the copy; its columns must be those of the article.

    Returns:
        Whether the row version column was added.

    Raises:
        SubscriptionError: names the first difference, and the remedy.
    """
    check_same_shape(article, table)
    await create_types(connection, article)
    if any(column.name == names.VERSION_COLUMN for column in table.columns):
        return False
    await connection.execute(
        sql.SQL("alter table {} add column {}").format(
            f.table_of(article), _definition(article.version)
        )
    )
    return True


def check_same_shape(article: Article, table: Table) -> None:
    """Check that a table can be the copy: its columns are those of the article.

    The Subscriber's own columns are allowed if they are nullable or have a default.

    Raises:
        SubscriptionError: names the first difference, and the remedy.
    """
    where = f"table {table.schema}.{table.name} of the Subscriber"
    if table.kind not in ("r", "p") or table.persistence != "p" or table.is_partition:
        raise SubscriptionError(f"{where} is not an ordinary table: rename or drop it")
    held = {column.name: column for column in table.columns}
    for column in article.columns:
        if column.name in held:
            _check_same_column(where, column, held.pop(column.name))
        elif column.name != names.VERSION_COLUMN:
            raise SubscriptionError(
                f"{where} has no column {column.name!r} ({column.type} at the Publisher): "
                "ALTER TABLE ... ADD COLUMN, or drop the table and let it be created"
            )
    for column in held.values():
        if column.not_null and not (column.default or column.identity or column.generated):
            raise SubscriptionError(
                f"{where}: column {column.name!r} is not published and NOT NULL without a default, so "
                "rows of the Publisher cannot be stored: ALTER TABLE ... DROP COLUMN, or give it a default"
            )
    if table.key != article.key:
        raise SubscriptionError(
            f"{where} has primary key ({', '.join(table.key) or 'none'}), the Publisher's is "
            f"({', '.join(article.key)})"
        )


def check_ways_in(table: Table) -> None:
    """Check that rows of a table change only by statements that name the table, and that no rule rewrites.

    Raises:
        SubscriptionError: names the reason, and the remedy.
    """
    where = f"table {table.schema}.{table.name} of the Subscriber"
    if table.inherits:
        raise SubscriptionError(
            f"{where} has a parent or children by INHERITS, through which changes would pass unseen: "
            "use partitions, or ALTER TABLE ... NO INHERIT"
        )
    if table.has_rules:
        raise SubscriptionError(
            f"{where} has rules, which would rewrite changes before they are captured: DROP RULE first"
        )


def _check_same_column(where: str, published: Column, held: Column) -> None:
    where = f"{where}: column {published.name!r}"
    if held.type != published.type:
        raise SubscriptionError(
            f"{where} is {held.type}, the Publisher's is {published.type}: "
            f"ALTER TABLE ... ALTER COLUMN ... TYPE {published.type}"
        )
    if held.not_null and not published.not_null:
        raise SubscriptionError(
            f"{where} is NOT NULL, the Publisher's may be NULL: ALTER COLUMN ... DROP NOT NULL"
        )
    if held.generated and not published.generated:
        raise SubscriptionError(
            f"{where} is generated, the Publisher's takes values: ALTER COLUMN ... DROP EXPRESSION"
        )
    if published.made_by_publisher and held.identity:
        raise SubscriptionError(
            f"{where} makes numbers of its own, which the Publisher makes: ALTER COLUMN ... DROP IDENTITY"
        )
    if published.made_by_publisher and held.default is not None:
        raise SubscriptionError(
            f"{where} has the default {held.default}, but the Publisher makes its values: "
            "ALTER COLUMN ... DROP DEFAULT"
        )


def copied_columns(article: Article, held: Table) -> Sequence[str]:
    """Return the columns of the initial copy: all except those that the Subscriber's own table generates."""
    generated = {column.name for column in held.columns if column.generated}
    return [column.name for column in article.columns if column.name not in generated]
