"""Declare, install and drop a publication: the articles of this database.

The module knows of Subscribers only whether there are any. Every function takes an administrator's
connection (a superuser's: event triggers and roles need it) and does its work in one transaction.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.types.json import Jsonb

from twopc import names
from twopc.articles import Article
from twopc.distributed_article import DistributedArticle
from twopc.errors import ArticleError
from twopc.proc_execution import PROC_SCHEMA
from twopc.propagation import Propagation
from twopc.publisher import (
    distribution_setup,
    foreign_keys,
    logical_publication,
    proc_execution,
    witness,
)
from twopc.publisher.article_setup import (
    describe_article,
    drop_objects,
    drop_role,
    filter_again,
    generate,
    generate_parents,
    grant_again,
)
from twopc.publisher.catalog import (
    find_article,
    fresh_articles,
    get_article,
    register,
    stored_articles,
)
from twopc.publisher.objects import owner_role, shared_objects
from twopc.publisher.row_filter import read_filter
from twopc.publisher.selection import article_of
from twopc.sql.describe import describe
from twopc.sql.fragments import qualified
from twopc.sql.render import compose, render

__all__ = [
    "admit_log_reader",
    "articles",
    "change",
    "distributed_articles",
    "install",
    "is_stale",
    "numbers",
    "owner_role",
    "parts",
    "publish",
    "publish_part",
    "refuse_published",
    "regenerate",
    "uninstall",
    "unpublish",
    "unpublish_part",
]

Connection = AsyncConnection[Any]


async def install(connection: Connection) -> None:
    """Create the objects that a Publisher needs before its first article. Idempotent.

    Raises:
        ArticleError: the database merges tables, or is a Subscriber. It cannot publish rows that it receives:
            the branch marker of a transaction names a Subscriber of one Publisher, and would be lost on the way
            to the next.
    """
    async with connection.transaction():
        if await _is_subscriber(connection):
            raise ArticleError(
                f"database {connection.info.dbname!r} is a Subscriber and cannot publish as well: the mark "
                "of where a transaction came from would be lost on the way to the next database, and changes "
                "would come back; let every Subscriber subscribe at the Publisher"
            )
        if await _merges(connection):
            raise ArticleError(
                f"database {connection.info.dbname!r} merges tables and cannot publish in another way as "
                "well (21266): use another database"
            )
        owner = await _create_owner(connection)
        await connection.execute(";\n".join(shared_objects(owner)).encode())
        await logical_publication.create(connection)


async def _is_subscriber(connection: Connection) -> bool:
    cursor = await connection.execute(
        "select to_regclass('msrepl.mssubscription_agents') is not null"
    )
    return await cursor.fetchone() == (True,)


async def _merges(connection: Connection) -> bool:
    cursor = await connection.execute("select to_regclass('msrepl.sysmergearticles') is not null")
    return await cursor.fetchone() == (True,)


async def admit_log_reader(connection: Connection, role: str) -> None:
    """Let a role with REPLICATION read the log of this database's articles. Idempotent."""
    await connection.execute(
        render("twopc.publisher", "logreader_rights", logreader=sql.Identifier(role)).encode()
    )


async def _create_owner(connection: Connection) -> sql.Identifier:
    """Create schema ``msrepl`` and the role that owns the objects in it."""
    role = owner_role(connection.info.dbname)
    name = sql.Identifier(role)
    rows = await connection.execute("select from pg_roles where rolname = %s", (role,))
    if rows.rowcount == 0:
        await connection.execute(sql.SQL("create role {} nologin").format(name))
    schema = sql.Identifier(names.SCHEMA)
    await connection.execute(sql.SQL("create schema if not exists {}").format(schema))
    await connection.execute(sql.SQL("grant all on schema {} to {}").format(schema, name))
    return name


# -- articles -------------------------------------------------------------------------------------


