"""Which files hold the rows of a snapshot, and what is read for each."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from twopc.articles import Article
from twopc.merge.articles import MergeArticle
from twopc.merge.marks import Generation
from twopc.merge.snapshots import SnapshotFile, SnapshotKind, file_name
from twopc.sim.merge import moments
from twopc.sim.merge.moments import PageRange

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTask:
    """A file with rows that is to be written."""

    file: SnapshotFile
    blocks: Callable[[Connection], AsyncGenerator[bytes]]
    """Reads what it holds."""


async def row_files(
    reader: Connection,
    copied: Sequence[tuple[MergeArticle, Article]],
    generation: Generation,
    part_bytes: int,
) -> list[SnapshotTask]:
    """The files with rows, and with what is known of them.

    Args:
        part_bytes: how much of a table goes into one file, about.
    """
    tasks = []
    for merged, article in copied:
        is_filtered = merged.filter is not None
        ranges = await moments.page_ranges(reader, article, part_bytes)
        tasks.append(
            SnapshotTask(
                file=_file(SnapshotKind.METADATA, merged, generation),
                blocks=_known(merged, is_filtered),
            )
        )
        tasks += [
            SnapshotTask(
                file=_file(SnapshotKind.DATA, merged, generation, number, str(pages)),
                blocks=_rows(merged, article, is_filtered, pages),
            )
            for number, pages in enumerate(ranges, 1)
        ]
    return tasks


class CountedRows:
    """Blocks of COPY text, whose lines are counted: a row is a line."""

    def __init__(self, source: AsyncGenerator[bytes]) -> None:
        self._source = source
        self.count = 0

    async def blocks(self) -> AsyncGenerator[bytes]:
        """The blocks; whoever stops early closes it, which ends the COPY."""
        async with aclosing(self._source) as source:
            async for block in source:
                self.count += block.count(b"\n")
                yield block


def _file(
    kind: SnapshotKind,
    merged: MergeArticle,
    generation: Generation,
    part: int | None = None,
    place: str = "",
) -> SnapshotFile:
    """A file that is not written yet."""
    name = file_name(merged.nickname, merged.table, kind, generation=generation.guid, part=part)
    return SnapshotFile(
        name=name, kind=kind, nickname=merged.nickname, size_bytes=0, sha256="", place=place
    )


def _known(
    merged: MergeArticle, is_filtered: bool
) -> Callable[[Connection], AsyncGenerator[bytes]]:
    return lambda reader: moments.metadata_blocks(reader, merged, is_filtered=is_filtered)


def _rows(
    merged: MergeArticle, article: Article, is_filtered: bool, pages: PageRange
) -> Callable[[Connection], AsyncGenerator[bytes]]:
    return lambda reader: moments.row_blocks(
        reader, article, merged, is_filtered=is_filtered, pages=pages
    )
