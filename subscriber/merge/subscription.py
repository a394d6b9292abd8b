"""Make a database a Subscriber of a merge publication: its tables, their rows, and what is known of them.

Knows nothing of the Publisher's database but the rows that it is handed. Every function takes an administrator's
connection (a superuser's), inside a transaction.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Sequence, Set
from contextlib import asynccontextmanager
from typing import Any, LiteralString

import psycopg
from psycopg import AsyncConnection, sql

from twopc import names
from twopc.articles import Article
from twopc.drivers.merge import tracking
from twopc.errors import SubscriptionError
from twopc.merge.articles import MergeArticle
from twopc.merge.partitions import MergeFilter
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.sql import fragments as f
from twopc.sql.merge_filter_texts import FilterTexts
from twopc.subscriber.tables import create_table, fill, foreign_key_text

Connection = AsyncConnection[Any]

#: A row of metadata on its way: rowguid, gone, lineage, column versions, and who wrote it.
METADATA = ("rowguid", "gone", "lineage", "colv", "writer")


_TRIGGERS = """
select t.tgname::text, t.tgenabled::text from pg_trigger as t
where t.tgrelid = %s::text::regclass and not t.tgisinternal and t.tgenabled <> 'D'
"""
_MODES: dict[str, LiteralString] = {"O": "", "R": "replica ", "A": "always "}
"""How a trigger is enabled, by ``tgenabled``."""


@asynccontextmanager
async def emptied(connection: Connection, articles: Sequence[Article]) -> AsyncIterator[None]:
    """Take all rows out of copies, which are tracked no more, while others are filled in.

    Until the transaction ends foreign keys are not checked. No trigger of the user's fires meanwhile, not even one
    that is ENABLE ALWAYS.

    Raises:
        SubscriptionError: a table that is no copy refers to one.
    """
    await connection.execute("set local session_replication_role = replica")
    enabled: list[tuple[sql.Identifier, str, str]] = []
    for table in map(f.table_of, articles):
        cursor = await connection.execute(_TRIGGERS, (table.as_string(connection),))
        enabled += [(table, trigger, mode) for trigger, mode in await cursor.fetchall()]
        await connection.execute(sql.SQL("alter table {} disable trigger user").format(table))
    tables = f.COMMA.join([f.table_of(article) for article in articles])
    try:
        async with connection.transaction():
            await connection.execute(sql.SQL("truncate {}").format(tables))
    except psycopg.errors.FeatureNotSupported as error:
        raise SubscriptionError(
            f"a table of the Subscriber's own refers to one that is filled anew: {error.diag.message_detail}"
        ) from error
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
        over: the copy is there, and empty.

    Raises:
        SubscriptionError: there is a table of that name.
    """
    where = f"table {article.schema}.{article.table} of the Subscriber"
    cursor = await connection.execute(
        "select to_regclass(%s) is not null", (f.table_of(article).as_string(None),)
    )
    is_there = await cursor.fetchone() == (True,)
    if is_there and not over:
        raise SubscriptionError(f"{where} is there already: drop or rename it, a copy is made")
    if not is_there:
        await create_table(connection, article)
    columns = [column.name for column in article.columns if column.takes_values]
    await fill(connection, article, columns, blocks)


async def join_tables(connection: Connection, articles: Sequence[Article]) -> None:
    """Make the foreign keys between the copies, deferrable for agents, once all of them are filled."""
    there = {(article.schema, article.table) for article in articles}
    for article in articles:
        for key in article.references:
            if (key.target_schema, key.target_table) in there:
                await connection.execute(f"{foreign_key_text(key)} deferrable".encode())


async def track(
    connection: Connection,
    article: MergeArticle,
    publication: str,
    publisher: int,
    rows: Sequence[tuple[Any, ...]],
    *,
    floor: int = 0,
    is_client: bool = False,
    without: Set[MergeProtection] = NOTHING_LEFT_OUT,
) -> None:
    """Track a copy from now on, and take over what the Publisher knows of its rows.

    Args:
        floor: above which versions go on of rows of which it has forgotten what it knew.
        publisher: its replica.
        rows: as `METADATA` says; lineages as text.
        is_client: the subscription is a client's: its changes may be kept or refused (``upload``).
        without: protections that are left out, to show what they protect from.
    """
    await tracking.track(
        connection,
        article,
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
    table = sql.Identifier(names.SCHEMA, names.merge_metadata(article.nickname))
    async with connection.cursor() as cursor:
        await cursor.executemany(
            sql.SQL(
                "insert into {} (tablenick, rowguid, xid, gone, own, top, lineage, colv, source, writer)"
                " select {}, %s, pg_current_xact_id(), %s, 0,"
                " (select max(v.v & 2147483647) from unnest(l.v) as v(v)), l.v, %s::int8[], {}, %s"
                " from (select %s::int8[] as v) as l"
            ).format(table, sql.Literal(article.nickname), sql.Literal(publisher)),
            [(guid, gone, colv, writer, lineage) for guid, gone, lineage, colv, writer in rows],
        )


async def guard(
    connection: Connection,
    article: MergeArticle,
    merge_filter: MergeFilter,
    values: tuple[str, str],
) -> None:
    """Refuse changes that would leave a row of a copy outside the Subscriber's partition.

    Args:
        values: its host name, and its login.

    Raises:
        SubscriptionError: the filter calls what is not here.
    """
    texts = FilterTexts(article, tracking.owner_role(connection.info.dbname))
    for text in texts.guard(merge_filter, *values):
        await connection.execute(text.encode())
    try:
        # of no row, but the trigger looks at what the filter calls
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
    """Track no table any more; copies stay, as ordinary tables, with the column by which their rows were known."""
    for stored in await tracking.stored_articles(connection):
        await tracking.untrack(connection, stored)
