"""Declare, install and drop a publication: what this database publishes, and to whom.

Knows nothing of Subscribers but their names. Every function here takes an administrator's connection
(a superuser's: event triggers and roles need it) and does its work in one transaction.
"""

from __future__ import annotations

import secrets
from typing import Any

from psycopg import AsyncConnection, sql

from publisher.procedures import ProcedureTexts
from twopc import names
from twopc.articles import Article, Column, ForeignKey, Subscription, Table
from twopc.errors import ArticleError, SubscriptionError
from twopc.sql.describe import describe
from twopc.sql.fragments import qualified
from twopc.sql.render import render

Connection = AsyncConnection[Any]


def owner_role(database: str) -> str:
    """The role that owns our objects in a database: cannot log in, is not a superuser."""
    return names.role("owner", database)


async def install(connection: Connection) -> None:
    """Create what a Publisher needs before its first article. Idempotent."""
    async with connection.transaction():
        owner = await create_owner(connection)
        await connection.execute(render("publisher", "catalog", owner=owner))
        for text in (
            render("twopc", "branch_marker", owner=owner),
            render("twopc", "raise_conflict", owner=owner),
            render("twopc", "raise_stale", owner=owner),
            render("twopc", "table_structure", owner=owner),
            render("twopc", "refuse_truncate_function"),
            render("publisher", "version_trigger_function"),
            render("publisher", "ddl_guard_function", owner=owner),
            render("twopc", "ddl_guard_triggers"),
        ):
            await connection.execute(text)


async def create_owner(connection: Connection) -> sql.Identifier:
    """Schema ``msrepl`` and the role that owns it, in this database."""
    role = owner_role(connection.info.dbname)
    name = sql.Identifier(role)
    found = await connection.execute("select from pg_roles where rolname = %s", (role,))
    if found.rowcount == 0:
        await connection.execute(sql.SQL("create role {} nologin").format(name))
    schema = sql.Identifier(names.SCHEMA)
    await connection.execute(sql.SQL("create schema if not exists {}").format(schema))
    await connection.execute(sql.SQL("grant all on schema {} to {}").format(schema, name))
    return name


# -- articles -------------------------------------------------------------------------------------


def article_of(
    table: Table,
    *,
    columns: tuple[str, ...] | None = None,
    row_filter: str | None = None,
) -> Article:
    """The article that publishes `table`, or the columns of it that are named.

    Raises:
        ArticleError: the table cannot be published so; the message names object and remedy.
    """
    where = f"table {table.schema}.{table.name}"
    _check_table(table, where)
    chosen = _chosen_columns(table, columns, where)
    kept = {column.name for column in chosen}
    before = any(t.before and t.row and (t.insert or t.update) for t in table.triggers)
    return Article(
        schema=table.schema,
        table=table.name,
        columns=chosen,
        key=table.key,
        row_filter=row_filter,
        uniques=tuple((name, cols) for name, cols in table.uniques if set(cols) <= kept),
        writes_back=before,
        referenced_by=tuple(key for key in table.referenced_by if key.acts),
        references=table.references,
    )


def _check_table(table: Table, where: str) -> None:
    if table.kind not in ("r", "p"):
        raise ArticleError(f"{where} is not a table: only tables can be published")
    if table.persistence != "p":
        raise ArticleError(f"{where} is temporary or unlogged: ALTER TABLE ... SET LOGGED first")
    if table.is_partition:
        raise ArticleError(f"{where} is a partition: publish its parent instead")
    if not table.key:
        raise ArticleError(
            f"{where} has no primary key, by which rows are found at the other end: "
            f"ALTER TABLE {table.schema}.{table.name} ADD PRIMARY KEY (...)"
        )
    if table.row_security:
        raise ArticleError(
            f"{where} has row security, which would hide rows from the sync procedures: "
            "publish a row filter instead and DISABLE ROW LEVEL SECURITY"
        )
    for column in table.columns:
        if column.name == names.VERSION_COLUMN and (column.type != "uuid" or not column.not_null):
            raise ArticleError(
                f"{where}: column {names.VERSION_COLUMN} is {column.type}, it must be "
                "uuid NOT NULL (the original's 21192)"
            )


