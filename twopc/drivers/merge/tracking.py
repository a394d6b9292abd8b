"""Tracking of changes of tables for merge replication; the same at every node.

`twopc.publisher.merge.publication` decides which tables may be merged. Every function takes an administrator's
connection (a superuser's) and does its work in one transaction.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection, sql
from psycopg.rows import class_row

from twopc import names
from twopc.articles import Table
from twopc.drivers.merge.ranges import install_ranges
from twopc.errors import ArticleError
from twopc.merge.articles import Logging, MergeArticle, MergeOptions, Upload
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.merge.ranges import IdentityRanges, MergeIdentity
from twopc.merge.resolvers import SQL
from twopc.sql.describe import describe
from twopc.sql.fragments import qualified
from twopc.sql.merge_filter_texts import FilterTexts
from twopc.sql.merge_session_texts import SessionTexts
from twopc.sql.merge_texts import shared_texts
from twopc.sql.render import compose
from twopc.sql.table_role import drop_role_text

Connection = AsyncConnection[Any]

#: One lock for all publications of a database.
_ONE_AT_A_TIME = "select pg_advisory_xact_lock(hashtextextended('msrepl.install', 0))"
_DRAW_REPLICA = """
insert into msrepl.msmerge_replica (replica, system_identifier, database)
select greatest(1, ('x' || left(gen_random_uuid()::text, 8))::bit(32)::int8), s.system_identifier, d.oid
from pg_control_system() as s, pg_database as d
where d.datname = current_database()
on conflict (only_one) do nothing
"""
#: Other kinds of replication that may use schema msrepl of a database.
_OTHER_KIND = """
select to_regclass('msrepl.sysarticles') is not null or to_regclass('msrepl.mssubscription_agents') is not null
"""
_KEYS = """
select t.tgname::text, k.conname::text
from msrepl.sysmergearticles as a
join pg_trigger as t on t.tgrelid = a.objid and t.tgisinternal
join pg_constraint as k on k.oid = t.tgconstraint and k.contype in ('f', 'p', 'u', 'x')
where a.artid = %(artid)s
"""
_FREE_KEYS = f"{_KEYS} and t.tgenabled <> 'A' and a.checked_keys is not null"
_CHECKED_KEYS = f"{_KEYS} and t.tgenabled = 'A' and k.conname = any (a.checked_keys)"
_OWN_TRIGGERS = """
select t.tgname::text, t.tgfoid = 'msrepl.refuse_truncate()'::regprocedure from msrepl.sysmergearticles as a
join pg_trigger as t on t.tgrelid = a.objid and t.tgenabled <> 'A'
join pg_proc as p on p.oid = t.tgfoid and p.pronamespace = 'msrepl'::regnamespace
where a.artid = %s
"""
_STORED = """
select a.artid, a.nickname, a.source_schema, a.source_object, a.rowguid, a.added_rowguid, a.created_table,
       a.column_tracking, a.columns, a.column_numbers, a.publication, a.article_resolver, a.compensate_for_errors,
       a.upload_options, a.delete_tracking, a.conflict_retention, a.conflict_logging,
       a.identity_column, a.identity_step, a.identity_range, a.pub_identity_range, a.identity_threshold, n.nspname::text as schema, c.relname::text as table
