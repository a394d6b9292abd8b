"""Create and drop an article's objects at the Publisher: procedures, types, triggers, rights, filters.

`twopc.publisher.publication` decides which articles exist. Every function takes an administrator's
connection, inside a transaction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection, sql

from twopc import names
from twopc.articles import Article, ForeignKey, Table
from twopc.errors import ArticleError
from twopc.publisher import distribution_setup, foreign_keys
from twopc.publisher.catalog import StoredArticle, find_article, stored_articles
from twopc.publisher.objects import owner_role, trigger_texts
from twopc.publisher.procedures import OPERATIONS, ProcedureTexts, drop_texts
from twopc.publisher.rights import (
    RequiredObject,
    grant_links,
    grant_table_role,
    needs_of_table,
    revoke_all,
    trigger_path,
)
from twopc.publisher.row_filter import read_filter
from twopc.publisher.selection import article_of, known_references
from twopc.sql.catalog_texts import full_names
from twopc.sql.describe import describe
from twopc.sql.fragments import qualified
from twopc.sql.sequences import column_sequences
from twopc.sql.table_role import drop_text

Connection = AsyncConnection[Any]


async def describe_article(connection: Connection, stored: StoredArticle) -> tuple[Table, Article]:
    """Return the table of an article and the article, both in their current state."""
    where = f"table {stored.source_schema}.{stored.source_object}"
    if stored.schema is None or stored.table is None:
        raise ArticleError(f"{where} was dropped while it was published: `twopc unpublish` it")
    if stored.lost_columns:
        raise ArticleError(
            f"{where}: a column that was chosen for publication was dropped: "
            "`twopc unpublish` the table and publish it again with the columns that are left"
        )
    described = await describe(connection, stored.schema, stored.table)
    if all(column.name != names.VERSION_COLUMN for column in described.columns):
        raise ArticleError(
            f"{where} has lost its column {names.VERSION_COLUMN} (21080): "
            "`twopc unpublish` the table and publish it again"
        )
    article = article_of(described, columns=stored.columns, row_filter=stored.filter_clause)
    published = {(a.schema, a.table) for a in await stored_articles(connection, "")}
    parts = await distribution_setup.parts_of(connection, stored.article_id)
    return described, dataclasses.replace(known_references(article, published), parts=parts)


async def generate(connection: Connection, stored: StoredArticle) -> Article:
    """Create procedures, types, triggers and rights of an article that is in sysarticles."""
    await foreign_keys.make_deferrable(connection, stored.objid)
    described, article = await describe_article(connection, stored)
    await grant(connection, stored, described, article)
    path = await trigger_path(connection, described)
    texts = ProcedureTexts(article, owner_role(connection.info.dbname), path)
    objects = (
        *texts.all(await generators(connection, article)),
        *trigger_texts(described, texts.role),
    )
    await connection.execute(";\n".join(objects).encode())
    await grant_links(connection, article.schema, article.table)
    await distribution_setup.fit(
        connection, stored, described, article, owner_role(connection.info.dbname)
    )
    await connection.execute(
        """
        update msrepl.sysarticles
        set source_schema = %(schema)s, source_object = %(table)s, stale = null,
            structure = msrepl.table_structure(objid),
            procedures = array(
                select p.oid from pg_proc p
                where p.pronamespace = 'msrepl'::regnamespace and p.prokind = 'p'
                  and p.proname::text = any (%(procedures)s))
        where article_id = %(article)s
        """,
        {
            "schema": article.schema,
            "table": article.table,
            "article": stored.article_id,
            "procedures": [
                names.sync_procedure(operation, article.schema, article.table)
                for operation in OPERATIONS
            ],
        },
    )
    return article


async def generate_parents(connection: Connection, keys: Sequence[ForeignKey]) -> None:
    """Regenerate the procedures of tables that check for children, after keys to these tables have changed."""
    parents = {(key.target_schema, key.target_table) for key in keys if key.acts}
    for schema, table in sorted(parents):
        stored = await find_article(connection, schema, table)
        if stored is not None and stored.stale is None:
            await drop_objects(connection, stored)
            await generate(connection, stored)


async def filter_again(connection: Connection, stored: StoredArticle) -> None:
    """Regenerate the objects that use row filters; triggers and types stay, so that the table is not locked."""
    described, article = await describe_article(connection, stored)
    owner = owner_role(connection.info.dbname)
    await grant(connection, stored, described, article)
    texts = ProcedureTexts(article, owner, await trigger_path(connection, described))
    await connection.execute(";\n".join(texts.changes()).encode())
    await grant_links(connection, article.schema, article.table)
    await distribution_setup.fit(connection, stored, described, article, owner)


async def drop_objects(connection: Connection, stored: StoredArticle) -> None:
    """Drop the objects of an article, under the names that its table had at their creation."""
    # the DDL guard ignores an article without a recorded structure
    await connection.execute(
        "update msrepl.sysarticles set structure = '' where article_id = %s", (stored.article_id,)
    )
    texts = drop_texts(stored.source_schema, stored.source_object)
    await connection.execute(";\n".join(texts).encode())
    await distribution_setup.drop_objects(connection, stored.article_id)
    if stored.schema is None or stored.table is None:
        return
    described = await describe(connection, stored.schema, stored.table)
    version = names.version_trigger(stored.source_schema, stored.source_object)
    truncate = names.truncate_trigger(stored.source_schema, stored.source_object)
    tables = ((described.schema, described.name), *described.partitions)
    for trigger, schema, table in (
        (version, described.schema, described.name),
        *((truncate, *name) for name in tables),
    ):
        await connection.execute(
            sql.SQL("drop trigger if exists {} on {}").format(
                sql.Identifier(trigger), qualified(schema, table)
            )
        )


async def drop_role(connection: Connection, stored: StoredArticle) -> None:
    """Drop the role of an article's table after its objects, and with it the rights granted to it by users."""
    owner = owner_role(connection.info.dbname)
    await connection.execute(drop_text(owner, stored.source_schema, stored.source_object).encode())