def _chosen_columns(table: Table, wanted: tuple[str, ...] | None, where: str) -> tuple[Column, ...]:
    if wanted is None:
        return table.columns
    known = {column.name for column in table.columns}
    missing = [name for name in wanted if name not in known]
    if missing:
        raise ArticleError(
            f"{where} has no column {missing[0]!r}; it has {', '.join(sorted(known))}"
        )
    kept = set(wanted) | {names.VERSION_COLUMN}
    for name in table.key:
        if name not in kept:
            raise ArticleError(f"{where}: key column {name!r} must be published (21250)")
    for column in table.columns:
        filled = column.default or column.identity or column.generated
        if column.name not in kept and column.not_null and not filled:
            raise ArticleError(
                f"{where}: column {column.name!r} is NOT NULL without a default, so it must be "
                "published (21164)"
            )
    for name, columns in table.uniques:
        left_out = [c for c in columns if c not in kept]
        if left_out:
            raise ArticleError(
                f"{where}: column {left_out[0]!r} of unique index {name!r} must be published (21347)"
            )
    return tuple(column for column in table.columns if column.name in kept)


async def publish(
    connection: Connection,
    schema: str,
    table: str,
    *,
    columns: tuple[str, ...] | None = None,
    row_filter: str | None = None,
) -> Article:
    """Make a table an article: row version, its trigger, and the sync procedures.

    Args:
        columns: what to publish; the key and the row version belong to it in any case. None: all.
        row_filter: SQL over the table's columns; functions of the user's are written with schema.

    Raises:
        ArticleError: the table cannot be published so, or is published already. Nothing is changed.
    """
    async with connection.transaction():
        described = await describe(connection, schema, table)
        article_of(described, columns=columns, row_filter=row_filter)  # refuse before changing
        if await _article_row(connection, schema, table):
            raise ArticleError(
                f"table {schema}.{table} is published already: unpublish it first, or use "
                "`twopc regenerate` after an ALTER TABLE"
            )
        added = all(column.name != names.VERSION_COLUMN for column in described.columns)
        where = qualified(schema, table)
        if added:
            await connection.execute(
                sql.SQL("alter table {} add column {} uuid not null default gen_random_uuid()")
                .format(where, sql.Identifier(names.VERSION_COLUMN))
            )  # fmt: skip
        if row_filter is not None:
            await _try_filter(connection, where, row_filter)
        await connection.execute(
            """
            insert into msrepl.sysarticles
                (objid, source_schema, source_object, columns, filter_clause, replica_identity,
                 added_version, structure)
            select c.oid, %(schema)s, %(table)s, %(columns)s, %(filter)s, c.relreplident, %(added)s, ''
            from pg_class c where c.oid = %(name)s::text::regclass
            """,
            {
                "schema": schema,
                "table": table,
                "columns": list(columns) if columns is not None else [],
                "filter": row_filter,
                "added": added,
                "name": where.as_string(connection),
            },
        )
        return await _generate(connection, schema, table)


async def _try_filter(connection: Connection, where: sql.Identifier, row_filter: str) -> None:
    try:
        async with connection.transaction():
            await connection.execute(
                sql.SQL("select from {} where ({}) limit 0").format(where, sql.SQL(row_filter))
            )
    except Exception as error:
        raise ArticleError(
            f"row filter of {where.as_string(connection)} is not a condition over its columns: "
            f"{error}"
        ) from error


async def _article_row(connection: Connection, schema: str, table: str) -> tuple[Any, ...] | None:
    cursor = await connection.execute(
        """
        select columns, filter_clause, replica_identity::text, added_version, objid, procedures
        from msrepl.sysarticles where source_schema = %s and source_object = %s
        """,
        (schema, table),
    )
    row = await cursor.fetchone()
    return tuple(row) if row is not None else None


async def _generate(connection: Connection, schema: str, table: str) -> Article:
    """(Re)create procedures, types, triggers and rights of an article that is in sysarticles."""
    row = await _article_row(connection, schema, table)
    if row is None:
        raise ArticleError(f"table {schema}.{table} is not published")
    article = article_of(
        await describe(connection, schema, table),
        columns=tuple(row[0]) or None,
        row_filter=row[1],
    )
    owner = owner_role(connection.info.dbname)
    texts = ProcedureTexts(article, owner)
    await _drop_procedures(connection, texts)
    where = qualified(schema, table)
    owner_name = sql.Identifier(owner)
    await connection.execute(
        sql.SQL("grant select, insert, update, delete on {} to {}").format(where, owner_name)
    )
    await connection.execute(
        sql.SQL("grant usage on schema {} to {}").format(sql.Identifier(schema), owner_name)
    )
    for text in texts.all(await _generators(connection, article, owner_name)):
        await connection.execute(text)
    await connection.execute(
        render(
            "publisher",
            "version_trigger",
            trigger=sql.Identifier(names.version_trigger(schema, table)),
            table=where,
        )
    )
    await connection.execute(
        render(
            "twopc",
            "refuse_truncate_trigger",
            trigger=sql.Identifier(names.truncate_trigger(schema, table)),
            table=where,
        )
    )
    await _grant_links(connection, texts)
    await connection.execute(
        """
        update msrepl.sysarticles
        set stale = null, structure = msrepl.table_structure(objid), procedures = array(
            select p.oid from pg_proc p
            where p.pronamespace = 'msrepl'::regnamespace and p.prokind = 'p'
              and p.proname::text = any (%s))
        where source_schema = %s and source_object = %s
        """,
        ([names.sync_procedure(o, schema, table) for o in ("ins", "upd", "del")], schema, table),
    )
    return article


