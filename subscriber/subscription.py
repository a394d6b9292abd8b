"""Declare, install and drop a subscription with immediate updating in a Subscriber's database.

Knows the Publisher only by what it is handed: articles, the address of the link, a role and a password.
Every function takes an administrator's connection (a superuser's: dblink and event triggers need one) and
does its work in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, sql

from subscriber.firing import OPERATIONS, Obstacle, obstacles
from subscriber.triggers import LINK, Sites, TriggerTexts
from twopc import names
from twopc.articles import Article
from twopc.errors import SubscriptionError
from twopc.sql import fragments as f
from twopc.sql.describe import describe
from twopc.sql.fragments import qualified
from twopc.sql.render import render

Connection = AsyncConnection[Any]

#: Name of the foreign server object that holds the Publisher's address.
SERVER = "msrepl_publisher"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkAddress:
    """How a Subscriber's server reaches the Publisher (the analogue of sp_link_publication)."""

    options: Mapping[str, str]
    """libpq options without user and password: host, port, dbname."""
    role: str
    password: str
    lock_timeout_ms: int = 5000
    """How long a call may wait for a row at the Publisher."""

    def __repr__(self) -> str:
        return f"LinkAddress(options={dict(self.options)!r}, role={self.role!r}, password=...)"


def owner_role(database: str) -> str:
    """The role that owns our objects in a database: cannot log in, is not a superuser."""
    return names.role("owner", database)


async def install(connection: Connection, sites: Sites, link: LinkAddress) -> None:
    """Create what a Subscriber needs before its first article: dblink, the link, shared functions.

    Raises:
        SubscriptionError: the database has a subscription already, or dblink is not available.
    """
    async with connection.transaction():
        await _create_dblink(connection)
        role = owner_role(connection.info.dbname)
        owner = sql.Identifier(role)
        found = await connection.execute("select from pg_roles where rolname = %s", (role,))
        if found.rowcount == 0:
            await connection.execute(sql.SQL("create role {} nologin").format(owner))
        schema = sql.Identifier(names.SCHEMA)
        await connection.execute(sql.SQL("create schema if not exists {}").format(schema))
        await connection.execute(sql.SQL("grant all on schema {} to {}").format(schema, owner))
        await _grant_dblink(connection, owner)
        await _create_link(connection, owner, link)
        for text in shared_objects(owner, sites):
            await connection.execute(text)
        taken = await connection.execute("select publisher from msrepl.mssubscription_agents")
        row = await taken.fetchone()
        if row is not None:
            raise SubscriptionError(
                f"database {connection.info.dbname!r} subscribes to {row[0]!r} already (21058)"
            )
        await connection.execute(
            """
            insert into msrepl.mssubscription_agents (publisher, subscriber, publisher_db, link)
            values (%s, %s, %s, %s)
            """,
            (sites.publisher, sites.subscriber, link.options.get("dbname", ""), SERVER),
        )


