"""Declare, install and drop a subscription with immediate updating in a Subscriber's database.

The module knows of the Publisher only what it is given: articles, the address of the link, a role and a password.
Every function takes an administrator's connection (a superuser's: dblink and event triggers need one) and
does its work in one transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc import names
from twopc.articles import Article
from twopc.errors import ArticleError, SubscriptionError
from twopc.sql import fragments as f
from twopc.sql.describe import describe
from twopc.sql.fragments import qualified
from twopc.sql.passwords import unlogged
from twopc.sql.table_role import drop_role_text
from twopc.subscriber import not_for_replication
from twopc.subscriber.objects import (
    SERVER,
    LinkAddress,
    article_texts,
    deactivate_text,
    drop_article_texts,
    install_texts,
    owner_role,
    role_texts,
    user_mapping_text,
)
from twopc.subscriber.propagation import drop_all
from twopc.subscriber.tables import check_same_shape, check_ways_in, create_types
from twopc.subscriber.trigger_order import Obstacle, obstacles
from twopc.subscriber.triggers import BranchNames, TriggerTexts

__all__ = [
    "LinkAddress",
    "activate",
    "addsynctriggers",
    "article_commands",
    "check_fit",
    "hold",
    "inactive_message",
    "install",
    "link_publication",
    "owner_role",
    "regenerate",
    "register_role",
    "stale_mark",
    "subscribe",
    "uninstall",
    "unsubscribe",
]

Connection = AsyncConnection[Any]


async def install(connection: Connection, sites: BranchNames, link: LinkAddress) -> None:
    """Create the objects that a Subscriber needs before its first article: dblink, the link, shared functions.

    Raises:
        SubscriptionError: the database has a subscription already or publishes tables itself, or all roles
            may use the installed dblink.
    """
    async with connection.transaction():
        await _execute(connection, install_texts(connection.info.dbname, sites, link))
        await link_publication(connection, link.role, link.password)


async def _execute(connection: Connection, texts: Sequence[str]) -> None:
    try:
        await connection.execute(";\n".join(texts).encode())
    except psycopg.errors.ObjectNotInPrerequisiteState as error:
        hint = f": {error.diag.message_hint}" if error.diag.message_hint else ""
        raise SubscriptionError(f"{error.diag.message_primary}{hint}") from error


async def link_publication(connection: Connection, role: str, password: str) -> None:
    """Store the role and password of the link at the Publisher (the analogue of sp_link_publication)."""
    owner = sql.Identifier(owner_role(connection.info.dbname))
    await connection.execute(
        sql.SQL("drop user mapping if exists for {} server {}").format(
            owner, sql.Identifier(SERVER)
        )
    )
    async with connection.transaction(), unlogged(connection):
        await connection.execute(user_mapping_text(owner, role, password).encode())


async def addsynctriggers(connection: Connection, script: str, role: str, password: str) -> None:
    """Run the script of a subscription (the analogue of sp_addsynctriggers): sync type "none".

    The tables and their rows must exist already, with the Publisher's row versions.

    Args:
        script: made by `twopc.sim.script.script_synctran_commands`.
        role, password: of the link, at the Publisher.

    Raises:
        SubscriptionError: the script cannot be run in this database; nothing was changed.
    """
    async with connection.transaction():
        await _execute(connection, [script])
        await link_publication(connection, role, password)


async def register_role(connection: Connection, role: str, coordinator: str | None = None) -> None:
    """Let an application role take part in global transactions.

    Args:
        coordinator: the coordinator's role; it becomes a member, so that it can finish branches that
            the application role prepared.
    """
    async with connection.transaction():
        await _execute(connection, role_texts(role, coordinator))


async def subscribe(
    connection: Connection,
    article: Article,
    sites: BranchNames,
    *,
    created_table: bool = False,
    added_version: bool = False,
    added_keys: Sequence[str] = (),
) -> tuple[Obstacle, ...]:
    """Install the triggers of one article.

    The tables that it references must exist already.

    Args:
        created_table: whether the subscription created the table, which existed at the Publisher only.
        added_version: whether the subscription added the row version to an existing table.
        added_keys: foreign keys that the subscription added to an existing table.

    Returns:
        The obstacles that keep the capture triggers from firing first; if there are any, the subscription is
        inactive until `activate`.
    """
    commands, result = await article_commands(
        connection,
        article,
        sites,
        created_table=created_table,
        added_version=added_version,
        added_keys=added_keys,
    )
    async with connection.transaction():
        await _execute(connection, commands)
    return result


async def article_commands(
    connection: Connection, article: Article, sites: BranchNames, **facts: Any
) -> tuple[list[str], tuple[Obstacle, ...]]:
    """Return what `subscribe` executes and returns; the connection is only used to read the Subscriber's table."""
    local = await describe(connection, article.schema, article.table)
    check_ways_in(local)
    partitions = await _partitions(connection, article)
    texts = TriggerTexts(article, sites, owner_role(connection.info.dbname), local)
    result = obstacles(
        local,
        [await describe(connection, *partition) for partition in partitions],
        texts.trigger_name,
    )
    commands = article_texts(texts, partitions, **facts)
    return [*commands, *(deactivate_text(str(obstacle)) for obstacle in result)], result


