"""Subscriptions at the Publisher: the name of each Subscriber, and the role of its link.

The module knows nothing else of Subscribers. Every function takes an administrator's connection.
"""

from __future__ import annotations

import secrets
from typing import Any

from psycopg import AsyncConnection, sql

from twopc import names
from twopc.articles import Subscription
from twopc.errors import SubscriptionError
from twopc.publisher.catalog import fresh_articles
from twopc.publisher.rights import grant_links
from twopc.sql.passwords import verifier

Connection = AsyncConnection[Any]


async def add_subscription(connection: Connection, subscriber: str) -> tuple[Subscription, str]:
    """Register a Subscriber, with a link role that may call the sync procedures and nothing else.

    Returns:
        The subscription and the link role's password, which is stored at the Subscriber only.

    Raises:
        SubscriptionError: the Subscriber has a subscription already.
        ArticleError: an article's procedures no longer fit its table.
    """
    database = connection.info.dbname
    role = names.role("link", database, subscriber)
    password = secrets.token_urlsafe(24)
    async with connection.transaction():
        taken = await connection.execute(
            "select from msrepl.syssubscriptions where subscriber = %s", (subscriber,)
        )
        if taken.rowcount:
            raise SubscriptionError(
                f"{subscriber!r} subscribes to {database!r} already (21058): `twopc unsubscribe {subscriber}` first"
            )
        await _create_link_role(connection, role, password)
        await connection.execute(
            "insert into msrepl.syssubscriptions (subscriber, link_role) values (%s, %s)",
            (subscriber, role),
        )
        await connection.execute(
            sql.SQL("grant execute on procedure {}(boolean) to {}").format(
                sql.Identifier(names.SCHEMA, "defer_keys"), sql.Identifier(role)
            )
        )
        for stored in await fresh_articles(connection):
            await grant_links(connection, stored.source_schema, stored.source_object)
    return Subscription(subscriber=subscriber, link_role=role), password


async def _create_link_role(connection: Connection, role: str, password: str) -> None:
    name = sql.Identifier(role)
    rows = await connection.execute("select from pg_roles where rolname = %s", (role,))
    verb = "alter" if rows.rowcount else "create"
    await connection.execute(
        sql.SQL(verb + " role {} login noinherit password {}").format(
            name, verifier(connection, role, password)
        )
    )
    # Each transaction on the link begins with a ROLLBACK, usually outside a transaction: keep the warning out
    # of the server log.
    await connection.execute(sql.SQL("alter role {} set log_min_messages = 'error'").format(name))
    await connection.execute(
        sql.SQL("grant connect on database {} to {}").format(
            sql.Identifier(connection.info.dbname), name
        )
    )
    await connection.execute(
        sql.SQL("grant usage on schema {} to {}").format(sql.Identifier(names.SCHEMA), name)
    )


async def drop_subscription(connection: Connection, subscriber: str) -> None:
    """Remove a Subscriber and drop its link role; its branches must be settled.

    Raises:
        SubscriptionError: a branch of the Subscriber is still prepared.
    """
    async with connection.transaction():
        cursor = await connection.execute(
            "delete from msrepl.syssubscriptions where subscriber = %s returning link_role",
            (subscriber,),
        )
        row = await cursor.fetchone()
        if row is None:
            return
        held = await connection.execute(
            "select gid from pg_prepared_xacts where owner = %s and database = current_database()",
            (row[0],),
        )
        gids = [gid for (gid,) in await held.fetchall()]
        if gids:
            raise SubscriptionError(
                f"subscription of {subscriber!r} still has prepared branches ({gids[0]}): "
                "run `twopc recover` first"
            )
        # Recovery must not look for these branches at a Subscriber that subscribes again.
        await connection.execute("delete from msrepl.branch_marker where originator = %s", row)
        name = sql.Identifier(row[0])
        await connection.execute(sql.SQL("drop owned by {}").format(name))
        await connection.execute(sql.SQL("drop role {}").format(name))


async def set_part(connection: Connection, subscriber: str, article_id: int) -> None:
    """Give a Subscriber this part of an article instead of the whole.

    Rows that the Subscriber writes must then be in the part (21034).
    """
    await connection.execute(
        """
        update msrepl.syssubscriptions set parts = array_append(array_remove(parts, %(part)s), %(part)s)
        where subscriber = %(subscriber)s
        """,
        {"part": article_id, "subscriber": subscriber},
    )


async def subscriptions(connection: Connection) -> tuple[Subscription, ...]:
    """Return all subscriptions of this database."""
    cursor = await connection.execute(
        "select subscriber, link_role, status from msrepl.syssubscriptions order by subscriber"
    )
    return tuple(
        Subscription(subscriber=subscriber, link_role=role, active=status == "active")
        for subscriber, role, status in await cursor.fetchall()
    )