async def _generators(
    connection: Connection, article: Article, owner: sql.Identifier
) -> dict[str, str]:
    """Per column that the Publisher makes: the expression that makes a value."""
    expressions: dict[str, str] = {}
    for column in article.made_by_publisher:
        cursor = await connection.execute(
            "select pg_get_serial_sequence(%s, %s)",
            (qualified(article.schema, article.table).as_string(connection), column.name),
        )
        found = await cursor.fetchone()
        sequence = found[0] if found is not None else None
        if sequence is not None:
            await connection.execute(
                sql.SQL("grant usage on sequence {} to {}").format(sql.SQL(sequence), owner)
            )
        if column.identity:
            literal = sql.Literal(sequence).as_string(connection)
            expressions[column.name] = f"nextval({literal}::regclass)"
        else:
            expressions[column.name] = str(column.default)
            await _grant_default_sequences(connection, article, column, owner)
    return expressions


async def _grant_default_sequences(
    connection: Connection, article: Article, column: Column, owner: sql.Identifier
) -> None:
    """A default may use sequences that the column does not own."""
    cursor = await connection.execute(
        """
        select format('%%I.%%I', n.nspname, s.relname)
        from pg_attrdef d
        join pg_attribute a on a.attrelid = d.adrelid and a.attnum = d.adnum
        join pg_depend p on p.classid = 'pg_attrdef'::regclass and p.objid = d.oid
        join pg_class s on p.refclassid = 'pg_class'::regclass and s.oid = p.refobjid and s.relkind = 'S'
        join pg_namespace n on n.oid = s.relnamespace
        where d.adrelid = %s::text::regclass and a.attname = %s
        """,
        (qualified(article.schema, article.table).as_string(connection), column.name),
    )
    for (sequence,) in await cursor.fetchall():
        await connection.execute(
            sql.SQL("grant usage on sequence {} to {}").format(sql.SQL(sequence), owner)
        )


async def _drop_procedures(connection: Connection, texts: ProcedureTexts) -> None:
    for operation in ("ins", "upd", "del", "gen"):
        await connection.execute(
            sql.SQL("drop routine if exists {}").format(texts.procedure(operation))
        )
    for what in ("ins", "old", "del"):
        await connection.execute(sql.SQL("drop type if exists {}").format(texts.row_type(what)))


async def regenerate(connection: Connection, schema: str, table: str) -> Article:
    """Make procedures and triggers fit the table again, after an ALTER TABLE.

    Raises:
        ArticleError: the table is not published, or can no longer be published so.
    """
    async with connection.transaction():
        return await _generate(connection, schema, table)


async def unpublish(connection: Connection, schema: str, table: str) -> None:
    """Take an article back: the table is left as it was before, with its rows."""
    async with connection.transaction():
        row = await _article_row(connection, schema, table)
        if row is None:
            raise ArticleError(f"table {schema}.{table} is not published")
        added_version, objid = row[3], row[4]
        await connection.execute(
            "delete from msrepl.sysarticles where source_schema = %s and source_object = %s",
            (schema, table),
        )
        texts = ProcedureTexts(
            Article(schema=schema, table=table, columns=(), key=()),
            owner_role(connection.info.dbname),
        )
        await _drop_procedures(connection, texts)
        exists = await connection.execute("select from pg_class where oid = %s", (objid,))
        if exists.rowcount == 0:
            return
        where = qualified(schema, table)
        for trigger in (
            names.version_trigger(schema, table),
            names.truncate_trigger(schema, table),
        ):
            await connection.execute(
                sql.SQL("drop trigger if exists {} on {}").format(sql.Identifier(trigger), where)
            )
        await connection.execute(
            sql.SQL("revoke all on {} from {}").format(
                where, sql.Identifier(owner_role(connection.info.dbname))
            )
        )
        if added_version:
            await connection.execute(
                sql.SQL("alter table {} drop column {}").format(
                    where, sql.Identifier(names.VERSION_COLUMN)
                )
            )