async def regenerate(
    connection: Connection, article: Article, sites: BranchNames
) -> tuple[Obstacle, ...]:
    """Make the triggers of an article fit its table again, after an ALTER TABLE at either end.

    The table is found by the article's name; it may have had another name before.

    Raises:
        SubscriptionError: the table does not match the article; nothing was changed.
    """
    await check_fit(connection, article)
    async with connection.transaction():
        await create_types(connection, article)
        before = await _registered(connection, article)
        result = await subscribe(connection, article, sites)
        if before not in (None, (article.schema, article.table)):
            await _execute(
                connection, drop_article_texts(owner_role(connection.info.dbname), *before)
            )
    return result


async def stale_mark(connection: Connection, article: Article, *, lock: bool = False) -> str | None:
    """Return None while the triggers of an article fit its table; otherwise a mark that each DDL changes.

    Args:
        lock: whether to lock the registration until the transaction ends, so that the result stays valid.
    """
    query = sql.SQL(
        "select case when o.stale is not null then o.xmin::text end from msrepl.msreplication_objects as o "
        "where o.objid = to_regclass({}){}"
    ).format(
        sql.Literal(f.table_of(article).as_string(connection)),
        sql.SQL(" for update" if lock else ""),
    )
    row = await (await connection.execute(query)).fetchone()
    return row[0] if row is not None else None


async def hold(connection: Connection, article: Article) -> None:
    """Refuse all changes of an article's table until its triggers are regenerated."""
    await connection.execute(
        sql.SQL("select msrepl.make_stale({}::regclass, 'the Publisher''s was altered')").format(
            sql.Literal(f.table_of(article).as_string(connection))
        )
    )


async def check_fit(connection: Connection, article: Article) -> None:
    """Check that a table is that of the article and matches it.

    Raises:
        SubscriptionError: names the first difference, and the remedy.
    """
    where = f"{article.name} at {connection.info.dbname!r}"
    try:
        local = await describe(connection, article.schema, article.table)
    except ArticleError as error:
        raise SubscriptionError(
            f"{error}; the Publisher has {article.name}: rename or create the table to match"
        ) from error
    if await _registered(connection, article) is None:
        raise SubscriptionError(
            f"table {where} is not subscribed to: `twopc refresh` the Subscriber, or unsubscribe and subscribe it again"
        )
    check_same_shape(article, local)


async def _registered(connection: Connection, article: Article) -> tuple[str, str] | None:
    """Return the name under which an article's table was subscribed to; None if it was not."""
    cursor = await connection.execute(
        """
        select o.dest_schema, o.article from msrepl.msreplication_objects as o
        where o.objid = to_regclass(%s)
        """,
        (f.table_of(article).as_string(connection),),
    )
    row = await cursor.fetchone()
    return (row[0], row[1]) if row is not None else None


async def _partitions(connection: Connection, article: Article) -> list[tuple[str, str]]:
    """Return all partitions below a partitioned table, by schema and name."""
    cursor = await connection.execute(
        """
        select n.nspname::text, c.relname::text
        from pg_partition_tree(%s::text::regclass) p
        join pg_class c on c.oid = p.relid
        join pg_namespace n on n.oid = c.relnamespace
        where p.level > 0
        order by p.level, 1, 2
        """,
        (f.table_of(article).as_string(connection),),
    )
    return [(schema, name) for schema, name in await cursor.fetchall()]


async def activate(
    connection: Connection, articles: Sequence[Article], sites: BranchNames
) -> list[Obstacle]:
    """Allow changes again, after the obstacles that kept the capture triggers from firing first are removed.

    Returns:
        The remaining obstacles; if there are any, the subscription stays inactive.
    """
    async with connection.transaction():
        await connection.execute(
            "update msrepl.mssubscription_agents set status = 'active', status_reason = null"
        )
        return [o for article in articles for o in await subscribe(connection, article, sites)]


def inactive_message(result: Sequence[Obstacle]) -> str:
    """Return a message that says why a subscription is inactive, and the remedy."""
    return f"the subscription is inactive: {'; '.join(map(str, result))}"


