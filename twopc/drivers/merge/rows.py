"""Rows of merged tables at one node: their metadata, and changes without new values.

Every function takes an administrator's connection (a superuser's).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection, sql
from psycopg.rows import dict_row

from twopc import names
from twopc.drivers.merge.tracking import StoredMergeArticle, stored_articles
from twopc.errors import ArticleError, MergeError
from twopc.merge.lineage import unpack
from twopc.sql import fragments as f
from twopc.sql import path
from twopc.sql.describe import describe

Connection = AsyncConnection[Any]

_KNOWN = """
select m.gone, msrepl.merge_lineage(m.lineage, r.replica, m.own), msrepl.merge_colv(m.colv, r.replica),
       msrepl.merge_generation(m.xid), m.source, coalesce(m.writer, r.replica)
from msrepl.msmerge_metadata as m, msrepl.msmerge_replica as r
where m.tablenick = %s and m.rowguid = %s
"""
_REPLICAS = """
select s.subscriber_server, n.replica
from msrepl.sysmergesubscriptions as s, unnest(s.former || s.replnickname) as n(replica)
"""
#: Columns of built-in types, whose operators, casts and functions are all PostgreSQL's.
_BUILT_IN = """
select a.attname::text from pg_attribute as a join pg_type as t on t.oid = a.atttypid
where a.attrelid = %s::text::regclass and a.attnum > 0 and t.typnamespace = 'pg_catalog'::regnamespace
"""
_EQUAL = sql.SQL("t.{} operator(pg_catalog.=) %s")
#: Comparison of other types by the text of their output functions.
_SAME = sql.SQL("row(t.{})::text operator(pg_catalog.=) row(%s::text)::text")
#: A row without metadata gets a version above all removed ones.
_TOUCH = """
insert into {metadata} as m (tablenick, rowguid, xid, gone, own, top, colv)
select {nickname}, g.rowguid, pg_current_xact_id(), t.{rowguid} is null, f.last_value + 1, f.last_value + 1,
       case when {column_tracking} then array_fill((f.last_value + 1)::int8, array[{count}]) end
from unnest(%s::uuid[]) as g(rowguid)
left join {table} as t on t.{rowguid} operator(pg_catalog.=) g.rowguid
cross join {floor} as f
on conflict (rowguid) do update
set xid = excluded.xid, gone = excluded.gone, own = m.top + 1, top = m.top + 1,
    colv = case when {column_tracking} then array_fill((m.top + 1)::int8, array[{count}]) end,
    source = null, writer = null
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowReplica:
    """A row at one node (sp_showrowreplicainfo). Nodes without a known name are given as numbers."""

    node: str
    table: str
    rowguid: UUID
    state: str
    """The row's state: ``contents`` if it was changed; ``tombstone`` if it was deleted; ``unchanged`` if it has no
    metadata, because it was not changed within the retention, or never; ``absent`` if it has no metadata and
    does not exist.
    """
    lineage: Mapping[str, int]
    """For each node that has changed the row, the version that the row includes."""
    columns: Mapping[str, tuple[str, int]] = field(default_factory=dict)
    """With column tracking, for each column the node that changed it last, and the version."""
    generation: int | None = None
    """The node's generation that includes the change."""
    source: str | None = None
    """The neighbour from which the row's present version came; None if it was made at this node."""
    writer: str | None = None
    """The node that made the row's present version."""
    row: Mapping[str, Any] | None = None
    """The row's values; None if it does not exist."""


async def article_named(connection: Connection, table: str) -> StoredMergeArticle:
    """Return the article of a table, given as name or ``schema.name``.

    Raises:
        ArticleError: the table is not merged.
    """
    stored = await stored_articles(connection)
    for each in stored:
        if names.article_name(each.source_schema, each.source_object) == table:
            return each
    others = ", ".join(names.article_name(e.source_schema, e.source_object) for e in stored)
    raise ArticleError(f"table {table} is not merged; merged tables are {others or 'none'}")


async def replica_names(connection: Connection) -> dict[int, str]:
    """Return the names of replicas as a node knows them, including numbers that nodes had before they were
    restored.
    """
    cursor = await connection.execute(_REPLICAS)
    return {replica: name for name, replica in await cursor.fetchall()}