def shared_objects(owner: sql.Identifier, sites: Sites) -> list[str]:
    """Everything at a Subscriber that does not depend on an article."""
    link = sql.Literal(LINK)
    application_name = sql.Literal(f"msrepl {sites.subscriber}")
    return [
        render("subscriber", "catalog", owner=owner),
        render("twopc", "branch_marker", owner=owner),
        render("twopc", "raise_conflict", owner=owner),
        render("twopc", "raise_stale", owner=owner),
        render("twopc", "table_structure", owner=owner),
        render("twopc", "refuse_truncate_function", owner=owner),
        render("subscriber", "raise_uncoordinated", owner=owner),
        render("subscriber", "raise_inactive", owner=owner),
        render("subscriber", "deactivate", owner=owner),
        render(
            "subscriber",
            "open_link",
            owner=owner,
            link=link,
            server=sql.Literal(SERVER),
            application_name=application_name,
        ),
        render("subscriber", "link_is_lost", owner=owner, link=link),
        render("subscriber", "drain_link", owner=owner, link=link),
        render("subscriber", "query_link", owner=owner, link=link),
        render("subscriber", "explain_failure", owner=owner),
        render("subscriber", "ship_again", owner=owner, link=link),
        render("subscriber", "prepare_again", owner=owner, link=link),
        render("subscriber", "flush", owner=owner, link=link),
        render("subscriber", "reset_link", owner=owner, link=link),
        render("subscriber", "fetch_generated", owner=owner),
        render("subscriber", "fetch_stored", owner=owner),
        render("subscriber", "renew_version", owner=owner),
        render("subscriber", "held_row", owner=owner),
        render(
            "subscriber",
            "send_held",
            owner=owner,
            own_branch=sites.own_branch,
            publisher_branch=sites.publisher_branch,
            sites=sites.array,
            sites_text=sites.array_text,
        ),
        render("subscriber", "enter_statement", owner=owner),
        render("subscriber", "leave_statement", owner=owner),
        render("subscriber", "release_held", owner=owner),
        render("subscriber", "close_statement", owner=owner),
        prepare_publisher(owner, sites, has_keys=False),
    ]


def prepare_publisher(owner: sql.Identifier, sites: Sites, *, has_keys: bool) -> str:
    """The procedure that prepares the Publisher's branch; with foreign keys, rows may still be held."""
    held = (
        "\n    perform msrepl.send_held();"
        "\n    marker := nullif(current_setting('msrepl.marker', true), '')::tid;"
    )
    return render(
        "subscriber",
        "prepare_publisher",
        owner=owner,
        link=sql.Literal(LINK),
        held=sql.SQL(held if has_keys else ""),
        own_branch=sites.own_branch,
        publisher_branch=sites.publisher_branch,
    )


async def _create_dblink(connection: Connection) -> None:
    cursor = await connection.execute(
        """
        select n.nspname from pg_extension e join pg_namespace n on n.oid = e.extnamespace
        where e.extname = 'dblink'
        """
    )
    row = await cursor.fetchone()
    if row is not None and row[0] != names.LINK_SCHEMA:
        raise SubscriptionError(
            f"extension dblink is in schema {row[0]!r}, where every role may use an open link: "
            f"ALTER EXTENSION dblink SET SCHEMA {names.LINK_SCHEMA}"
        )
    if row is None:
        schema = sql.Identifier(names.LINK_SCHEMA)
        await connection.execute(sql.SQL("create schema if not exists {}").format(schema))
        await connection.execute(sql.SQL("create extension dblink schema {}").format(schema))


async def _grant_dblink(connection: Connection, owner: sql.Identifier) -> None:
    """dblink for the owner only: an open link belongs to the session, not to a role."""
    schema = sql.Identifier(names.LINK_SCHEMA)
    await connection.execute(
        sql.SQL("revoke all on all functions in schema {} from public").format(schema)
    )
    await connection.execute(sql.SQL("revoke all on schema {} from public").format(schema))
    await connection.execute(sql.SQL("grant usage on schema {} to {}").format(schema, owner))
    await connection.execute(
        sql.SQL("grant execute on all functions in schema {} to {}").format(schema, owner)
    )


async def _create_link(connection: Connection, owner: sql.Identifier, link: LinkAddress) -> None:
    """The server object and the owner's user mapping; no other role can read the password."""
    settings = (
        f"-c lock_timeout={link.lock_timeout_ms} -c idle_in_transaction_session_timeout=60s"
        " -c datestyle=ISO -c intervalstyle=postgres -c extra_float_digits=1 -c timezone=UTC"
        " -c plan_cache_mode=force_generic_plan -c client_min_messages=error"
        " -c client_connection_check_interval=300ms"
    )
    options = {**link.options, "options": settings, "connect_timeout": "5"}
    server = sql.Identifier(SERVER)
    await connection.execute(sql.SQL("drop server if exists {} cascade").format(server))
    await connection.execute(
        sql.SQL("create server {} foreign data wrapper dblink_fdw options ({})").format(
            server, _options(options)
        )
    )
    await connection.execute(
        sql.SQL("grant usage on foreign server {} to {}").format(server, owner)
    )
    await connection.execute(
        sql.SQL("create user mapping for {} server {} options ({})").format(
            owner, server, _options({"user": link.role, "password": link.password})
        )
    )