async def articles(connection: Connection) -> tuple[Article, ...]:
    """Every article of this database, as its table is now."""
    cursor = await connection.execute(
        """
        select source_schema, source_object, columns, filter_clause
        from msrepl.sysarticles order by article_id
        """
    )
    found = []
    for schema, table, columns, row_filter in await cursor.fetchall():
        described = await describe(connection, schema, table)
        found.append(article_of(described, columns=tuple(columns) or None, row_filter=row_filter))
    published = {(article.schema, article.table) for article in found}
    return tuple(_known_references(article, published) for article in found)


def _known_references(article: Article, published: set[tuple[str, str]]) -> Article:
    """Only foreign keys between published tables matter to a Subscriber."""

    def known(keys: tuple[ForeignKey, ...], end: str) -> tuple[ForeignKey, ...]:
        if end == "child":
            return tuple(k for k in keys if (k.schema, k.table) in published)
        return tuple(k for k in keys if (k.target_schema, k.target_table) in published)

    import dataclasses

    return dataclasses.replace(
        article,
        referenced_by=known(article.referenced_by, "child"),
        references=known(article.references, "parent"),
    )


# -- subscriptions --------------------------------------------------------------------------------


async def add_subscription(connection: Connection, subscriber: str) -> tuple[Subscription, str]:
    """Register a Subscriber: a link role that may call the sync procedures and nothing else.

    Returns:
        The subscription and the link role's password, which is stored at the Subscriber only.

    Raises:
        SubscriptionError: the Subscriber has a subscription already.
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
                f"{subscriber!r} subscribes to {database!r} already (21058): unsubscribe first"
            )
        found = await connection.execute("select from pg_roles where rolname = %s", (role,))
        verb = "alter" if found.rowcount else "create"
        name = sql.Identifier(role)
        await connection.execute(
            sql.SQL(verb + " role {} login noinherit password {}").format(
                name, sql.Literal(password)
            )
        )
        # Each transaction on the link begins with a ROLLBACK, mostly of nothing: not worth a line in
        # the server's log.
        await connection.execute(
            sql.SQL("alter role {} set log_min_messages = 'error'").format(name)
        )
        await connection.execute(
            sql.SQL("grant connect on database {} to {}").format(sql.Identifier(database), name)
        )
        await connection.execute(
            sql.SQL("grant usage on schema {} to {}").format(sql.Identifier(names.SCHEMA), name)
        )
        await connection.execute(
            "insert into msrepl.syssubscriptions (subscriber, link_role) values (%s, %s)",
            (subscriber, role),
        )
        for article in await articles(connection):
            await _grant_links(connection, ProcedureTexts(article, owner_role(database)))
    return Subscription(subscriber=subscriber, link_role=role), password


async def _grant_links(connection: Connection, texts: ProcedureTexts) -> None:
    """Every link role may execute the article's procedures."""
    cursor = await connection.execute("select link_role from msrepl.syssubscriptions")
    for (role,) in await cursor.fetchall():
        for operation in ("ins", "upd", "del"):
            await connection.execute(
                sql.SQL("grant execute on procedure {} to {}").format(
                    texts.procedure(operation), sql.Identifier(role)
                )
            )
        if texts.article.made_by_publisher:
            await connection.execute(
                sql.SQL("grant execute on function {} to {}").format(
                    texts.procedure("gen"), sql.Identifier(role)
                )
            )
        for what in ("ins", "old", "del"):
            await connection.execute(
                sql.SQL("grant usage on type {} to {}").format(
                    texts.row_type(what), sql.Identifier(role)
                )
            )


async def drop_subscription(connection: Connection, subscriber: str) -> None:
    """Forget a Subscriber and drop its link role; its branches must be settled.

    Raises:
        SubscriptionError: a branch of it is still prepared.
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
        name = sql.Identifier(row[0])
        await connection.execute(sql.SQL("drop owned by {}").format(name))
        await connection.execute(sql.SQL("drop role {}").format(name))


async def subscriptions(connection: Connection) -> tuple[Subscription, ...]:
    """Every subscription of this database."""
    cursor = await connection.execute(
        "select subscriber, link_role, status from msrepl.syssubscriptions order by subscriber"
    )
    return tuple(
        Subscription(subscriber=subscriber, link_role=role, active=status == "active")
        for subscriber, role, status in await cursor.fetchall()
    )
