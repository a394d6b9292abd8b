"""PostgreSQL's own publication: the tables whose changes the log reader sees, and the old rows in the log.

The publication contains whole tables; the module does not know which columns and rows are published. Every function
takes an administrator's connection, inside a transaction.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, sql

from twopc import names
from twopc.errors import ArticleError
from twopc.sql.catalog_texts import full_names
from twopc.sql.fragments import qualified

Connection = AsyncConnection[Any]

#: Name of the publication in every Publisher's database.
NAME = names.SCHEMA
_NAME = sql.Identifier(NAME)
#: Tables of the product in the log: branch markers, posted messages, and markers of the begin and end of
#: calls of routines.
_OWN = ("branch_marker", "log_message", "call_marker")

_RELATIONS = """
select c.oid::bigint, c.oid::regclass::text, c.relreplident::text,
       (select x.indexrelid::bigint from pg_index x
        where x.indrelid = c.oid and x.indisreplident and c.relreplident = 'i')
from pg_class c
where c.relkind in ('r', 'p')
  and c.oid in (select %(table)s::oid union all select p.relid from pg_partition_tree(%(table)s::oid) p)
order by 1
"""

# PostgreSQL does not identify rows in the log by a deferrable primary key; an unchanged large value is in the
# log only with the old row; and the old rows of tables with virtual generated columns cannot be logged.
_NEEDS = """
select exists (select from pg_index x where x.indrelid = %(table)s and x.indisprimary and not x.indimmediate),
       exists (select from pg_attribute a where a.attrelid = %(table)s and a.attnum > 0
               and not a.attisdropped and a.attstorage <> 'p' and a.attname = any (%(columns)s::text[])),
       (select a.attname::text from pg_attribute a where a.attrelid = %(table)s and a.attgenerated = 'v'
        order by a.attnum limit 1)
"""

_SAVED = """
select c.oid::regclass::text, r.saved ->> 'was', i.relname::text
from msrepl.sysarticles a
cross join jsonb_each(a.replica_identities) as r(relation, saved)
join pg_class c on c.oid = r.relation::oid and c.relreplident in ('f', 'd')
left join pg_index x on x.indexrelid = (r.saved ->> 'index')::oid and x.indrelid = c.oid
left join pg_class i on i.oid = x.indexrelid
where a.article_id = %s
order by 1
"""


async def create(connection: Connection) -> None:
    """Create the publication, which must exist before the slot. Idempotent."""
    result = await connection.execute("select from pg_publication where pubname = %s", (NAME,))
    if result.rowcount:
        for table in _OWN:  # a publication of an earlier version has fewer tables
            await add(connection, names.SCHEMA, table)
        return
    tables = sql.SQL(", ").join([qualified(names.SCHEMA, table) for table in _OWN])
    # generated columns are computed at the Subscriber; but unless they are published, PostgreSQL 18
    # logs no old rows
    generated = ", publish_generated_columns = stored"
    options = generated if connection.info.server_version >= 180000 else ""
    await connection.execute(
        sql.SQL(
            "create publication {} for table {} with (publish_via_partition_root = true{})"
        ).format(_NAME, tables, sql.SQL(options))
    )


def drop_text() -> sql.Composed:
    """Return the statement that drops the publication, if it exists."""
    return sql.SQL("drop publication if exists {}").format(_NAME)


async def add(connection: Connection, schema: str, table: str) -> None:
    """Add a table to the publication, so that the log reader sees its changes. Idempotent."""
    if not await _holds(connection, schema, table):
        await connection.execute(
            sql.SQL("alter publication {} add table {}").format(_NAME, qualified(schema, table))
        )


async def remove(connection: Connection, schema: str, table: str) -> None:
    """Remove a table from the publication. Idempotent."""
    if await _holds(connection, schema, table):
        await connection.execute(
            sql.SQL("alter publication {} drop table {}").format(_NAME, qualified(schema, table))
        )


async def _holds(connection: Connection, schema: str, table: str) -> bool:
    rows = await connection.execute(
        """
        select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
        join pg_class c on c.oid = r.prrelid join pg_namespace n on n.oid = c.relnamespace
        where (p.pubname, n.nspname, c.relname) = (%s, %s, %s)
        """,
        (NAME, schema, table),
    )
    return rows.rowcount > 0


# -- old rows -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LogRequirements:
    """Requirements of an article on the log's content of its table."""

    name: str
    """Name of the article."""
    old_rows: bool
    """Whether whole old rows are wanted, if PostgreSQL can log them."""
    needed_by: str
    """What requires whole old rows; empty if nothing does."""
    columns: tuple[str, ...]
    """Columns of which every new value is needed, even if it is large and unchanged."""
    columns_for: str
    """Format that needs `columns`."""


async def identify_rows(
    connection: Connection, article_id: int, relid: int, requested: LogRequirements
) -> None:
    """Have the log contain old rows, or at least keys, of a table and its partitions.

    The previous replica identities are stored with the article for `restore`.

    Raises:
        ArticleError: PostgreSQL cannot log the required rows of this table.
    """
    cursor = await connection.execute(_NEEDS, {"table": relid, "columns": list(requested.columns)})
    row = await cursor.fetchone()
    assert row is not None
    deferrable_key, large, virtual = row
    needed_by = requested.needed_by
    if large:
        needed_by = needed_by or f"{requested.columns_for}, by unchanged large values,"
    if deferrable_key:
        needed_by = needed_by or "its deferrable primary key"
    if virtual and needed_by:
        raise ArticleError(
            f"table {requested.name}: old rows are needed by {needed_by} and PostgreSQL logs none of a table "
            f"with virtual generated columns: make column {virtual!r} STORED, or do without"
        )
    full = (requested.old_rows or bool(needed_by)) and not virtual
    async with full_names(connection):
        relations = await (await connection.execute(_RELATIONS, {"table": relid})).fetchall()
    saved = {}
    for relation, name, identity, index in relations:
        if identity == "f" or (identity == "d" and not full):
            continue
        saved[str(relation)] = {"was": identity, "index": index}
        await _set(connection, name, "full" if full else "default")
    await connection.execute(
        """
        update msrepl.sysarticles
        set replica_identities = replica_identities || %s::jsonb where article_id = %s
        """,
        (json.dumps(saved), article_id),
    )


async def restore(connection: Connection, article_id: int) -> None:
    """Restore the replica identities that `identify_rows` changed, except those changed again since."""
    async with full_names(connection):
        saved = await (await connection.execute(_SAVED, (article_id,))).fetchall()
    for name, was, index in saved:
        how: str | sql.Composable = "nothing" if was == "n" else "default"
        if was == "i" and index is not None:
            how = sql.SQL("using index {}").format(sql.Identifier(index))
        await _set(connection, name, how)
    await connection.execute(
        "update msrepl.sysarticles set replica_identities = '{}' where article_id = %s",
        (article_id,),
    )


async def _set(connection: Connection, table: str, identity: str | sql.Composable) -> None:
    # the table's name comes quoted from the server
    how = sql.SQL(identity) if isinstance(identity, str) else identity
    await connection.execute(
        sql.SQL("alter table {} replica identity {}").format(sql.SQL(table), how)
    )
