"""Snapshots in files: what a folder holds, and how files and folders are called. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote
from uuid import UUID

from twopc.names import bounded

FORMAT = 1
"""Of manifests, and of the files that they name."""
MANIFEST = "manifest.json"
PARTIAL = "manifest.partial.json"
"""What is there of a snapshot that is not finished."""
PART_BYTES = 64 * 2**20
"""How much of a table goes into one data file, about."""
#: A name that leads nowhere but into the folder itself.
_FILE_NAME = re.compile(r"[A-Za-z0-9%_~-][A-Za-z0-9%_.~-]{0,250}\Z")
_PART_NAME_BYTES_MAX = 150


class SnapshotKind(StrEnum):
    """What a file holds, by its extension (facts 4.1), in the order in which they are delivered."""

    PRE = "pre"
    """The name of the table, which must not be there."""
    SCHEMA = "sch"
    """Columns, types and checks."""
    DATA = "bcp"
    """A part of the rows, in the manifest's format."""
    KEYS = "dri"
    """Unique and foreign keys."""
    CONFLICTS = "cft"
    """The name of the conflict table, and of its publication."""
    TRIGGERS = "trg"
    """What is tracked, and how."""
    METADATA = "sys"
    """The metadata of the rows, as COPY text."""


class SnapshotFormat(StrEnum):
    """How rows are written: see PostgreSQL's COPY."""

    TEXT = "text"
    BINARY = "binary"
    """Only for types of PostgreSQL's and enums, and between servers of one major version."""


OF_DATA = frozenset({SnapshotKind.DATA, SnapshotKind.METADATA})
"""The others describe the tables, and are the same for every Subscriber."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFile:
    """A file of a snapshot."""

    name: str
    kind: SnapshotKind
    nickname: int
    """Of its article."""
    size_bytes: int
    sha256: str
    rows: int = 0
    place: str = ""
    """Of a part of a table's rows: where they stand in the Publisher's file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotArticle:
    """An article of a snapshot."""

    artid: UUID
    nickname: int
    schema: str
    table: str
    floor: int = 0
    """Above which versions go on of rows of which what was known is forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotGeneration:
    """What moment the rows are of."""

    number: int
    guid: UUID
    snapshot: str
    """What the generation sees, as PostgreSQL prints it."""
    retention_days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPartition:
    """Whose rows they are."""

    number: int
    host_name: str | None
    """None: no filter looks at it."""
    login: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotManifest:
    """What a folder holds. It is written last, so that what it names is there."""

    format: int
    publisher: str
    database: str
    publication: str
    server_version: int
    data_format: SnapshotFormat
    """Of the rows; their metadata is text."""
    generation: SnapshotGeneration | None
    """None: the tables are described, and there are no rows."""
    partition: SnapshotPartition | None
    """None: the publication is not filtered, or there are no rows."""
    articles: tuple[SnapshotArticle, ...]
    files: tuple[SnapshotFile, ...]
    """In the order of delivery."""

    @property
    def folder(self) -> tuple[str, ...]:
        """The folders below ``unc`` in which it belongs."""
        return folder_of(self.publisher, self.database, self.publication, self.partition)


def being_initialised(node: str) -> str:
    """Why no session begins with a node."""
    return f"{node} is being initialised: where that was cut off, `subscribe` or `reinitialise` goes on with it"


def is_file_name(name: str) -> bool:
    """Whether a file of a snapshot may be called so."""
    return bool(_FILE_NAME.match(name))


def encoded(text: str) -> str:
    """Any text as a part of a file's name: it holds no separator, and no other text is written the same way."""
    return bounded(quote(text, safe=""), _PART_NAME_BYTES_MAX)


def folder_of(
    publisher: str, database: str, publication: str, partition: SnapshotPartition | None = None
) -> tuple[str, ...]:
    """Where a snapshot is below ``<folder>/unc`` (seed 003): ``<Publisher>_<database>_<publication>``.

    Below that is a folder for each partition: its values, and its number.
    """
    base = bounded("_".join(encoded(each) for each in (publisher, database, publication)), 250)
    if partition is None:
        return (base,)
    values = [each for each in (partition.host_name, partition.login) if each is not None]
    return (base, "_".join([*(encoded(each)[:100] for each in values), str(partition.number)]))


def file_name(
    nickname: int,
    table: str,
    kind: SnapshotKind,
    *,
    generation: UUID | None = None,
    part: int | None = None,
    data_format: SnapshotFormat = SnapshotFormat.TEXT,
) -> str:
    """How a file is called. Those with rows carry their generation, so that a new snapshot overwrites none of an old one.

    Args:
        nickname: the article's; `table`: its table.
        part: of a table's rows, from 1; `data_format`: theirs.
    """
    words = [f"{nickname:04}", encoded(table)]
    if generation is not None:
        words.append(generation.hex[:8])
    if part is not None:
        words.append(f"{part:04}")
    if data_format is not SnapshotFormat.TEXT:
        words.append(data_format)
    return f"{'_'.join(words)}.{kind}"