async def publish(
    connection: Connection,
    schema: str,
    table: str,
    *,
    columns: tuple[str, ...] | None = None,
    row_filter: str | None = None,
    propagation: Propagation | None = None,
) -> Article:
    """Make a table an article: row version, its trigger, and the sync procedures.

    Args:
        columns: columns to publish, including the key; the row version is always included. None for all columns,
            later ones too.
        row_filter: a condition over the table's columns; only rows that satisfy it belong to the article, and a
            Subscriber may write no others.
        propagation: formats in which changes are sent to Subscribers; None for the original's defaults.

    Raises:
        ArticleError: the table cannot be published in this way, or is published already. Nothing is changed.
    """
    async with connection.transaction():
        described = await describe(connection, schema, table)
        propagation = propagation or Propagation()
        # refuse before changing
        distribution_setup.check(
            article_of(described, columns=columns, row_filter=row_filter), propagation
        )
        taken = await find_article(connection, schema, table)
        if taken is not None:
            if taken.table is None:
                raise ArticleError(
                    f"table {schema}.{table} was dropped while it was published: `twopc unpublish` it first"
                )
            raise ArticleError(
                f"table {schema}.{table} is published already: `twopc unpublish` it first; after an "
                "ALTER TABLE `twopc regenerate` it, `twopc article change` how its changes travel"
            )
        if row_filter is not None:
            row_filter = (await read_filter(connection, described, row_filter)).text
        added = all(column.name != names.VERSION_COLUMN for column in described.columns)
        where = qualified(schema, table)
        if added:
            await connection.execute(
                sql.SQL("alter table {} add column {} uuid not null default gen_random_uuid()")
                .format(where, sql.Identifier(names.VERSION_COLUMN))
            )  # fmt: skip
        await register(
            connection, schema, table, columns, row_filter, propagation, added_version=added
        )
        stored = await get_article(connection, schema, table)
        article = await generate(connection, stored)
        await generate_parents(connection, article.references)
        await witness.fit(connection)
        return article


async def is_stale(connection: Connection, schema: str, table: str) -> bool:
    """Return whether the objects of a published table no longer fit it.

    Raises:
        ArticleError: the table is not published.
    """
    return (await get_article(connection, schema, table)).stale is not None


async def regenerate(connection: Connection, schema: str, table: str) -> Article:
    """Make procedures and triggers fit the table again, after an ALTER TABLE.

    A renamed table is found by its new name. Rows that the ALTER TABLE has changed keep their
    versions: `twopc.sim.topology.regeneration` compares them with those of the Subscribers first.

    Raises:
        ArticleError: the table is not published, or can no longer be published in this way.
    """
    async with connection.transaction():
        stored = await get_article(connection, schema, table)
        if stored.table is None:
            raise ArticleError(f"table {schema}.{table} was dropped: `twopc unpublish` it")
        if (stored.schema, stored.table) != (schema, table):
            raise ArticleError(
                f"table {schema}.{table} is {stored.schema}.{stored.table} now: regenerate that"
            )
        await drop_objects(connection, stored)
        if (stored.source_schema, stored.source_object) != (schema, table):
            await drop_role(connection, stored)
        article = await generate(connection, stored)
        await witness.fit(connection)
        return article


async def change(
    connection: Connection, schema: str, table: str, propagation: Propagation
) -> Article:
    """Change the formats of an article's commands from now on (sp_changearticle).

    Changes already in the log keep their formats: no session may write the table until log reader and
    Subscribers use the new ones.

    Raises:
        ArticleError: the table is not published, no longer fits, or cannot use these formats; nothing is
            changed.
    """
    async with connection.transaction():
        stored = await distribution_setup.base_of(connection, schema, table)
        described, article = await describe_article(connection, stored)
        distribution_setup.check(article, propagation)
        await connection.execute(
            "update msrepl.sysarticles set propagation = %s where article_id = %s",
            (Jsonb(propagation.as_json()), stored.article_id),
        )
        stored = await distribution_setup.base_of(connection, schema, table)
        await distribution_setup.fit(
            connection, stored, described, article, owner_role(connection.info.dbname)
        )
        return article


async def publish_part(connection: Connection, schema: str, table: str, row_filter: str) -> int:
    """Make a further article of a published table, for Subscribers that get only part of its rows.

    Columns and formats are those of the base; a row belongs to the part if it satisfies both filters.

    Returns:
        The number of the part; that of an existing part with this filter, if there is one.

    Raises:
        ArticleError: the table is not published, or the filter is not a condition over its columns.
    """
    async with connection.transaction():
        stored = await distribution_setup.base_of(connection, schema, table)
        number = await distribution_setup.add_filter(connection, stored, row_filter)
        await filter_again(connection, stored)
        return number


async def parts(connection: Connection) -> set[int]:
    """Return the numbers of all parts that `publish_part` made, including those of stale articles."""
    cursor = await connection.execute("select article_id from msrepl.sysfilteredarticles")
    return {number for (number,) in await cursor.fetchall()}


