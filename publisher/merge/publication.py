"""Declare merged tables: checks, the column that identifies rows, and tracking.

The module knows nothing of Subscribers. Every function takes an administrator's connection (a superuser's) and
does its work in one transaction.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection, sql

from twopc import names
from twopc.articles import Column, Table
from twopc.drivers.merge import tracking
from twopc.drivers.merge.ranges import identity_of
from twopc.drivers.merge.tracking import StoredMergeArticle
from twopc.errors import ArticleError
from twopc.merge.articles import (
    COLUMNS_MAX,
    DEFAULT_OPTIONS,
    ROWGUID,
    MergeArticle,
    MergeOptions,
)
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.merge.ranges import IdentityRanges
from twopc.publisher import foreign_keys
from twopc.publisher.foreign_keys import ArticleTable
from twopc.publisher.merge.filters import (
    NO_FILTERS,
    Filters,
    install_filters,
    read_filters,
    refuse_if_joined,
)
from twopc.publisher.merge.resolvers import check_resolver, install_resolver
from twopc.publisher.selection import article_of
from twopc.sql.describe import describe
from twopc.sql.render import compose

Connection = AsyncConnection[Any]

ARTICLES_MAX = 256
"""Maximum number of articles in a publication (20735)."""

PUBLICATION = "merge"
"""Default name of a publication."""

CONFLICT_ID = "msrepl_conflict_id"
"""Column of every conflict table, in addition to those of the merged table."""

_TRACKING = ("row", "column")
_IS_KEPT = """
select from pg_subscription where subname = %s
and subdbid = (select oid from pg_database where datname = current_database())
"""


async def publish(
    connection: Connection,
    schema: str,
    table: str,
    *,
    tracking_level: str = "row",
    rowguid: str | None = None,
    publication: str = PUBLICATION,
    options: MergeOptions = DEFAULT_OPTIONS,
    filters: Filters = NO_FILTERS,
    identity: IdentityRanges | None = None,
    without: Set[MergeProtection] = NOTHING_LEFT_OUT,
) -> MergeArticle:
    """Make a table an article whose changes are merged.

    Args:
        tracking_level: ``row``: two changes of a row conflict; ``column``: two changes of a column.
        rowguid: an existing column that identifies rows: uuid, NOT NULL and unique. None for a column
            ``rowguid``, which is added unless it exists.
        publication: its name.
        options: settings for its conflicts and failures.
        filters: which rows go to which Subscribers.
        identity: the ranges from which nodes draw values of its identity column; None if Subscribers name
            values.
        without: protections that are omitted, to show their purpose.

    Raises:
        ArticleError: the table cannot be merged in this way; nothing is changed.
    """
    async with connection.transaction():
        await tracking.await_others(connection)
        described = await describe(connection, schema, table)
        where = f"table {schema}.{table}"
        if tracking_level not in _TRACKING:
            raise ArticleError(f"{where}: tracking {tracking_level!r}: use 'row' or 'column'")
        others = await _others(connection, schema, table, where)
        check_table(described, where)
        artid = await _draw(connection)
        name = rowguid or ROWGUID
        is_added = _needs_rowguid(described, where, name, is_named=rowguid is not None)
        if is_added:
            await tracking.add_rowguid(connection, described, artid, name)
            described = await describe(connection, schema, table)
        merge_filter, needed = await read_filters(connection, described, where, filters, others)
        article = MergeArticle(
            artid=artid,
            nickname=max((other.nickname for other in others), default=0) + 1,
            schema=schema,
            table=table,
            rowguid=name,
            columns=_propagated_columns(described, name),
            column_tracking=tracking_level == "column",
            options=options,
            references=described.references,
            filter=merge_filter,
            identity=await identity_of(connection, described, where, identity)
            if identity
            else None,
        )
        check_resolver(article, where)
        await tracking.track(
            connection, article, publication, added_rowguid=is_added, without=without
        )
        await install_resolver(connection, article, publication, where)
        await install_filters(connection, article, needed, without)
        await foreign_keys.make_deferrable(
            connection, await tracking.table_oid(connection, artid), ArticleTable.MERGE
        )
        await keep(connection)
        return article


async def _others(
    connection: Connection, schema: str, table: str, where: str
) -> list[StoredMergeArticle]:
    """Return the existing articles, after checking that the table can be added to them."""
    others = await tracking.stored_articles(connection)
    if any((other.schema, other.table) == (schema, table) for other in others):
        raise ArticleError(f"{where} is merged already: `unpublish` it first")
    if len(others) >= ARTICLES_MAX:
        raise ArticleError(
            f"{where} would be article {ARTICLES_MAX + 1} of its publication (20735)"
        )
    return others


async def unpublish(connection: Connection, schema: str, table: str) -> None:
    """Remove an article: the table has its previous definition again, and keeps its rows.

    Raises:
        ArticleError: the table is not merged.
    """
    async with connection.transaction():
        for stored in await tracking.stored_articles(connection):
            tables = {(stored.schema, stored.table), (stored.source_schema, stored.source_object)}
            if (schema, table) in tables:
                await foreign_keys.restore(
                    connection,
                    await tracking.table_oid(connection, stored.artid),
                    ArticleTable.MERGE,
                )
                await refuse_if_joined(connection, stored)
                await tracking.untrack(connection, stored)
                if not await tracking.stored_articles(connection):
                    await let_go(connection)
                return
        raise ArticleError(f"table {schema}.{table} is not merged")


async def keep(connection: Connection) -> None:
    """Protect the database and its published tables from being dropped (sp_replicationdboption). Idempotent."""
    name = sql.Identifier(names.KEEP)
    if not (await connection.execute(_IS_KEPT, (names.KEEP,))).rowcount:
        await connection.execute(
            "set local client_min_messages = error"
        )  # suppress the warning that the subscription is not connected
        await connection.execute(compose("twopc", "merge_keep", name=name))
        owner = sql.Identifier(tracking.owner_role(connection.info.dbname))
        await connection.execute(compose("twopc", "merge_drop_guard", owner=owner))
        await connection.execute(compose("twopc", "merge_drop_guard_trigger"))


async def let_go(connection: Connection) -> None:
    """Allow the database and its tables to be dropped. Idempotent."""
    await connection.execute("drop event trigger if exists msrepl_merge_drop_guard")
    if (await connection.execute(_IS_KEPT, (names.KEEP,))).rowcount:
        await connection.execute(sql.SQL("drop subscription {}").format(sql.Identifier(names.KEEP)))


def check_table(table: Table, where: str) -> None:
    """Check that a table can be merged: neither a publication of any kind nor a merge publication excludes it.

    Args:
        where: the table, for messages.

    Raises:
        ArticleError: names the problem.
    """
    article_of(table)
    if table.kind == "p":
        raise ArticleError(
            f"{where} is partitioned, and no index makes a column unique over all of its partitions: "
            "merge an ordinary table"
        )
    for key in (*table.references, *table.referenced_by):
        if key.acts:
            raise ArticleError(
                f"{where}: foreign key {key.name!r} of {key.schema}.{key.table} changes rows by itself, "
                "which merge publications do not allow yet: use NO ACTION or RESTRICT"
            )
    travelling = _propagated_columns(table, ROWGUID)
    if any(column.name == CONFLICT_ID for column in travelling):
        raise ArticleError(
            f"{where} has a column {CONFLICT_ID!r}, as its conflict table will have: rename it"
        )
    if not travelling:
        raise ArticleError(f"{where} has no column besides the one by which its rows are known")
    if len(travelling) > COLUMNS_MAX:
        raise ArticleError(
            f"{where} has {len(travelling)} columns, and {COLUMNS_MAX} can be merged"
        )


def _propagated_columns(table: Table, rowguid: str) -> tuple[Column, ...]:
    return tuple(c for c in table.columns if c.takes_values and c.name != rowguid)


def _needs_rowguid(table: Table, where: str, name: str, *, is_named: bool) -> bool:
    """Return whether the column must be added; check an existing column (21162)."""
    held = next((column for column in table.columns if column.name == name), None)
    if held is None:
        if is_named:
            raise ArticleError(f"{where} has no column {name!r} by which its rows could be known")
        return True
    is_unique = any(unique.columns == (name,) for unique in table.uniques)
    if held.type != "uuid" or not held.not_null or held.generated or not is_unique:
        raise ArticleError(
            f"{where}: rows are known by a column that is uuid, NOT NULL and unique, and {name!r} is not "
            "(21162): name another, or rename it"
        )
    return False


async def _draw(connection: Connection) -> UUID:
    cursor = await connection.execute("select gen_random_uuid()")
    row = await cursor.fetchone()
    assert row is not None
    artid: UUID = row[0]
    return artid
