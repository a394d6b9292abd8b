"""Registry of a distribution database: Publishers, articles, subscriptions, and their agents.

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
from twopc.errors import ServerError, SubscriptionError

Connection = AsyncConnection[Any]

INACTIVE, SUBSCRIBED, ACTIVE = 0, 1, 2
#: Channel notified when articles change, so that log readers read them again.
ARTICLES_CHANGED = "msrepl_articles"
#: Channel notified when agents should look: transactions are stored, or a subscription is removed.
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
    """Register a Publisher's database; of a registered one, only name of the database and slot are updated, and
    the horizon if it is unknown or there is no subscription.

    Args:
        read_to: position at which the slot begins: transactions committed before are not decoded.
        horizon: a transaction id of the Publisher, at least as high as any before the slot; 0 if unknown, and
            the log reader then uses the transaction ids of its start.

    Returns:
        Number of the Publisher's database, which is part of every other key.
    """
    cursor = await connection.execute(
        """
        insert into msrepl.mspublisher_databases as d (publisher, publisher_db, slot, read_to, slot_limit, horizon)
        values (%(publisher)s, %(database)s, %(slot)s, %(read_to)s, %(read_to)s, %(horizon)s::text::xid8)
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


async def continues(connection: Connection, publisher_database_id: int, begins: str) -> bool:
    """Return whether a slot that begins at a position sends everything that is not stored."""
    cursor = await connection.execute(
        "select slot_limit = '0/0' or slot_limit >= %s::pg_lsn from msrepl.mspublisher_databases where id = %s",
        (begins, publisher_database_id),
    )
    row = await cursor.fetchone()
    return row is not None and bool(row[0])


async def deactivate_all(connection: Connection, publisher_database_id: int) -> None:
    """Deactivate every subscription, because changes are lost to all of them; record it in the history."""
    await connection.execute(
        """
        with given_up as (
            update msrepl.mssubscriptions set status = 0 where publisher_database_id = %s and status > 0
            returning publisher_database_id, subscriber)
        insert into msrepl.msdistribution_history (publisher_database_id, subscriber, event, message)
        select distinct publisher_database_id, subscriber, 'deactivated',
               format('the subscription of %%s was deactivated: the Publisher''s log begins anew, without changes '
                      'that it lacks; reinitialise it', subscriber)
        from given_up
        """,
        (publisher_database_id,),
    )


async def restart(
    connection: Connection, publisher_database_id: int, begins: str, *, horizon: int
) -> None:
    """Record that another slot begins at a position, and that everything before it counts as read.

    Raises:
        ServerError: the position is before the end of the store.
    """
    cursor = await connection.execute(
        """
        update msrepl.mspublisher_databases d
        set read_to = %(begins)s, last_seqno = '0/0', slot_limit = %(begins)s, last_error = null,
            horizon = greatest(d.horizon, %(horizon)s::text::xid8)
        where id = %(id)s and read_to <= %(begins)s::pg_lsn
        """,
        {"id": publisher_database_id, "begins": begins, "horizon": horizon},
    )
    if not cursor.rowcount:
        raise ServerError(
            f"the Publisher's log is at {begins}, before the end of what is stored of it: it is another log. Was the "
            "Publisher restored from a backup? `twopc unsubscribe` all Subscribers, empty their tables, and subscribe "
            "them again"
        )


async def forget_publisher(connection: Connection, publisher: str) -> None:
    """Remove a Publisher's database with all of its stored transactions; do nothing if it is not registered."""
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
    """Return the number of a Publisher's database; None if it is not registered."""
    cursor = await connection.execute(
        "select id from msrepl.mspublisher_databases where publisher = %s", (publisher,)
    )
    row = await cursor.fetchone()
    return None if row is None else int(row[0])


# -- articles -------------------------------------------------------------------------------------


async def put_article(
    connection: Connection, publisher_database_id: int, distributed: DistributedArticle
) -> None:
    """Insert or update an article.

    Commands stored before were made with the previous definition: deliver them first.
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
    """Insert or update all articles of a Publisher's database, and remove those that no longer exist.

    Raises:
        SubscriptionError: an article that no longer exists is still subscribed to.
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
    """Remove an article without subscriptions; do nothing if it does not exist."""
    await connection.execute(
        "delete from msrepl.msarticles where (publisher_database_id, article_id) = (%s, %s)",
        (publisher_database_id, article_id),
    )
    await connection.execute(f"notify {ARTICLES_CHANGED}".encode())


async def articles(
    connection: Connection, publisher_database_id: int
) -> tuple[DistributedArticle, ...]:
    """Return the articles of a Publisher's database that are tables, by number."""
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
    """Register a Subscriber as an originator, so that its own changes can be recognised; return its number.

    This must precede its first change; otherwise the log reader takes the change for the Publisher's own, and it
    is delivered back.
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
    """Subscribe a Subscriber to an article's commands from a position on; repeat to change the position.

    Args:
        status: SUBSCRIBED until the copy is made, then ACTIVE. As long as it is SUBSCRIBED and
            `subscription_seqno` is not known, nothing is cleaned up.
        subscription_seqno, copy_snapshot, copy_seqno, update_mode: see ``msrepl.mssubscriptions``.

    Raises:
        SubscriptionError: the article does not exist.
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
    """Return the Subscribers of any of these articles."""
    cursor = await connection.execute(
        "select distinct subscriber from msrepl.mssubscriptions "
        "where publisher_database_id = %s and article_id = any (%s) order by 1",
        (publisher_database_id, list(article_ids)),
    )
    return [name for (name,) in await cursor.fetchall()]


async def sync_types(
    connection: Connection, publisher_database_id: int, subscriber: str
) -> set[str]:
    """Return the ways in which a Subscriber's copies were made."""
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
    """Store the profile of a Subscriber's agent; the Subscriber must have a subscription."""
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
    """Remove subscriptions; with the last one, remove the Subscriber's agent and its originator.

    Args:
        article_id: None for all articles of this Subscriber.
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