from msrepl.sysmergearticles as a
left join pg_class as c on c.oid = a.objid
left join pg_namespace as n on n.oid = c.relnamespace
order by a.nickname
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredMergeArticle:
    """A row of ``msrepl.sysmergearticles``, with the present name of its table."""

    artid: UUID
    nickname: int
    source_schema: str
    source_object: str
    """The table's name when tracking began."""
    rowguid: str
    added_rowguid: bool
    """Whether the column was added for replication, and is dropped with it."""
    created_table: bool
    """Whether the table was created for the subscription."""
    column_tracking: bool
    columns: list[str]
    column_numbers: list[int]
    publication: str
    article_resolver: str | None
    compensate_for_errors: bool
    upload_options: str
    delete_tracking: bool
    conflict_logging: str
    conflict_retention: int
    """Retention of conflicts in days."""
    identity_column: str | None
    """The column with identity ranges; None if there is none."""
    identity_step: int | None
    identity_range: int | None
    pub_identity_range: int | None
    identity_threshold: int | None
    """Threshold in per cent."""
    schema: str | None
    """Present schema of the table; None if the table was dropped."""
    table: str | None

    @property
    def identity(self) -> MergeIdentity | None:
        """The column whose values are drawn from ranges."""
        if self.identity_column is None:
            return None
        step, threshold = self.identity_step, self.identity_threshold
        subscriber, publisher = self.identity_range, self.pub_identity_range
        assert step and threshold and subscriber and publisher
        return MergeIdentity(
            column=self.identity_column,
            step=step,
            ranges=IdentityRanges(
                subscriber=subscriber, publisher=publisher, threshold_percent=threshold
            ),
        )

    @property
    def asks_sql(self) -> bool:
        """Whether a function of the Publisher's database resolves the conflicts of the article."""
        return (self.article_resolver or "").startswith(SQL)


def owner_role(database: str) -> str:
    """Return the role that owns our objects in a database; it cannot log in, and is not a superuser."""
    return names.role("owner", database)


async def await_others(connection: Connection) -> None:
    """Lock out other installations and publications here until the transaction ends: two would create the same
    objects.
    """
    await connection.execute(_ONE_AT_A_TIME)


async def install(connection: Connection) -> None:
    """Create the objects that a node of merge replication needs before its first article. Idempotent.

    Raises:
        ArticleError: the database publishes or subscribes in another way (21063).
    """
    async with connection.transaction():
        await await_others(connection)
        cursor = await connection.execute(_OTHER_KIND)
        if await cursor.fetchone() == (True,):
            raise ArticleError(
                f"database {connection.info.dbname!r} has an updating or a transactional publication or "
                "subscription, and cannot merge as well (21063): use another database"
            )
        role = owner_role(connection.info.dbname)
        roles = await connection.execute("select from pg_roles where rolname = %s", (role,))
        owner, schema = sql.Identifier(role), sql.Identifier(names.SCHEMA)
        if roles.rowcount == 0:
            await connection.execute(sql.SQL("create role {} nologin").format(owner))
        await connection.execute(sql.SQL("create schema if not exists {}").format(schema))
        await connection.execute(sql.SQL("grant all on schema {} to {}").format(schema, owner))
        await connection.execute(";\n".join(shared_texts(role)).encode())
        await connection.execute(_DRAW_REPLICA)


async def uninstall(connection: Connection) -> None:
    """Remove all objects of merge replication from a database that tracks no table any more. Idempotent.

    Raises:
        ArticleError: a table is still tracked.
    """
    async with connection.transaction():
        cursor = await connection.execute("select to_regclass('msrepl.sysmergearticles') is null")
        if await cursor.fetchone() == (True,):
            return
        if remaining := await stored_articles(connection):
            raise ArticleError(
                f"table {remaining[0].source_schema}.{remaining[0].source_object} is still merged: take it out of "
                "the publication first"
            )
        owner = owner_role(connection.info.dbname)
        await connection.execute(
            sql.SQL("drop schema {} cascade").format(sql.Identifier(names.SCHEMA))
        )
        await connection.execute(compose("twopc", "drop_rights", role=sql.Identifier(owner)))
        await connection.execute(drop_role_text(owner).encode())


async def stored_articles(connection: Connection) -> list[StoredMergeArticle]:
    """Return every tracked table, parents before their children."""
    async with connection.cursor(row_factory=class_row(StoredMergeArticle)) as cursor:
        await cursor.execute(_STORED)
        return await cursor.fetchall()


async def table_oid(connection: Connection, artid: UUID) -> int:
    """Return the OID of an article's table."""
    cursor = await connection.execute(
        "select objid::int8 from msrepl.sysmergearticles where artid = %s", (artid,)
    )
    [(oid,)] = await cursor.fetchall()
    return int(oid)