async def find_row(connection: Connection, table: str, key: Mapping[str, Any]) -> UUID | None:
    """Return the rowguid of a row; None if no row has these values.

    Args:
        key: column to value, of one row.

    Raises:
        ArticleError: the table is not merged.
        MergeError: several rows have these values.
    """
    stored = await article_named(connection, table)
    described = await describe(connection, stored.source_schema, stored.source_object)
    columns = {column.name: column for column in described.columns}
    if unknown := sorted({*key} - {*columns}):
        raise MergeError(f"table {table} has no column {unknown[0]!r}")
    where = sql.Identifier(stored.source_schema, stored.source_object)
    async with connection.transaction():
        await connection.execute(path.SET_LOCAL)
        cursor = await connection.execute(_BUILT_IN, (where.as_string(connection),))
        built_in = {name for (name,) in await cursor.fetchall()}
        query = sql.SQL("select t.{} from {} as t where {} limit 2").format(
            sql.Identifier(stored.rowguid),
            where,
            f.AND.join(
                [
                    (_EQUAL if name in built_in and columns[name].comparable else _SAME).format(
                        sql.Identifier(name)
                    )
                    for name in key
                ]
            ),
        )
        rows = await (await connection.execute(query, [*key.values()])).fetchall()
    if len(rows) > 1:
        raise MergeError(f"several rows of {table} have {dict(key)}: name a key")
    return rows[0][0] if rows else None


async def read_row(
    connection: Connection, node: str, table: str, rowguid: UUID, replicas: Mapping[int, str]
) -> RowReplica:
    """Return a row with its metadata at a node.

    Args:
        replicas: the names of replicas.

    Raises:
        ArticleError: the table is not merged.
    """
    stored = await article_named(connection, table)
    query = sql.SQL("select t.* from {} as t where t.{} operator(pg_catalog.=) %s").format(
        sql.Identifier(stored.source_schema, stored.source_object), sql.Identifier(stored.rowguid)
    )
    async with connection.transaction(), connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(path.SET_LOCAL)
        await cursor.execute(query, (rowguid,))
        row = await cursor.fetchone()
        known = await (await connection.execute(_KNOWN, (stored.nickname, rowguid))).fetchone()
    if known is None:
        state = "absent" if row is None else "unchanged"
        return RowReplica(node=node, table=table, rowguid=rowguid, state=state, lineage={}, row=row)

    def name(replica: int) -> str:
        return replicas.get(replica, str(replica))

    gone, lineage, columns, generation, source, writer = known
    return RowReplica(
        node=node,
        table=table,
        rowguid=rowguid,
        state="tombstone" if gone else "contents",
        lineage={name(replica): version for replica, version in map(unpack, lineage)},
        columns={
            column: (name(unpack(entry)[0]), unpack(entry)[1])
            for column, number in zip(stored.columns, stored.column_numbers, strict=True)
            if (entry := dict(enumerate(columns or (), 1)).get(number))
        },
        generation=generation,
        source=None if source is None else name(source),
        writer=name(writer),
        row=row,
    )


async def touch_rows(connection: Connection, table: str, rowguids: Collection[UUID]) -> None:
    """Have rows sent again unchanged, as if each had been changed now; a row that does not exist is sent as a
    deletion.

    Raises:
        ArticleError: the table is not merged.
    """
    stored = await article_named(connection, table)
    where = sql.Identifier(stored.source_schema, stored.source_object)
    rowguid = sql.Identifier(stored.rowguid)
    query = sql.SQL(_TOUCH).format(
        metadata=sql.Identifier(names.SCHEMA, names.merge_metadata(stored.nickname)),
        floor=sql.Identifier(names.SCHEMA, names.merge_floor(stored.nickname)),
        nickname=sql.Literal(stored.nickname),
        table=where,
        rowguid=rowguid,
        column_tracking=sql.Literal(stored.column_tracking),
        count=sql.Literal(max(stored.column_numbers)),
    )
    lock = sql.SQL(
        "select from {} as t where t.{} operator(pg_catalog.=) any (%s) order by t.{} for update"
    )
    async with connection.transaction():
        await connection.execute(path.SET_LOCAL)
        await connection.execute(lock.format(where, rowguid, rowguid), ([*rowguids],))
        await connection.execute(query, ([*rowguids],))


async def dummy_update(connection: Connection, table: str, rowguid: UUID) -> None:
    """Have a row sent again unchanged (sp_mergedummyupdate).

    Raises:
        ArticleError: the table is not merged.
        MergeError: the row does not exist and has no metadata (20513).
    """
    row = await read_row(connection, "", table, rowguid, {})
    if row.state == "absent":
        raise MergeError(
            f"table {table} at {connection.info.dbname} has no row {rowguid}, and knows of none (20513)"
        )
    await touch_rows(connection, table, [rowguid])
