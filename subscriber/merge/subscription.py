"""Make a database a Subscriber of a merge publication: its tables, their rows, and the metadata of the rows.

The module knows nothing of the Publisher's database but the rows that it is given. Every function takes an
administrator's connection (a superuser's), inside a transaction.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, LiteralString

import psycopg
from psycopg import AsyncConnection, sql

from twopc import names
from twopc.articles import Article, ForeignKey, UniqueKey
from twopc.drivers.merge import tracking
from twopc.errors import SubscriptionError
from twopc.merge.articles import MergeArticle
from twopc.merge.partitions import MergeFilter, PartitionOption
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.sql import fragments as f
from twopc.sql import path
from twopc.sql.describe import describe
from twopc.sql.merge_filter_texts import FilterTexts
from twopc.sql.merge_texts import TrackingTexts
from twopc.subscriber.initial_load import add_rows, copy_in, fill
from twopc.subscriber.tables import create_table, foreign_key_text, unique_key_texts

Connection = AsyncConnection[Any]

#: Columns of transferred metadata: lineage and column versions are arrays of bigint.
METADATA = ("rowguid", "gone", "lineage", "colv", "writer")


_KEY = """
select from pg_constraint where conrelid = %(table)s::text::regclass and conname = %(name)s
union all
select from pg_index as i join pg_class as c on c.oid = i.indexrelid
where i.indrelid = %(table)s::text::regclass and c.relname = %(name)s
"""
_TRIGGERS = """
select t.tgname::text, t.tgenabled::text from pg_trigger as t
where t.tgrelid = %s::text::regclass and not t.tgisinternal and t.tgenabled <> 'D'
"""
_MODES: dict[str, LiteralString] = {"O": "", "R": "replica ", "A": "always "}
"""Keyword that enables a trigger, by ``tgenabled``."""


@asynccontextmanager
async def emptied(connection: Connection, articles: Sequence[Article]) -> AsyncIterator[None]:
    """Truncate copies that are no longer tracked, and let the block fill them: see `quiet`.

    Raises:
        SubscriptionError: a table that is not a copy refers to one.
    """
    tables = f.COMMA.join([f.table_of(article) for article in articles])
    async with quiet(connection, articles):
        try:
            async with connection.transaction():
                await connection.execute(sql.SQL("truncate {}").format(tables))
        except psycopg.errors.FeatureNotSupported as error:
            raise SubscriptionError(
                f"a table of the Subscriber's own refers to one that is filled anew: {error.diag.message_detail}"
            ) from error
        yield


@asynccontextmanager
async def quiet(connection: Connection, articles: Sequence[Article]) -> AsyncIterator[None]:
    """Disable the user's triggers on copies, even ENABLE ALWAYS ones, while the block fills the copies.

    Foreign keys are not checked until the transaction ends.
    """
    await connection.execute("set local session_replication_role = replica")
    enabled: list[tuple[sql.Identifier, str, str]] = []
    for table in map(f.table_of, articles):
        cursor = await connection.execute(_TRIGGERS, (table.as_string(connection),))
        enabled += [(table, trigger, mode) for trigger, mode in await cursor.fetchall()]
        await connection.execute(sql.SQL("alter table {} disable trigger user").format(table))
    yield
    for table, trigger, mode in enabled:
        await connection.execute(
            sql.SQL("alter table {} enable " + _MODES[mode] + "trigger {}").format(
                table, sql.Identifier(trigger)
            )
        )


async def receive_table(
    connection: Connection,
    article: Article,
    blocks: AsyncIterable[bytes],
    *,
    over: bool = False,
) -> None:
    """Create the copy of an article, and fill it with rows: COPY text of the columns that take values.

    Args:
        over: whether the copy exists already and is empty.

    Raises:
        SubscriptionError: a table of that name exists.
    """
    if not over:
        await refuse_if_there(connection, article.schema, article.table)
    if not await is_there(connection, article.schema, article.table):
        await create_table(connection, article)
    columns = [column.name for column in article.columns if column.takes_values]
    await fill(connection, article, columns, blocks)


async def refuse_if_there(connection: Connection, schema: str, table: str) -> None:
    """Check that no table of that name exists before a copy is made.

    Raises:
        SubscriptionError: a table of that name exists.
    """
    if await is_there(connection, schema, table):
        raise SubscriptionError(
            f"table {schema}.{table} of the Subscriber is there already: drop or rename it, a copy is made"
        )


async def is_there(connection: Connection, schema: str, table: str) -> bool:
    """Return whether a table of that name exists."""
    cursor = await connection.execute(
        "select to_regclass(%s) is not null", (f.qualified(schema, table).as_string(None),)
    )
    return await cursor.fetchone() == (True,)


async def create_closed(connection: Connection, article: Article, merged: MergeArticle) -> None:
    """Create the copy of an article without keys and rows; only `receive_part` can change it until `open_tables`."""
    await create_table(connection, article)
    await close_table(connection, merged)


async def close_table(connection: Connection, merged: MergeArticle) -> None:
    """Let only `receive_part` change a copy until `open_tables`."""
    texts = TrackingTexts(merged, tracking.owner_role(connection.info.dbname))
    await connection.execute(texts.initialising().encode())


async def check_columns(connection: Connection, article: Article) -> None:
    """Check that a table to be refilled has the columns of the article.

    Raises:
        SubscriptionError: a column is missing or has another type; names the column.
    """
    held = {
        column.name: column
        for column in (await describe(connection, article.schema, article.table)).columns
    }
    for column in article.columns:
        there = held.get(column.name)
        if there is None or there.type != column.type:
            now = f"has type {there.type} there" if there else "is missing there"
            raise SubscriptionError(
                f"table {article.name} of the Subscriber is to be filled anew, and its column {column.name!r} "
                f"({column.type}) {now}: alter the table, or drop it, and it is created"
            )


async def receive_part(
    connection: Connection,
    article: Article,
    blocks: AsyncIterable[bytes],
    *,
    binary: bool = False,
) -> None:
    """Add a part of the rows to a copy that is being initialised: the columns that take values, in COPY format."""
    await connection.execute(path.READ_LOCAL)
    columns = [column.name for column in article.columns if column.takes_values]
    async with quiet(connection, [article]):
        await add_rows(connection, article, columns, blocks, binary=binary)


async def make_keys(
    connection: Connection,
    article: Article,
    uniques: Sequence[UniqueKey],
    foreign_keys: Sequence[ForeignKey],
) -> None:
    """Create the missing keys of a copy after its rows are loaded; foreign keys are deferrable for agents.

    Args:
        foreign_keys: between copies that already have their unique keys.
    """
    missing = [
        key for key in uniques if not await _has_key(connection, article.schema, article.table, key)
    ]
    for text in unique_key_texts(article, missing):
        await connection.execute(text.encode())
    for key in foreign_keys:
        if not await _has_key(connection, key.schema, key.table, key):
            await connection.execute(foreign_key_text(key, deferrable=True).encode())


async def _has_key(
    connection: Connection, schema: str, table: str, key: UniqueKey | ForeignKey
) -> bool:
    where = f.qualified(schema, table).as_string(None)
    return bool((await connection.execute(_KEY, {"table": where, "name": key.name})).rowcount)


async def open_tables(connection: Connection) -> None:
    """Let all sessions change the initialised tables again."""
    owner = tracking.owner_role(connection.info.dbname)
    for article in await tracking.articles(connection):
        texts = TrackingTexts(article, owner)
        await connection.execute(
            sql.SQL("drop trigger {} on {}").format(texts.trigger("init"), texts.table)
        )


async def join_tables(connection: Connection, articles: Sequence[Article]) -> None:
    """Create the foreign keys between copies, deferrable for agents, after all copies are filled."""
    there = {(article.schema, article.table) for article in articles}
    for article in articles:
        for key in article.references:
            if (key.target_schema, key.target_table) in there:
                await connection.execute(foreign_key_text(key, deferrable=True).encode())


async def track(
    connection: Connection,
    article: MergeArticle,
    publication: str,
    *,
    floor: int = 0,
    is_client: bool = False,
    without: Set[MergeProtection] = NOTHING_LEFT_OUT,
) -> None:
    """Track a copy from now on.

    Args:
        floor: version above which versions continue for rows whose metadata the Publisher has removed.
        is_client: whether the subscription is a client's: its changes may be kept or refused (``upload``).
        without: protections that are omitted, to show their purpose.
    """
    await tracking.track(
        connection,
        replace(article, filter=None),  # only a Publisher has partitions
        publication,
        created_table=True,
        is_local=is_client,
        without=without,
    )
    if floor:
        sequence = sql.Identifier(names.SCHEMA, names.merge_floor(article.nickname))
        await connection.execute(
            sql.SQL("select setval({}, {})").format(
                sql.Literal(sequence.as_string(connection)), sql.Literal(floor)
            )
        )


async def receive_metadata(
    connection: Connection, article: MergeArticle, publisher: int, blocks: AsyncIterable[bytes]
) -> None:
    """Load the Publisher's metadata of the rows of a tracked copy.

    Args:
        publisher: replica number of the Publisher.
        blocks: COPY text of the columns `METADATA`.
    """
    await connection.execute(
        "create temporary table msrepl_known (rowguid uuid, gone boolean, lineage int8[], colv int8[], writer int8)"
    )
    await copy_in(connection, sql.SQL("pg_temp.msrepl_known"), blocks)
    table = sql.Identifier(names.SCHEMA, names.merge_metadata(article.nickname))
    await connection.execute(
        sql.SQL(
            "insert into {} (tablenick, rowguid, xid, gone, own, top, lineage, colv, source, writer)"
            " select {}, k.rowguid, pg_current_xact_id(), k.gone, 0,"
            " (select max(v.v & 2147483647) from unnest(k.lineage) as v(v)), k.lineage, k.colv, {}, k.writer"
            " from pg_temp.msrepl_known as k"
        ).format(table, sql.Literal(article.nickname), sql.Literal(publisher))
    )
    await connection.execute("drop table pg_temp.msrepl_known")


async def guard_partition(
    connection: Connection, articles: Sequence[MergeArticle], values: tuple[str, str]
) -> None:
    """Refuse changes that leave a row outside the Subscriber's partition, if the partition option says so.

    Args:
        values: the Subscriber's host name and login.

    Raises:
        SubscriptionError: a filter calls a function that does not exist at the Subscriber.
    """
    for article in articles:
        if article.filter is not None and article.filter.option > PartitionOption.FREE:
            await _guard(connection, article, article.filter, values)


async def _guard(
    connection: Connection,
    article: MergeArticle,
    merge_filter: MergeFilter,
    values: tuple[str, str],
) -> None:
    texts = FilterTexts(article, tracking.owner_role(connection.info.dbname))
    for text in texts.guard(merge_filter, *values):
        await connection.execute(text.encode())
    try:
        # changes no row, but the trigger resolves the functions that the filter calls
        async with connection.transaction():
            await connection.execute(
                sql.SQL("update {0} set {1} = {1} where false").format(texts.table, texts.rowguid)
            )
    except psycopg.Error as error:
        raise SubscriptionError(
            f"table {article.name} of the Subscriber: its filter cannot be evaluated there: "
            f"{error.diag.message_primary}: create what it calls there before"
        ) from error


async def leave(connection: Connection) -> None:
    """Stop tracking all tables; copies stay as ordinary tables, with the column that identified their rows."""
    for stored in await tracking.stored_articles(connection):
        await tracking.untrack(connection, stored)