async def grant(
    connection: Connection, stored: StoredArticle, table: Table, article: Article
) -> None:
    """Grant the role of an article's table the rights that its functions need."""
    needed = list(await needs_of_table(connection, stored.objid))
    filter_columns: tuple[str, ...] = ()
    if article.row_filter is not None:
        async with full_names(connection):
            row_filter = await read_filter(connection, table, article.row_filter)
        filter_columns = row_filter.columns
        needed += row_filter.needs
    parts = await distribution_setup.filter_needs(connection, stored.article_id, table)
    filter_columns += parts.columns
    needed += parts.needs
    for sequence in (await identity_sequences(connection, article)).values():
        needed.append(RequiredObject(privilege="usage", kind="sequence", name=sequence))
    owner = owner_role(connection.info.dbname)
    await grant_table_role(
        connection, article, owner, filter_columns=filter_columns, needed=dict.fromkeys(needed)
    )


async def grant_again(connection: Connection) -> None:
    """Reduce the rights of the tables' roles to those that the remaining articles need."""
    owner = owner_role(connection.info.dbname)
    for stored in await stored_articles(connection, "where a.stale is null order by a.article_id"):
        described, article = await describe_article(connection, stored)
        await revoke_all(connection, names.table_role(owner, article.schema, article.table))
        await grant(connection, stored, described, article)


async def generators(connection: Connection, article: Article) -> dict[str, str]:
    """Return, per column that the Publisher generates, the expression that makes a value."""
    sequences = await identity_sequences(connection, article)
    return {
        column.name: f"nextval({sql.Literal(sequences[column.name]).as_string(None)}::regclass)"
        if column.identity
        else str(column.default)
        for column in article.made_by_publisher
    }


async def identity_sequences(connection: Connection, article: Article) -> dict[str, str]:
    """Return, per identity column, its sequence: quoted, with its schema."""
    table = qualified(article.schema, article.table).as_string(connection)
    columns = {column.name for column in article.columns if column.identity}
    sequences = await column_sequences(connection, table)
    return {each.column: each.name for each in sequences if each.column in columns}
