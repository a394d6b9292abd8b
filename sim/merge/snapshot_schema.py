"""The files of a snapshot that describe tables: from the Publisher's catalogs to text, and back to values.

They contain values from which our code builds SQL, and no SQL to be executed unchanged except the Publisher's
definitions of types, defaults, checks, foreign keys and indexes. The content of a folder must therefore equal the
Publisher's present definitions: `described` returns them.
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
    """A table that must not exist (``.pre``)."""

    schema: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotKeys:
    """Keys that are created after the rows (``.dri``)."""

    uniques: tuple[UniqueKey, ...]
    foreign_keys: tuple[ForeignKey, ...]
    """Foreign keys between this table and itself or earlier tables, in either direction."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotConflicts:
    """The table in which an article's conflicts are recorded (``.cft``)."""

    publication: str
    table: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedTable:
    """A file that describes a table, as the Publisher would write it now."""

    file: SnapshotFile
    text: bytes


async def copied_articles(connection: Connection) -> list[tuple[MergeArticle, Article]]:
    """Return the merged tables as articles of merge replication and of copies, parents before their children."""
    return [
        (
            replace(each, filter=await partitions.stored_filter(connection, each.artid)),
            article_of(await describe(connection, each.schema, each.table)),
        )
        for each in await tracking.articles(connection)
    ]


def described(copied: Sequence[tuple[MergeArticle, Article]]) -> list[DescribedTable]:
    """Return the files that describe tables, in the order of delivery."""
    files = []
    for place, (merged, article) in enumerate(copied):
        before = [each for _, each in copied[: place + 1]]
        conflicts = SnapshotConflicts(
            publication=publication.PUBLICATION,
            table=names.merge_conflict_table(publication.PUBLICATION, merged.schema, merged.table),
        )
        # indexes of plain columns run only code of the server or of a superuser; building them later is
        # faster
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
    """Return a table's keys, and the foreign keys of which it is the later of the two tables."""
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
