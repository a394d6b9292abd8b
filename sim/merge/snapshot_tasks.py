"""The files with the rows of a snapshot, and the queries that read them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from psycopg import AsyncConnection

from twopc.articles import Article
from twopc.errors import MergeError
from twopc.merge.articles import MergeArticle
from twopc.merge.marks import Generation
from twopc.merge.snapshots import SnapshotFile, SnapshotFormat, SnapshotKind, file_name
from twopc.sim.merge import moments
from twopc.sql.fragments import qualified

Connection = AsyncConnection[Any]

#: Columns whose binary format contains OIDs of this database: arrays, composites and ranges of user types, and
#: reg*.
_NOT_BINARY = """
select a.attname::text, format_type(a.atttypid, a.atttypmod)
from pg_attribute as a join pg_type as t on t.oid = a.atttypid
join pg_type as e on e.oid = case when t.typcategory = 'A' and t.typelem <> 0 then t.typelem else t.oid end
where a.attrelid = %s::text::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
  and not (t.typtype = 'e' or e.typnamespace = 'pg_catalog'::regnamespace and e.typtype in ('b', 'r', 'm')
           and e.typsend <> 0 and not starts_with(e.typname, 'reg'))
order by a.attnum limit 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTask:
    """A file with rows that is to be written."""

    file: SnapshotFile
    blocks: Callable[..., AsyncGenerator[bytes]]
    """Reads the content over a connection, and passes the number of rows to `count` at the end."""


async def row_files(
    reader: Connection,
    copied: Sequence[tuple[MergeArticle, Article]],
    generation: Generation,
    part_bytes: int,
    data_format: SnapshotFormat,
) -> list[SnapshotTask]:
    """Return the files with rows, and with their metadata.

    Args:
        part_bytes: approximate size of the part of a table that goes into one file.
    """
    tasks = []
    for merged, article in copied:
        ranges = await moments.page_ranges(reader, article, part_bytes)
        tasks.append(
            SnapshotTask(
                file=_file(SnapshotKind.METADATA, merged, generation),
                blocks=partial(moments.metadata_blocks, merged=merged),
            )
        )
        tasks += [
            SnapshotTask(
                file=_file(SnapshotKind.DATA, merged, generation, number, str(pages), data_format),
                blocks=partial(
                    moments.row_blocks,
                    article=article,
                    merged=merged,
                    pages=pages,
                    binary=data_format is SnapshotFormat.BINARY,
                ),
            )
            for number, pages in enumerate(ranges, 1)
        ]
    return tasks


async def check_binary(reader: Connection, articles: Sequence[Article]) -> None:
    """Refuse binary format for values that another database would read differently.

    Raises:
        MergeError: names the column.
    """
    for article in articles:
        table = qualified(article.schema, article.table).as_string(reader)
        row = await (await reader.execute(_NOT_BINARY, (table,))).fetchone()
        if row is not None:
            raise MergeError(
                f"table {article.name}: column {row[0]!r} is of type {row[1]}, whose values have no binary format that "
                "holds in another database: make the snapshot in text"
            )


def _file(
    kind: SnapshotKind,
    merged: MergeArticle,
    generation: Generation,
    part: int | None = None,
    place: str = "",
    data_format: SnapshotFormat = SnapshotFormat.TEXT,
) -> SnapshotFile:
    """Return a file that is not written yet."""
    name = file_name(
        merged.nickname,
        merged.table,
        kind,
        generation=generation.guid,
        part=part,
        data_format=data_format,
    )
    return SnapshotFile(
        name=name, kind=kind, nickname=merged.nickname, size_bytes=0, sha256="", place=place
    )
