"""The files of a snapshot that describe tables: from the Publisher's catalogs to text, and back to values.

They hold values of which our own code makes SQL, and no SQL that is executed as it stands but the Publisher's own
words for types, defaults, checks and indexes. What a folder holds must therefore be what the Publisher says now:
`described` is what it would write.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from psycopg import AsyncConnection

from twopc import names
from twopc.articles import Article, ForeignKey, UniqueKey
from twopc.drivers.merge import partitions, tracking
from twopc.merge.articles import MergeArticle
from twopc.merge.snapshots import SnapshotFile, SnapshotKind, file_name
from twopc.publisher.merge import publication
from twopc.publisher.selection import article_of
from twopc.sim.merge.snapshot_files import as_json
from twopc.sql.describe import describe

Connection = AsyncConnection[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTable:
    """A table that must not be there (``.pre``)."""

    schema: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotKeys:
    """Keys that are made once rows are there (``.dri``)."""

    uniques: tuple[UniqueKey, ...]
    foreign_keys: tuple[ForeignKey, ...]
    """Between this table and itself or those before it, either way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotConflicts:
    """Where conflicts of an article are recorded (``.cft``)."""

    publication: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTable:
    """A file that describes a table, as the Publisher would write it now."""

    file: SnapshotFile
    text: bytes


async def copied_articles(connection: Connection) -> list[tuple[MergeArticle, Article]]:
    """What is merged, as it is tracked and as it is copied, parents before their children."""
    return [
        (
            replace(each, filter=await partitions.stored_filter(connection, each.artid)),
            article_of(await describe(connection, each.schema, each.table)),
        )
        for each in await tracking.articles(connection)
    ]


def described(copied: Sequence[tuple[MergeArticle, Article]]) -> list[DescribedTable]:
    """The files that describe tables, in the order of delivery."""
    files = []
    for place, (merged, article) in enumerate(copied):
        before = [each for _, each in copied[: place + 1]]
        conflicts = SnapshotConflicts(
            publication=publication.PUBLICATION,
            table=names.merge_conflict_table(publication.PUBLICATION, merged.schema, merged.table),
        )
        # indexes of plain columns are built by code of the server's, or of a superuser's: later is quicker
        keyless = replace(article, uniques=(), references=(), referenced_by=())
        texts = {
            SnapshotKind.PRE: as_json(SnapshotTable(schema=merged.schema, table=merged.table)),
            SnapshotKind.SCHEMA: as_json(keyless),
            SnapshotKind.KEYS: as_json(_keys(article, before)),
            SnapshotKind.CONFLICTS: as_json(conflicts),
            SnapshotKind.TRIGGERS: as_json(merged),
        }
        files += [
            DescribedTable(
                file=SnapshotFile(
                    name=file_name(merged.nickname, merged.table, kind),
                    kind=kind,
                    nickname=merged.nickname,
                    size_bytes=len(text),
                    sha256=hashlib.sha256(text).hexdigest(),
                ),
                text=text,
            )
            for kind, text in texts.items()
        ]
    return files


def _keys(article: Article, before: Sequence[Article]) -> SnapshotKeys:
    """A table's keys, and the foreign keys of which it is the later of the two tables."""
    there = {(each.schema, each.table) for each in before}
    own = (article.schema, article.table)
    keys = {
        (key.schema, key.table, key.name): key
        for each in before
        for key in each.references
        if (key.target_schema, key.target_table) in there
        and own in ((key.schema, key.table), (key.target_schema, key.target_table))
    }
    return SnapshotKeys(uniques=article.uniques, foreign_keys=tuple(keys.values()))