async def unsubscribe(connection: Connection, schema: str, table: str) -> bool:
    """Drop the triggers of one article; the rows stay.

    Returns:
        Whether the table existed before the subscription, and has its previous definition again.
    """
    where = qualified(schema, table)
    async with connection.transaction():
        await not_for_replication.restore(connection, schema, table)
        cursor = await connection.execute(
            """
            delete from msrepl.msreplication_objects as o
            using pg_class c
            where (o.dest_schema, o.article) = (%s, %s) and c.oid = o.objid
            returning o.created_table, o.added_version, o.added_keys
            """,
            (schema, table),
        )
        row = await cursor.fetchone()
        if row is not None:
            await connection.execute(
                "select msrepl.drop_triggers(%s::text::regclass)", (where.as_string(connection),)
            )
        await _execute(
            connection, drop_article_texts(owner_role(connection.info.dbname), schema, table)
        )
        if row is None:
            return False
        created, added_version, added_keys = row
        owner = sql.Identifier(owner_role(connection.info.dbname))
        await connection.execute(sql.SQL("revoke all on {} from {}").format(where, owner))
        for key in added_keys:
            await connection.execute(
                sql.SQL("alter table {} drop constraint if exists {}").format(
                    where, sql.Identifier(key)
                )
            )
        if added_version:
            await connection.execute(
                sql.SQL("alter table {} drop column {}").format(
                    where, sql.Identifier(names.VERSION_COLUMN)
                )
            )
        return not created


async def refuse_prepared(connection: Connection) -> None:
    """Check that no branch is still prepared, since a prepared branch needs the subscription's objects.

    Raises:
        SubscriptionError: a branch is prepared.
    """
    cursor = await connection.execute(
        """
        select gid from pg_prepared_xacts
        where database = current_database() and starts_with(gid, %s)
          -- whose role may take part in global transactions; anybody may prepare under any name
          and coalesce(has_function_privilege(
              owner, to_regprocedure('msrepl.prepare_publisher(text, integer, text, text[])'), 'execute'), true)
        order by prepared
        """,
        (f"{names.PREFIX}:",),
    )
    prepared = await cursor.fetchone()
    if prepared is not None:
        raise SubscriptionError(
            f"database {connection.info.dbname!r} still has prepared branches "
            f"({prepared[0]}): run `twopc recover` first"
        )


async def uninstall(connection: Connection) -> list[tuple[str, str]]:
    """Drop the whole subscription; rows stay, and tables that existed before have their previous definition again.

    Returns:
        Schema and name of those tables.

    Raises:
        SubscriptionError: a branch is still prepared in this database.
    """
    async with connection.transaction():
        await refuse_prepared(connection)
        cursor = await connection.execute(
            "select dest_schema, article from msrepl.msreplication_objects order by 1, 2"
        )
        articles = [(schema, table) for schema, table in await cursor.fetchall()]
        unchanged = [a for a in articles if await unsubscribe(connection, *a)]
        await drop_all(connection)
        await _drop_objects(connection)
    return unchanged


async def _drop_objects(connection: Connection) -> None:
    """Drop link, schema and owner role; also dblink if the subscription installed it."""
    owner = sql.Identifier(owner_role(connection.info.dbname))
    link_schema = sql.Identifier(names.LINK_SCHEMA)
    cursor = await connection.execute(
        """
        select exists (select from pg_extension e where e.extname = 'dblink'
                       and obj_description(e.oid, 'pg_extension') = 'Made for a subscription'),
               obj_description(to_regnamespace(%s), 'pg_namespace')
                   = 'Made for a subscription, with dblink in it'
        """,
        (names.LINK_SCHEMA,),
    )
    made_dblink, made_schema = await cursor.fetchone() or (False, False)
    commands: list[sql.Composable] = [
        sql.SQL("drop event trigger if exists msrepl_ddl_guard"),
        sql.SQL("drop event trigger if exists msrepl_drop_guard"),
        sql.SQL("drop event trigger if exists msrepl_rewrite_guard"),
        sql.SQL("drop server if exists {} cascade").format(sql.Identifier(SERVER)),
        sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(names.SCHEMA)),
        sql.SQL(drop_role_text(names.calls_role(owner_role(connection.info.dbname)))),
        sql.SQL("drop owned by {}").format(owner),
        sql.SQL("drop role {}").format(owner),
    ]
    if made_dblink:
        commands.append(sql.SQL("drop extension dblink"))
    if made_schema:
        commands.append(sql.SQL("drop schema {}").format(link_schema))
    for command in commands:
        await connection.execute(command.as_string(connection).encode())