def _options(options: Mapping[str, str]) -> sql.Composed:
    return sql.SQL(", ").join(
        [
            sql.SQL("{} {}").format(sql.Identifier(name), sql.Literal(value))
            for name, value in options.items()
        ]
    )


async def register_role(connection: Connection, role: str, coordinator: str | None = None) -> None:
    """Let an application role take part in global transactions.

    Args:
        coordinator: the coordinator's role; it becomes a member, so that it can finish branches that
            the application role prepared.
    """
    name = sql.Identifier(role)
    async with connection.transaction():
        await connection.execute(
            sql.SQL("grant usage on schema {} to {}").format(sql.Identifier(names.SCHEMA), name)
        )
        await connection.execute(
            sql.SQL("grant execute on procedure {}(text, integer) to {}").format(
                sql.Identifier(names.SCHEMA, "prepare_publisher"), name
            )
        )
        await connection.execute(
            sql.SQL("grant execute on function {}() to {}").format(
                sql.Identifier(names.SCHEMA, "reset_link"), name
            )
        )
        if coordinator is not None:
            await connection.execute(
                sql.SQL("grant {} to {}").format(name, sql.Identifier(coordinator))
            )


async def subscribe(
    connection: Connection,
    article: Article,
    sites: Sites,
    *,
    created_table: bool = False,
    added_version: bool = False,
) -> tuple[Obstacle, ...]:
    """Install the triggers of one article, or fit them to its table again.

    The tables that it refers to must be there already.

    Args:
        created_table: the subscription made the table, which existed at the Publisher only.
        added_version: the subscription added the row version to an existing table.

    Returns:
        What keeps our triggers from firing first; then the subscription is inactive until `activate`.
    """
    local = await describe(connection, article.schema, article.table)
    partitions = await _partitions(connection, article)
    owner = owner_role(connection.info.dbname)
    texts = TriggerTexts(article, sites, owner, local)
    found = obstacles(
        local,
        [await describe(connection, *partition) for partition in partitions],
        texts.trigger_name,
    )
    if found:
        texts = TriggerTexts(article, sites, owner)
    async with connection.transaction():
        await _grant_table(connection, texts)
        await _drop_triggers(connection, article.schema, article.table)
        for text in texts.functions():
            await connection.execute(text.encode())
        for text in texts.triggers([qualified(*partition) for partition in partitions]):
            await connection.execute(text.encode())
        await _register(connection, texts, created_table=created_table, added_version=added_version)
        if texts.has_keys:
            prepare = prepare_publisher(sql.Identifier(owner), sites, has_keys=True)
            await connection.execute(prepare.encode())
        for obstacle in found:
            await connection.execute("select msrepl.deactivate(%s)", (str(obstacle),))
    return found


async def _partitions(connection: Connection, article: Article) -> list[tuple[str, str]]:
    """Everything below a partitioned table, by schema and name."""
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


async def _grant_table(connection: Connection, texts: TriggerTexts) -> None:
    """What the owner of our functions needs: to name the table, and to write rows back."""
    if texts.has_keys or texts.takes_back:
        await connection.execute(
            sql.SQL("grant usage on schema {} to {}").format(
                sql.Identifier(texts.article.schema), texts.owner
            )
        )
    if texts.takes_back:
        await connection.execute(
            sql.SQL("grant select, update on {} to {}").format(texts.table, texts.owner)
        )
        await connection.execute(
            sql.SQL("grant set on parameter session_replication_role to {}").format(texts.owner)
        )