async def unpublish_part(connection: Connection, article_id: int) -> None:
    """Remove a part that `publish_part` made; does nothing if it does not exist. It must have no Subscriber."""
    async with connection.transaction():
        base = await stored_articles(
            connection,
            "join msrepl.sysfilteredarticles f on f.base = a.article_id "
            "where f.article_id = %s and a.stale is null",
            article_id,
        )
        await distribution_setup.drop_filter(connection, article_id)
        for stored in base:
            await filter_again(connection, stored)
        await grant_again(connection)


async def numbers(connection: Connection, schema: str, table: str) -> list[int]:
    """Return the numbers of an article's parts, and that of the article.

    Raises:
        ArticleError: the table is not published.
    """
    stored = await get_article(connection, schema, table)
    return [
        number for number, _ in await distribution_setup.parts_of(connection, stored.article_id)
    ] + [stored.article_id]


async def unpublish(
    connection: Connection, schema: str, table: str, *, subscribers: Collection[str] = ()
) -> None:
    """Remove an article: the table has its previous definition again, and keeps its rows.

    Args:
        subscribers: Subscribers without a link, which are unknown to this database.

    Raises:
        ArticleError: the table is not published, or there are subscriptions, whose triggers would call
            dropped procedures; these must be removed first.
    """
    async with connection.transaction():
        stored = await get_article(connection, schema, table)
        cursor = await connection.execute(
            "select subscriber from msrepl.syssubscriptions order by subscriber"
        )
        linked = [name for (name,) in await cursor.fetchall()]
        if linked or subscribers:
            raise ArticleError(
                f"table {schema}.{table} has subscriptions (14046): "
                f"`twopc unsubscribe` {', '.join(sorted({*linked, *subscribers}))} first"
            )
        await foreign_keys.restore(connection, stored.objid)
        await distribution_setup.drop_objects(connection, stored.article_id)
        await distribution_setup.leave(connection, stored)
        await connection.execute(
            "delete from msrepl.sysarticles where article_id = %s", (stored.article_id,)
        )
        await drop_objects(connection, stored)
        await drop_role(connection, stored)
        await grant_again(connection)
        if stored.schema is not None and stored.table is not None:
            described = await describe(connection, stored.schema, stored.table)
            await generate_parents(connection, described.references)
        await witness.fit(connection)
        if stored.added_version and stored.schema is not None and stored.table is not None:
            await connection.execute(
                sql.SQL("alter table {} drop column if exists {}").format(
                    qualified(stored.schema, stored.table), sql.Identifier(names.VERSION_COLUMN)
                )
            )


async def articles(connection: Connection) -> tuple[Article, ...]:
    """Return all articles of this database, in the current state of their tables.

    Raises:
        ArticleError: the procedures of an article no longer fit its table.
    """
    stored = await fresh_articles(connection)
    return tuple([(await describe_article(connection, each))[1] for each in stored])


async def distributed_articles(
    connection: Connection, *, of: tuple[str, str] | None = None
) -> tuple[DistributedArticle, ...]:
    """Return all articles in the form for the distribution database, parts after their base.

    Args:
        of: schema and name: only the articles of this table; the others may be stale.

    Raises:
        ArticleError: the procedures of an article no longer fit its table, or the table is not published.
    """
    if of is None:
        stored = await fresh_articles(connection)
    else:
        stored = [await distribution_setup.base_of(connection, *of)]
    return await distribution_setup.distributed(
        connection, [(each, (await describe_article(connection, each))[1]) for each in stored]
    )


async def refuse_published(connection: Connection) -> None:
    """Check that no table is published.

    Raises:
        ArticleError: a table is published.
    """
    left = await stored_articles(connection, "order by a.article_id")
    if left:
        raise ArticleError(
            f"table {left[0].source_schema}.{left[0].source_object} is still published: "
            "`twopc unpublish` it first"
        )


async def uninstall(connection: Connection) -> None:
    """Remove all objects of the publication from a database that publishes no table; routines are unpublished.

    Raises:
        ArticleError: a table is still published.
    """
    async with connection.transaction():
        await refuse_published(connection)
        for routine in await proc_execution.proc_articles(connection):
            await proc_execution.unpublish_procedure(connection, routine.article_id)
        owner = sql.Identifier(owner_role(connection.info.dbname))
        for statement in (
            sql.SQL("drop event trigger if exists msrepl_ddl_guard"),
            sql.SQL("drop event trigger if exists msrepl_drop_guard"),
            sql.SQL("drop event trigger if exists msrepl_rewrite_guard"),
            logical_publication.drop_text(),
            sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(PROC_SCHEMA)),
            sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(names.SCHEMA)),
            compose("twopc", "drop_rights", role=owner),
            sql.SQL("drop role {}").format(owner),
        ):
            await connection.execute(statement)