async def articles(connection: Connection) -> tuple[MergeArticle, ...]:
    """Return the articles of this database, parents before their children.

    Raises:
        ArticleError: a table was dropped, renamed, or has lost a column since tracking began.
    """
    described_articles = []
    for stored in await stored_articles(connection):
        where = f"table {stored.source_schema}.{stored.source_object}"
        if (stored.schema, stored.table) != (stored.source_schema, stored.source_object):
            now = (
                "dropped" if stored.schema is None else f"renamed to {stored.schema}.{stored.table}"
            )
            raise ArticleError(
                f"{where} was {now} while it was merged: take it out of the publication, and publish it again"
            )
        described = await describe(connection, stored.source_schema, stored.source_object)
        held = {column.name: column for column in described.columns}
        if missing := [name for name in (stored.rowguid, *stored.columns) if name not in held]:
            raise ArticleError(
                f"{where} has lost its column {missing[0]!r} while it was merged: take it out of the "
                "publication, and publish it again"
            )
        described_articles.append(
            MergeArticle(
                artid=stored.artid,
                nickname=stored.nickname,
                schema=stored.source_schema,
                table=stored.source_object,
                rowguid=stored.rowguid,
                columns=tuple(held[name] for name in stored.columns),
                numbers=tuple(stored.column_numbers),
                column_tracking=stored.column_tracking,
                references=described.references,
                identity=stored.identity,
                options=MergeOptions(
                    resolver=stored.article_resolver,
                    compensates=stored.compensate_for_errors,
                    upload=Upload(stored.upload_options),
                    keeps_deletes=not stored.delete_tracking,
                    conflict_logging=Logging(stored.conflict_logging),
                    conflict_retention_days=stored.conflict_retention,
                ),
            )
        )
    return tuple(described_articles)


async def track(
    connection: Connection,
    article: MergeArticle,
    publication: str,
    *,
    added_rowguid: bool = False,
    created_table: bool = False,
    is_local: bool = False,
    without: Set[MergeProtection] = NOTHING_LEFT_OUT,
) -> None:
    """Track the changes of a table from now on, and let agents read and write its rows.

    Args:
        is_local: whether the table is a client subscription's, whose changes may be kept or refused (``upload``).
        without: protections that are left out, to show the errors that they prevent.
    """
    texts = SessionTexts(article, owner_role(connection.info.dbname), publication, without)
    async with connection.transaction():
        await connection.execute(
            "insert into msrepl.sysmergepublications (name) values (%s) on conflict (name) do nothing",
            (publication,),
        )
        await connection.execute(
            "insert into msrepl.sysmergearticles (artid, nickname, objid, source_schema, source_object,"
            " rowguid, added_rowguid, created_table, column_tracking, columns, column_numbers, publication, article_resolver,"
            " compensate_for_errors, upload_options, delete_tracking, conflict_retention, conflict_table,"
            " conflict_logging)"
            " select %s, %s, c.oid, %s, %s, %s, %s, %s, %s, %s::text[], %s::integer[], %s, %s, %s, %s, %s, %s, %s, %s"
            " from pg_class as c where c.oid = %s::text::regclass",
            (
                article.artid,
                article.nickname,
                article.schema,
                article.table,
                article.rowguid,
                added_rowguid,
                created_table,
                article.column_tracking,
                [column.name for column in article.columns],
                [*article.places],
                publication,
                article.options.resolver,
                article.options.compensates,
                article.options.upload.value,
                not article.options.keeps_deletes,
                article.options.conflict_retention_days,
                names.merge_conflict_table(publication, article.schema, article.table),
                article.options.conflict_logging.value,
                texts.table.as_string(connection),
            ),
        )
        objects = (
            texts.metadata_part(),
            texts.floor_of_versions(),
            *texts.functions(),
            *texts.triggers(is_local=is_local),
            *texts.all(),
        )
        await connection.execute(";\n".join(objects).encode())
        if article.identity is not None:
            await install_ranges(
                connection, article, owner_role(connection.info.dbname), is_copy=created_table
            )
        if MergeProtection.KEY_CHECKS in without:
            await connection.execute(
                "update msrepl.sysmergearticles set checked_keys = null where artid = %s",
                (article.artid,),
            )
        else:
            await _check_keys(connection, article.artid, texts.table, always=True)


