"""Declare, install and drop a subscription with immediate updating in a Subscriber's database.

Knows the Publisher only by what it is handed: articles, the address of the link, a role and a password.
Every function takes an administrator's connection (a superuser's: dblink and event triggers need one) and
does its work in one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, sql

from subscriber.triggers import LINK, Sites, TriggerTexts
from twopc import names
from twopc.articles import Article
from twopc.errors import SubscriptionError
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
        render("subscriber", "explain_failure", owner=owner, link=link),
        render("subscriber", "ship_again", owner=owner, link=link),
        render("subscriber", "prepare_again", owner=owner, link=link),
        render("subscriber", "flush", owner=owner, link=link),
        render("subscriber", "reset_link", owner=owner, link=link),
        render("subscriber", "fetch_generated", owner=owner, link=link),
        render(
            "subscriber",
            "prepare_publisher",
            owner=owner,
            link=link,
            own_branch=sites.own_branch,
            publisher_branch=sites.publisher_branch,
        ),
    ]


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


async def subscribe(connection: Connection, article: Article, sites: Sites) -> None:
    """Install the triggers of one article; its table must be there already."""
    texts = TriggerTexts(article, sites, owner_role(connection.info.dbname))
    async with connection.transaction():
        for text in (*texts.functions(), *texts.triggers()):
            await connection.execute(text)


async def unsubscribe(connection: Connection, article: Article, sites: Sites) -> None:
    """Take the triggers of one article away; the rows stay."""
    texts = TriggerTexts(article, sites, owner_role(connection.info.dbname))
    where = qualified(article.schema, article.table)
    async with connection.transaction():
        for what in texts.kinds():
            await connection.execute(
                sql.SQL("drop trigger if exists {} on {}").format(texts.trigger(what), where)
            )
            await connection.execute(
                sql.SQL("drop function if exists {}()").format(texts.function(what))
            )
