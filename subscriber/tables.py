"""A Subscriber's copy of a published table: made from the article, filled, and compared with it."""

from __future__ import annotations

from collections.abc import AsyncIterable, Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc import names
from twopc.articles import Article, Column, ForeignKey, Table
from twopc.errors import SubscriptionError
from twopc.sql import fragments as f

Connection = AsyncConnection[Any]


def create_table_text(article: Article) -> str:
    """DDL of the copy.

    Columns whose values the Publisher makes (identity, sequences) are plain here: the values come over
    the link. Other defaults are copied, so that INSERT ... RETURNING shows them.
    """
    definitions = [_definition(column) for column in article.columns]
    definitions.append(sql.SQL("primary key ({})").format(f.identifiers(article.key)))
    definitions += [
        sql.SQL("constraint {} unique ({})").format(sql.Identifier(name), f.identifiers(columns))
        for name, columns in article.uniques
        if set(columns) != set(article.key)
    ]
    return (
        sql.SQL("create table {} (\n    {}\n)")
        .format(f.table_of(article), sql.SQL(",\n    ").join(definitions))
        .as_string(None)
    )


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


def foreign_key_text(key: ForeignKey) -> str:
    """DDL of a foreign key between two subscribed tables."""
    actions = {
        "a": "no action",
        "r": "restrict",
        "c": "cascade",
        "n": "set null",
        "d": "set default",
    }
    return (
        sql.SQL(
            "alter table {table} add constraint {name} foreign key ({columns}) references {target} "
            "({target_columns}) on delete {on_delete} on update {on_update}"
        )
        .format(
            table=f.qualified(key.schema, key.table),
            name=sql.Identifier(key.name),
            columns=f.identifiers(key.columns),
            target=f.qualified(key.target_schema, key.target_table),
            target_columns=f.identifiers(key.target_columns),
            on_delete=sql.SQL(actions[key.on_delete]),
            on_update=sql.SQL(actions[key.on_update]),
        )
        .as_string(None)
    )


async def create_table(connection: Connection, article: Article) -> None:
    """Create the copy.

    Raises:
        SubscriptionError: a type, collation or function that a column needs is not there.
    """
    schema = sql.Identifier(article.schema)
    try:
        async with connection.transaction():
            await connection.execute(sql.SQL("create schema if not exists {}").format(schema))
            await connection.execute(create_table_text(article))
    except (psycopg.errors.UndefinedObject, psycopg.errors.UndefinedFunction) as error:
        raise SubscriptionError(
            f"table {article.name} cannot be created at {connection.info.dbname!r}: "
            f"{error.diag.message_primary}; create it there first"
        ) from error


def check_same_shape(article: Article, table: Table) -> None:
    """Refuse an existing table whose columns are not those of the article.

    Raises:
        SubscriptionError: names the first column that differs, and how.
    """
    where = f"table {table.schema}.{table.name} of the Subscriber"
    held = {column.name: column for column in table.columns}
    for column in article.columns:
        if column.name not in held:
            if column.name == names.VERSION_COLUMN:
                continue
            raise SubscriptionError(
                f"{where} has no column {column.name!r} ({column.type} at the Publisher): "
                "ALTER TABLE ... ADD COLUMN, or drop the table and let it be created"
            )
        if held[column.name].type != column.type:
            raise SubscriptionError(
                f"{where}: column {column.name!r} is {held[column.name].type}, the Publisher's is "
                f"{column.type}: ALTER TABLE ... ALTER COLUMN ... TYPE {column.type}"
            )
    if table.key != article.key:
        raise SubscriptionError(
            f"{where} has primary key ({', '.join(table.key) or 'none'}), the Publisher's is "
            f"({', '.join(article.key)})"
        )


def copied_columns(article: Article) -> Sequence[str]:
    """What the initial copy carries: all but generated columns."""
    return [column.name for column in article.value_columns]


async def fill(connection: Connection, article: Article, blocks: AsyncIterable[bytes]) -> None:
    """Load the Publisher's rows into an empty copy.

    Args:
        blocks: COPY text of `copied_columns`, in that order.

    Raises:
        SubscriptionError: the copy is not empty.
    """
    table = f.table_of(article)
    found = await connection.execute(sql.SQL("select from {} limit 1").format(table))
    if found.rowcount:
        raise SubscriptionError(
            f"table {article.name} at {connection.info.dbname!r} is not empty: the initial copy "
            "would mix with its rows; empty it first"
        )
    command = sql.SQL("copy {} ({}) from stdin").format(
        table, f.identifiers(copied_columns(article))
    )
    async with connection.cursor() as cursor, cursor.copy(command) as copy:
        async for block in blocks:
            await copy.write(block)
