"""Reading of tables, and of the metadata of their rows, as of the moment at which a generation was closed.

A generation is a snapshot: the rows read in it and the changes that sessions propagate after it are complete and do
not overlap.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, sql

from twopc import names
from twopc.articles import Article
from twopc.drivers.merge import neighbours, partitions
from twopc.drivers.merge.tracking import stored_articles
from twopc.merge.articles import MergeArticle
from twopc.merge.marks import Generation
from twopc.sql.fragments import AND, identifiers, qualified

Connection = AsyncConnection[Any]
Count = Callable[[int], object]

_REPEATABLE = "set transaction isolation level repeatable read"
_PARTITION_ROWS = (
    "create temporary table msrepl_partition (tablenick integer, guid uuid) on commit drop"
)
_FILL_PARTITION = "copy pg_temp.msrepl_partition from stdin"


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRange:
    """A part of a table, by its pages."""

    relation: int
    """The table's file node, which a rewrite of the table changes."""
    first: int
    end: int | None
    """Page after the last one; None: the end of the table."""

    def __str__(self) -> str:
        return f"{self.relation}:{self.first}-{'' if self.end is None else self.end}"


async def _lock_tables(reader: Connection) -> None:
    """Lock out schema changes: a table that is rewritten appears empty in an older snapshot.

    Raises:
        psycopg.errors.SerializationFailure: a table was rewritten after the snapshot.
    """
    tables = [
        qualified(each.source_schema, each.source_object)
        for each in await stored_articles(reader)
        if each.table is not None
    ]
    if tables:
        await reader.execute(
            sql.SQL("lock table {} in access share mode").format(sql.SQL(", ").join(tables))
        )
        await reader.execute("select msrepl.merge_refuse_rewritten()")


async def close_moment(
    above: Connection, readers: Sequence[Connection], partition: int | None
) -> Generation:
    """Close a generation, and make transactions that have just begun read the snapshot of that generation.

    The table of generations is locked only for that moment: other sessions continue while rows are read. The rows
    of the partition are listed in a temporary table of each reader.

    Args:
        above: an administrator's connection to the Publisher; `readers`: further ones, each in a transaction.
        partition: the partition whose rows are read; None: all rows are.
    """
    async with above.transaction():
        await above.execute(_REPEATABLE)
        generation = await neighbours.close_generation(above)
        [(snapshot,)] = await (await above.execute("select pg_export_snapshot()")).fetchall()
        for reader in readers:
            await reader.execute(_REPEATABLE)
            await reader.execute(
                sql.SQL("set transaction snapshot {}").format(sql.Literal(snapshot))
            )
            await _lock_tables(reader)
        if partition is not None:
            await partitions.map_new(above, partition, generation)
            for reader in readers:
                await reader.execute(_PARTITION_ROWS)
                async with reader.cursor() as cursor, cursor.copy(_FILL_PARTITION) as copy:
                    async for block in partitions.mapped_rows(above, partition):
                        await copy.write(block)
    return generation


def row_blocks(
    reader: Connection,
    article: Article,
    merged: MergeArticle,
    *,
    pages: PageRange | None = None,
    binary: bool = False,
    count: Count | None = None,
) -> AsyncGenerator[bytes]:
    """Yield the rows of a table, or those of the partition if the article is filtered, in COPY format, without generated columns.

    Args:
        pages: only the rows on these pages.
        binary: in binary format, otherwise as text.
        count: called at the end with the number of rows.
    """
    columns = [column.name for column in article.columns if column.takes_values]
    command = sql.SQL("copy (select {} from {} as t{} where {}) to stdout (format {})").format(
        identifiers(columns, "t"),
        qualified(article.schema, article.table),
        sql.SQL(
            " join pg_temp.msrepl_partition as p on p.tablenick = {} and p.guid = t.{}"
            if merged.filter is not None
            else ""
        ).format(sql.Literal(merged.nickname), sql.Identifier(merged.rowguid)),
        _within(pages),
        sql.SQL("binary" if binary else "text"),
    )
    return _copied(reader, command, count)


async def _copied(
    reader: Connection, command: sql.Composed, count: Count | None
) -> AsyncGenerator[bytes]:
    async with reader.cursor() as cursor:
        async with cursor.copy(command) as copy:
            async for block in copy:
                yield bytes(block)
        if count is not None:
            count(cursor.rowcount)


def _within(pages: PageRange | None) -> sql.Composable:
    if pages is None:
        return sql.SQL("true")
    bounds = [sql.SQL("t.ctid >= {}::tid").format(sql.Literal(f"({pages.first},0)"))]
    if pages.end is not None:
        bounds.append(sql.SQL("t.ctid < {}::tid").format(sql.Literal(f"({pages.end},0)")))
    return AND.join(bounds)


async def page_ranges(reader: Connection, article: Article, part_bytes: int) -> list[PageRange]:
    """Divide a table into parts of about `part_bytes`; none if it has no pages."""
    cursor = await reader.execute(
        "select pg_relation_size(c.o) / current_setting('block_size')::int8, pg_table_size(c.o),"
        " pg_relation_filenode(c.o)::int8"
        " from (select %s::text::regclass as o) as c",
        (qualified(article.schema, article.table).as_string(reader),),
    )
    [(pages, size_bytes, relation)] = await cursor.fetchall()
    if not pages:
        return []
    step = max(1, -(-pages // max(1, -(-size_bytes // part_bytes))))
    firsts = range(0, pages, step)
    return [
        PageRange(
            relation=relation, first=first, end=None if first + step >= pages else first + step
        )
        for first in firsts
    ]


def metadata_blocks(
    reader: Connection, merged: MergeArticle, *, count: Count | None = None
) -> AsyncGenerator[bytes]:
    """Yield the metadata of an article's rows, or of those of the partition if it is filtered, as COPY text.

    The columns are those of `twopc.subscriber.merge.subscription.METADATA`.

    Args:
        count: called at the end with the number of rows.
    """
    command = sql.SQL(
        "copy (select m.rowguid, m.gone, msrepl.merge_lineage(m.lineage, r.replica, m.own),"
        " msrepl.merge_colv(m.colv, r.replica), coalesce(m.writer, r.replica)"
        " from msrepl.msmerge_metadata as m, msrepl.msmerge_replica as r where m.tablenick = {} and {}) to stdout"
    ).format(
        sql.Literal(merged.nickname),
        sql.SQL(
            "m.rowguid in (select p.guid from pg_temp.msrepl_partition as p where p.tablenick = m.tablenick)"
            if merged.filter is not None
            else "true"
        ),
    )
    return _copied(reader, command, count)


async def floor_of(reader: Connection, nickname: int) -> int:
    """Return the version above which new versions begin of rows whose metadata was cleaned up."""
    floor = sql.Identifier(names.SCHEMA, names.merge_floor(nickname))
    [(highest,)] = await (
        await reader.execute(sql.SQL("select last_value from {}").format(floor))
    ).fetchall()
    return int(highest)
