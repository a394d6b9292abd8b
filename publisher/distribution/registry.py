"""Who is in a distribution database: Publishers, articles, subscriptions, and their agents.

Every function takes an administrator's connection and does its work in one transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from psycopg import AsyncConnection, sql
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

from twopc import names
from twopc.distributed_article import DistributedArticle
from twopc.errors import SubscriptionError

Connection = AsyncConnection[Any]

INACTIVE, SUBSCRIBED, ACTIVE = 0, 1, 2
#: Notified when an article was entered: whoever makes commands reads the articles again.
ARTICLES_CHANGED = "msrepl_articles"
#: Notified when agents should look: there is more to deliver, or a subscription is gone.
AGENTS_WAKE = "msrepl_distribution"


async def register_publisher(
    connection: Connection,
    publisher: str,
    *,
    database: str,
    slot: str,
    read_to: str = "0/0",
    horizon: int = 0,
) -> int:
    """Enter a Publisher's database; what is known of it already stays, but its slot.

    Args:
        read_to: where the slot begins: what was committed before is not in it.
        horizon: a transaction id of the Publisher, as high as any of before the slot; 0: not known, and the
            log reader takes those for the Publisher's that are there when it begins.

    Returns:
        Its number here, which is part of every other key.
    """
    cursor = await connection.execute(
        """
        insert into msrepl.mspublisher_databases as d (publisher, publisher_db, slot, read_to, horizon)
        values (%(publisher)s, %(database)s, %(slot)s, %(read_to)s, %(horizon)s::text::xid8)
        on conflict (publisher) do update
        set publisher_db = excluded.publisher_db, slot = excluded.slot,
            horizon = case when d.horizon = '0' or not exists (
                               select from msrepl.mssubscriptions s where s.publisher_database_id = d.id)
                           then greatest(d.horizon, excluded.horizon) else d.horizon end
        returning id
        """,
        {
            "publisher": publisher,
            "database": database,
            "slot": slot,
            "read_to": read_to,
            "horizon": horizon,
        },
    )
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def forget_publisher(connection: Connection, publisher: str) -> None:
    """Remove a Publisher's database with everything that was stored of it; harmless if it is not known."""
    async with connection.transaction():
        result = await publisher_id(connection, publisher)
        if result is None:
            return
        for table in ("mssubscriptions", "msrepl_blocks"):
            await _delete_all(connection, table, result)
        await connection.execute(
            "delete from msrepl.mspublisher_databases where id = %s", (result,)
        )


async def _delete_all(connection: Connection, table: str, publisher: int) -> None:
    statement = sql.SQL("delete from {} where publisher_database_id = %s")
    await connection.execute(statement.format(sql.Identifier(names.SCHEMA, table)), (publisher,))


async def publisher_id(connection: Connection, publisher: str) -> int | None:
    """The number of a Publisher's database; None if it is not known here."""
    cursor = await connection.execute(
        "select id from msrepl.mspublisher_databases where publisher = %s", (publisher,)
    )
    row = await cursor.fetchone()
    return None if row is None else int(row[0])


# -- articles -------------------------------------------------------------------------------------


async def put_article(
    connection: Connection, publisher_database_id: int, distributed: DistributedArticle
) -> None:
    """Enter an article, or what has become of it.

    What is stored already was made for the article as it was: deliver that first.
    """
    article = distributed.article
    await connection.execute(
        """
        insert into msrepl.msarticles
            (publisher_database_id, article_id, source_schema, source_object, columns, key, left_out,
             generated, filter_clause, propagation, procedures)
        values (%(publisher)s, %(article)s, %(schema)s, %(table)s, %(columns)s, %(key)s, %(left_out)s,
                %(generated)s, %(filter)s, %(propagation)s, %(procedures)s)
        on conflict (publisher_database_id, article_id) do update
        set (source_schema, source_object, columns, key, left_out, generated, filter_clause, propagation,
             procedures)
          = (excluded.source_schema, excluded.source_object, excluded.columns, excluded.key,
             excluded.left_out, excluded.generated, excluded.filter_clause, excluded.propagation,
             excluded.procedures)
        """,
        {
            "publisher": publisher_database_id,
            "article": distributed.article_id,
            "schema": article.schema,
            "table": article.table,
            "columns": Jsonb(distributed.as_columns()),
            "key": list(article.key),
            "left_out": list(distributed.left_out),
            "generated": list(distributed.generated),
            "filter": article.row_filter,
            "propagation": Jsonb(distributed.propagation.as_json()),
            "procedures": Jsonb(dict(distributed.procedures)),
        },
    )
    await connection.execute(f"notify {ARTICLES_CHANGED}".encode())


