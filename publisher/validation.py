"""The Publisher's part of a validation: its rows in one snapshot, and the keys changed around that snapshot.

A validation compares two snapshots that were not taken at the same moment. The transactions between them are known
exactly: the distribution database has every transaction with its id, and the Publisher's snapshot shows which of
them it sees. Rows that the other transactions touch are left out, and compared again later.

The module knows a Subscriber by its name only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from twopc.distributed_article import DistributedArticle
from twopc.names import PREFIX
from twopc.proc_execution import BESIDE, CALL_TYPE, DEFINITION_TYPE, base_of, beside
from twopc.publisher.posted_messages import PostedMessage, post_message, stored_message
from twopc.sql.checksum import PINNED
from twopc.validation import ArticleVerdict, Key, touched_keys

Connection = AsyncConnection[Any]

__all__ = [
    "open_branches",
    "post_request",
    "reading",
    "record",
    "stored_message",
    "subscribed_articles",
    "touched",
    "xids_of",
]


@asynccontextmanager
async def reading(publisher: Connection) -> AsyncIterator[str]:
    """Return a context that reads the Publisher in one snapshot, and blocks no session; yields the pg_snapshot."""
    await publisher.execute(PINNED)
    async with publisher.transaction():
        await publisher.execute("set transaction isolation level repeatable read, read only")
        cursor = await publisher.execute("select pg_current_snapshot()::text")
        row = await cursor.fetchone()
        assert row is not None
        yield row[0]


async def post_request(publisher: Connection, subscriber: str) -> PostedMessage:
    """Post a message that marks a place in the log after all transactions now visible at the Publisher."""
    return await post_message(publisher, "validation", {"subscriber": subscriber})


async def open_branches(publisher: Connection) -> list[str]:
    """Return the gids of Subscribers' branches that are prepared at the Publisher."""
    cursor = await publisher.execute(
        "select gid from pg_prepared_xacts "
        "where database = current_database() and starts_with(gid, %s) "
        "and owner in (select link_role from msrepl.syssubscriptions) order by gid",
        (f"{PREFIX}:",),
    )
    return [gid for (gid,) in await cursor.fetchall()]


async def xids_of(publisher: Connection, gids: Collection[str]) -> list[str]:
    """Return the transaction ids of branches that have committed at the Publisher."""
    cursor = await publisher.execute(
        "select xid::text from msrepl.branch_marker where gid = any (%s) and not fence",
        (list(gids),),
    )
    return [xid for (xid,) in await cursor.fetchall()]


async def subscribed_articles(
    distribution: Connection, publisher: str, subscriber: str
) -> list[DistributedArticle]:
    """Return the articles of a Subscriber's active subscriptions, ordered by number."""
    async with distribution.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(
            """
            select a.*
            from msrepl.mspublisher_databases d
            join msrepl.mssubscriptions s on s.publisher_database_id = d.id and s.status = 2
            join msrepl.msarticles a on (a.publisher_database_id, a.article_id)
                                      = (s.publisher_database_id, s.article_id) and a.kind = 'table'
            where (d.publisher, s.subscriber) = (%s, %s)
            order by a.article_id
            """,
            (publisher, subscriber),
        )
        return [DistributedArticle.from_row(row) for row in await cursor.fetchall()]


async def touched(
    distribution: Connection,
    publisher: str,
    articles: Sequence[DistributedArticle],
    snapshot: str,
    xids: Sequence[str] = (),
) -> dict[int, set[Key] | None]:
    """Return, by article, the keys touched by stored transactions that the snapshot does not see.

    None stands for any key: a routine that writes the article was called, and the rows are not stored.

    Args:
        xids: further transactions whose keys are included.
    """
    results: dict[int, set[Key]] = {article.article_id: set() for article in articles}
    by_id = {article.article_id: article for article in articles}
    cursor = await distribution.execute(
        """
        select c.article_id, c.type, c.command
        from msrepl.mspublisher_databases d
        join msrepl.msrepl_transactions t on t.publisher_database_id = d.id
        cross join lateral msrepl.commands_between(d.id, t.xact_seqno - 1::numeric, t.xact_seqno) c
        where d.publisher = %(publisher)s and c.article_id = any (%(articles)s)
          and (t.xact_id >= pg_snapshot_xmin(%(snapshot)s::pg_snapshot)
               and not pg_visible_in_snapshot(t.xact_id, %(snapshot)s::pg_snapshot)
               or t.xact_id = any (%(xids)s::xid8[]))
        """,
        {
            "publisher": publisher,
            "articles": [*by_id, *map(beside, by_id)],
            "snapshot": snapshot,
            "xids": list(xids),
        },
    )
    async for article_id, command_type, command in cursor:
        article = by_id[base_of(article_id)]
        results[article.article_id] |= touched_keys(article, command_type, command)
    called: dict[int, set[Key] | None] = {**results}
    for writes in await _written_by_calls(distribution, publisher, snapshot):
        for article in articles:
            if writes is None or article.article.name in writes:
                called[article.article_id] = None
    return called


async def _written_by_calls(
    distribution: Connection, publisher: str, snapshot: str
) -> list[list[str] | None]:
    """Return the tables written by calls stored without rows, in transactions that the snapshot does not see.

    None in the list stands for any table.
    """
    routines = await distribution.execute(
        "select from msrepl.msarticles where kind = 'proc' limit 1"
    )
    if not routines.rowcount:
        return []
    cursor = await distribution.execute(
        """
        select distinct a.proc -> 'writes'
        from msrepl.mspublisher_databases d
        join msrepl.msrepl_transactions t on t.publisher_database_id = d.id
        cross join lateral (
            select array_agg(c.article_id) filter (where c.type = %(call)s) as routines,
                bool_or(c.article_id > %(beside)s and c.type <> %(definition)s) as have_rows
            from msrepl.commands_between(d.id, t.xact_seqno - 1::numeric, t.xact_seqno) c
        ) c
        join msrepl.msarticles a on a.publisher_database_id = d.id and a.article_id = any (c.routines)
        where d.publisher = %(publisher)s and not c.have_rows
          and t.xact_id >= pg_snapshot_xmin(%(snapshot)s::pg_snapshot)
          and not pg_visible_in_snapshot(t.xact_id, %(snapshot)s::pg_snapshot)
        """,
        {
            "publisher": publisher,
            "snapshot": snapshot,
            "call": CALL_TYPE,
            "definition": DEFINITION_TYPE,
            "beside": BESIDE,
        },
    )
    return [writes for (writes,) in await cursor.fetchall()]


async def record(distribution: Connection, publisher: str, verdict: ArticleVerdict) -> None:
    """Insert a verdict into the history."""
    detail, result = verdict.messages()
    rows: list[tuple[str | None, ...]] = [
        ("validated", str(verdict.number), f"{result[1]} {detail[1]} ({detail[0]})", None)
    ]
    if verdict.repaired:
        names = [str(list(key)) for key in verdict.repaired]
        rows.append(
            (
                "repaired",
                None,
                f"article {verdict.article!r}: {len(names)} rows were given the Publisher's state",
                ", ".join(names)[:10_000],
            )
        )
    async with distribution.cursor() as cursor:
        await cursor.executemany(
            """
            insert into msrepl.msdistribution_history
                (publisher_database_id, subscriber, event, error, message, command)
            select d.id, %s, %s, %s, %s, %s from msrepl.mspublisher_databases d where d.publisher = %s
            """,
            [(verdict.subscriber, *row, publisher) for row in rows],
        )