async def _register(
    connection: Connection, texts: TriggerTexts, *, created_table: bool, added_version: bool
) -> None:
    article = texts.article
    await connection.execute(
        """
        insert into msrepl.msreplication_objects as o
            (objid, dest_schema, article, created_table, added_version, structure, routines, parents,
             sync_calls, write_back)
        select c.oid, %(schema)s, %(table)s, %(created)s, %(added)s, msrepl.table_structure(c.oid),
               array(select p.oid from pg_proc p
                     where p.pronamespace = 'msrepl'::regnamespace and p.proname::text = any (%(routines)s)),
               array(select to_regclass(t)::oid from unnest(%(parents)s::text[]) as t),
               jsonb_build_object('ins', %(ins)s::text, 'upd', %(upd)s::text, 'del', %(del)s::text), %(back)s
        from pg_class c
        where c.oid = %(name)s::text::regclass
        on conflict (objid) do update
        set structure = excluded.structure, routines = excluded.routines, parents = excluded.parents,
            sync_calls = excluded.sync_calls, write_back = excluded.write_back, stale = null
        """,
        {
            "schema": article.schema,
            "table": article.table,
            "created": created_table,
            "added": added_version,
            "routines": [texts.function_name(operation) for operation in OPERATIONS],
            "parents": [
                qualified(key.target_schema, key.target_table).as_string(connection)
                for key in article.references
            ],
            "ins": texts.call("ins"),
            "upd": texts.call("upd"),
            "del": texts.call("del"),
            "back": texts.function("back").as_string(connection) if texts.takes_back else None,
            "name": texts.table.as_string(connection),
        },
    )


async def _drop_triggers(connection: Connection, schema: str, table: str) -> None:
    """Drop our triggers of a table and of its partitions."""
    cursor = await connection.execute(
        """
        select format('drop trigger %%I on %%s', t.tgname, t.tgrelid::regclass)
        from pg_trigger t
        join pg_proc p on p.oid = t.tgfoid and p.pronamespace = 'msrepl'::regnamespace
        where t.tgparentid = 0 and t.tgname ~ '^[!~]?trg_mssync_' and t.tgrelid in (
            select %(name)s::text::regclass::oid
            union select relid from pg_partition_tree(%(name)s::text::regclass))
        """,
        {"name": qualified(schema, table).as_string(connection)},
    )
    for (command,) in await cursor.fetchall():
        await connection.execute(command)


async def activate(connection: Connection, articles: Sequence[Article], sites: Sites) -> None:
    """Let changes through again, after whatever kept our triggers from firing first is gone.

    Raises:
        SubscriptionError: something still does; the subscription stays inactive.
    """
    async with connection.transaction():
        await connection.execute(
            "update msrepl.mssubscription_agents set status = 'active', status_reason = null"
        )
        found = [o for article in articles for o in await subscribe(connection, article, sites)]
    if found:
        raise SubscriptionError("; ".join(map(str, found)))


async def unsubscribe(connection: Connection, article: Article, sites: Sites) -> None:
    """Take the triggers of one article away; the rows stay."""
    texts = TriggerTexts(article, sites, owner_role(connection.info.dbname))
    async with connection.transaction():
        cursor = await connection.execute(
            """
            delete from msrepl.msreplication_objects where dest_schema = %s and article = %s
            returning objid::regclass::text, added_version, write_back
            """,
            (article.schema, article.table),
        )
        row = await cursor.fetchone()
        if row is None:
            return
        await _drop_triggers(connection, article.schema, article.table)
        for what in ("ver", "ins", "upd", "del", "gen", "back"):
            await connection.execute(
                sql.SQL("drop function if exists {}").format(texts.function(what))
            )
        await connection.execute(sql.SQL("drop type if exists {}").format(texts.row_type()))
        await connection.execute(
            sql.SQL("revoke all on {} from {}").format(texts.table, texts.owner)
        )
        if row[1]:
            await connection.execute(
                sql.SQL("alter table {} drop column {}").format(
                    texts.table, sql.Identifier(names.VERSION_COLUMN)
                )
            )