async def regenerate(connection: Connection, stored: StoredMergeArticle) -> None:
    """Enable a table's triggers ALWAYS, ours and those of keys, if they were disabled or added since.

    Changes made while our triggers were disabled stay unrecorded.

    Raises:
        ArticleError: the table was dropped.
    """
    if stored.schema is None or stored.table is None:
        raise ArticleError(
            f"table {stored.source_schema}.{stored.source_object} was dropped while it was merged: take it out of "
            "the publication, and publish it again"
        )
    table = qualified(stored.schema, stored.table)
    async with connection.transaction():
        cursor = await connection.execute(_OWN_TRIGGERS, (stored.artid,))
        for trigger, is_for_truncate in await cursor.fetchall():
            mode = sql.SQL("trigger" if is_for_truncate else "always trigger")
            await connection.execute(
                sql.SQL("alter table {} enable {} {}").format(table, mode, sql.Identifier(trigger))
            )
        await _check_keys(connection, stored.artid, table, always=True)


async def untrack(connection: Connection, stored: StoredMergeArticle) -> None:
    """Stop tracking the changes of a table, and remove its metadata; its rows stay.

    The rowguid column is dropped if it was added for replication.
    """
    async with connection.transaction():
        here = stored.schema is not None and stored.table is not None
        article = MergeArticle(
            artid=stored.artid,
            nickname=stored.nickname,
            schema=str(stored.schema),
            table=str(stored.table),
            rowguid=stored.rowguid,
            columns=(),
        )
        texts = SessionTexts(article, owner_role(connection.info.dbname), stored.publication)
        if here:
            await _check_keys(connection, stored.artid, texts.table, always=False)
        filters = FilterTexts(article, owner_role(connection.info.dbname))
        for text in (
            *texts.drop_identity(table=here),
            *texts.drop(table=here),
            *texts.drop_session(),
            *filters.drop_filter(table=here),
        ):
            await connection.execute(text.encode())
        if here and stored.added_rowguid:
            await connection.execute(
                sql.SQL("alter table {} drop column if exists {}").format(
                    texts.table, sql.Identifier(stored.rowguid)
                )
            )
        await connection.execute(drop_role_text(filters.role_name).encode())
        for mappings in ("msmerge_current_partition_mappings", "msmerge_past_partition_mappings"):
            await connection.execute(
                sql.SQL("delete from {} where tablenick = %s").format(
                    sql.Identifier(names.SCHEMA, mappings)
                ),
                (stored.nickname,),
            )
        await connection.execute(
            "delete from msrepl.sysmergearticles where artid = %s", (stored.artid,)
        )


async def _check_keys(
    connection: Connection, artid: UUID, table: sql.Identifier, *, always: bool
) -> None:
    """Enable the checks of foreign keys and deferrable unique keys for agents too, or restore their previous state.

    The triggers of keys fire in the replica role only if they are enabled ALWAYS.
    """
    query = _FREE_KEYS if always else _CHECKED_KEYS
    cursor = await connection.execute(query.encode(), {"artid": artid})
    for trigger, _ in (triggers := await cursor.fetchall()):
        mode = sql.SQL("always trigger" if always else "trigger")
        await connection.execute(
            sql.SQL("alter table {} enable {} {}").format(table, mode, sql.Identifier(trigger))
        )
    await connection.execute(
        "update msrepl.sysmergearticles set checked_keys ="
        " array(select k.name from unnest(checked_keys || %s::text[]) as k(name) where %s group by 1 order by 1)"
        " where artid = %s and checked_keys is not null",
        ([key for _, key in triggers], always, artid),
    )


async def add_rowguid(connection: Connection, table: Table, artid: UUID, name: str) -> None:
    """Add the rowguid column to a table, with a value for each existing row."""
    makes = "uuidv7()" if connection.info.server_version >= 180000 else "gen_random_uuid()"
    where = qualified(table.schema, table.name)
    await connection.execute(
        sql.SQL("alter table {} add column {} uuid not null default " + makes).format(
            where, sql.Identifier(name)
        )
    )
    await connection.execute(
        sql.SQL("create unique index {} on {} ({})").format(
            sql.Identifier(names.merge_object("index", artid)), where, sql.Identifier(name)
        )
    )