async def put_articles(
    connection: Connection, publisher_database_id: int, articles: Iterable[DistributedArticle]
) -> None:
    """Enter every article of a Publisher's database; those that it has no longer are removed.

    Raises:
        SubscriptionError: one that is gone is still subscribed to.
    """
    async with connection.transaction():
        known = []
        for article in articles:
            await put_article(connection, publisher_database_id, article)
            known.append(article.article_id)
        cursor = await connection.execute(
            """
            select subscriber from msrepl.mssubscriptions
            join msrepl.msarticles a using (publisher_database_id, article_id)
            where publisher_database_id = %s and a.kind = 'table' and article_id <> all (%s)
            """,
            (publisher_database_id, known),
        )
        row = await cursor.fetchone()
        if row is not None:
            raise SubscriptionError(
                f"{row[0]!r} still subscribes to an article that is gone: `twopc unsubscribe` it first"
            )
        await connection.execute(
            "delete from msrepl.msarticles "
            "where publisher_database_id = %s and kind = 'table' and article_id <> all (%s)",
            (publisher_database_id, known),
        )


async def drop_article(connection: Connection, publisher_database_id: int, article_id: int) -> None:
    """Remove an article to which nobody subscribes; harmless if it is not there."""
    await connection.execute(
        "delete from msrepl.msarticles where (publisher_database_id, article_id) = (%s, %s)",
        (publisher_database_id, article_id),
    )
    await connection.execute(f"notify {ARTICLES_CHANGED}".encode())


async def articles(
    connection: Connection, publisher_database_id: int
) -> tuple[DistributedArticle, ...]:
    """The tables among the articles of a Publisher's database, by number."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(
            "select * from msrepl.msarticles where publisher_database_id = %s and kind = 'table' "
            "order by article_id",
            (publisher_database_id,),
        )
        return tuple([DistributedArticle.from_row(row) for row in await cursor.fetchall()])


# -- subscriptions --------------------------------------------------------------------------------


async def add_originator(
    connection: Connection,
    publisher_database_id: int,
    subscriber: str,
    *,
    database: str,
    link_role: str,
) -> int:
    """Enter a Subscriber as somebody whose own changes can be told; returns its number.

    Before its first change, or the log reader takes that for the Publisher's own and it comes back.
    """
    cursor = await connection.execute(
        """
        insert into msrepl.msrepl_originators (publisher_database_id, srvname, dbname, link_role)
        values (%s, %s, %s, %s)
        on conflict (publisher_database_id, srvname) do update
        set dbname = excluded.dbname, link_role = excluded.link_role
        returning id
        """,
        (publisher_database_id, subscriber, database, link_role),
    )
    row = await cursor.fetchone()
    assert row is not None
    return int(row[0])


async def add_subscription(
    connection: Connection,
    publisher_database_id: int,
    article_id: int,
    subscriber: str,
    *,
    originator_id: int | None = None,
    sync_type: str = "automatic",
    loopback_detection: bool = True,
    status: int = SUBSCRIBED,
    subscription_seqno: str | None = None,
    copy_snapshot: str | None = None,
    copy_seqno: str | None = None,
    update_mode: str = "sync tran",
) -> None:
    """Let a Subscriber have an article's commands from a position on; again: from another one.

    Args:
        status: SUBSCRIBED until its copy is made, then ACTIVE. As long as it is SUBSCRIBED and
            `subscription_seqno` is not known, nothing is cleaned up.
        subscription_seqno, copy_snapshot, copy_seqno, update_mode: see ``msrepl.mssubscriptions``.

    Raises:
        SubscriptionError: there is no such article.
    """
    async with connection.transaction():
        known = await connection.execute(
            "select from msrepl.msarticles where (publisher_database_id, article_id) = (%s, %s)",
            (publisher_database_id, article_id),
        )
        if known.rowcount == 0:
            raise SubscriptionError(
                f"{subscriber!r} cannot subscribe to article {article_id}: the distribution database has "
                "none of that number: `twopc publish` the table first"
            )
        await connection.execute(
            """
            insert into msrepl.msdistribution_agents (publisher_database_id, subscriber) values (%s, %s)
            on conflict do nothing
            """,
            (publisher_database_id, subscriber),
        )
        await connection.execute(
            """
            insert into msrepl.mssubscriptions
                (publisher_database_id, article_id, subscriber, originator_id, status, sync_type,
                 loopback_detection, subscription_seqno, copy_snapshot, copy_seqno, update_mode)
            values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
            on conflict (publisher_database_id, article_id, subscriber) do update
            set (originator_id, status, sync_type, loopback_detection, subscription_seqno, copy_snapshot,
                 copy_seqno, update_mode)
              = (excluded.originator_id, excluded.status, excluded.sync_type, excluded.loopback_detection,
                 excluded.subscription_seqno, excluded.copy_snapshot, excluded.copy_seqno,
                 excluded.update_mode)
            """,
            (
                publisher_database_id,
                article_id,
                subscriber,
                originator_id,
                status,
                sync_type,
                loopback_detection,
                subscription_seqno,
                copy_snapshot,
                copy_seqno,
                update_mode,
            ),
        )


async def subscribers(
    connection: Connection, publisher_database_id: int, article_ids: Collection[int]
) -> list[str]:
    """Who subscribes to one of these articles."""
    cursor = await connection.execute(
        "select distinct subscriber from msrepl.mssubscriptions "
        "where publisher_database_id = %s and article_id = any (%s) order by 1",
        (publisher_database_id, list(article_ids)),
    )
    return [name for (name,) in await cursor.fetchall()]


async def sync_types(
    connection: Connection, publisher_database_id: int, subscriber: str
) -> set[str]:
    """How a Subscriber's copies came to be."""
    cursor = await connection.execute(
        "select distinct sync_type from msrepl.mssubscriptions "
        "where (publisher_database_id, subscriber) = (%s, %s)",
        (publisher_database_id, subscriber),
    )
    return {kind for (kind,) in await cursor.fetchall()}


async def set_profile(
    connection: Connection,
    publisher_database_id: int,
    subscriber: str,
    profile: Mapping[str, Any],
) -> None:
    """Keep what a Subscriber's agent is set to; it subscribes already."""
    await connection.execute(
        "update msrepl.msdistribution_agents set profile = %s "
        "where (publisher_database_id, subscriber) = (%s, %s)",
        (Jsonb(dict(profile)), publisher_database_id, subscriber),
    )


async def drop_subscription(
    connection: Connection,
    publisher_database_id: int,
    subscriber: str,
    *,
    article_id: int | None = None,
) -> None:
    """Take subscriptions back; with the last one the Subscriber's agent and its originator go.

    Args:
        article_id: None: all of this Subscriber's.
    """
    at = (publisher_database_id, subscriber)
    async with connection.transaction():
        await connection.execute(
            """
            delete from msrepl.mssubscriptions
            where (publisher_database_id, subscriber) = (%s, %s) and article_id = coalesce(%s, article_id)
            """,
            (*at, article_id),
        )
        left = await connection.execute(
            "select from msrepl.mssubscriptions where (publisher_database_id, subscriber) = (%s, %s)",
            at,
        )
        if left.rowcount:
            return
        await connection.execute(
            "delete from msrepl.msdistribution_agents where (publisher_database_id, subscriber) = (%s, %s)",
            at,
        )
        await connection.execute(
            "delete from msrepl.msrepl_originators where (publisher_database_id, srvname) = (%s, %s)",
            at,
        )
        await connection.execute(f"notify {AGENTS_WAKE}".encode())
