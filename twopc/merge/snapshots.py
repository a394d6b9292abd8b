"""Snapshots in files: the content of a folder, and the names of files and folders. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from urllib.parse import quote
from uuid import UUID

from twopc.names import bounded

FORMAT = 1
"""Format version of manifests, and of the files that they list."""
MANIFEST = "manifest.json"
PARTIAL = "manifest.partial.json"
"""Name of the manifest of an unfinished snapshot."""
PART_BYTES = 64 * 2**20
"""Approximate size of one data file of a table."""
#: A name that cannot refer to a place outside the folder.
_FILE_NAME = re.compile(r"[A-Za-z0-9%_~-][A-Za-z0-9%_.~-]{0,250}\Z")
_PART_NAME_BYTES_MAX = 150


class SnapshotKind(StrEnum):
    """Content of a file, by its extension (facts 4.1), in the order of delivery."""

    PRE = "pre"
    """The name of the table, which must not exist yet."""
    SCHEMA = "sch"
    """Columns, types and checks."""
    DATA = "bcp"
    """A part of the rows, in the manifest's format."""
    KEYS = "dri"
    """Unique and foreign keys."""
    CONFLICTS = "cft"
    """The name of the conflict table, and of its publication."""
    TRIGGERS = "trg"
    """The tracked table and its tracking options."""
    METADATA = "sys"
    """The metadata of the rows, as COPY text."""


class SnapshotFormat(StrEnum):
    """Format of rows: see PostgreSQL's COPY."""

    TEXT = "text"
    BINARY = "binary"
    """Only for built-in types and enums, and between servers of one major version."""


OF_DATA = frozenset({SnapshotKind.DATA, SnapshotKind.METADATA})
"""Kinds that contain rows or metadata. Files of other kinds describe the tables, and are the same for every
Subscriber.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFile:
    """A file of a snapshot."""

    name: str
    kind: SnapshotKind
    nickname: int
    """Nickname of the file's article."""
    size_bytes: int
    sha256: str
    rows: int = 0
    place: str = ""
    """Location of a part of a table's rows in the Publisher's file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotArticle:
    """An article of a snapshot."""

    artid: UUID
    nickname: int
    schema: str
    table: str
    floor: int = 0
    """Lower bound of new versions for rows whose metadata was removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotGeneration:
    """The generation at which the rows were read."""

    number: int
    guid: UUID
    snapshot: str
    """The generation's snapshot, as PostgreSQL prints it."""
    retention_days: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPartition:
    """The partition to which the rows belong."""

    number: int
    host_name: str | None
    """The host name; None if no filter uses it."""
    login: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotManifest:
    """The manifest of a folder. It is written last, so that all files that it lists exist."""

    format: int
    publisher: str
    database: str
    publication: str
    server_version: int
    data_format: SnapshotFormat
    """Format of the rows; metadata is always text."""
    generation: SnapshotGeneration | None
    """The generation of the rows; None if only the tables are described, without rows."""
    partition: SnapshotPartition | None
    """The partition; None if the publication is not filtered, or there are no rows."""
    articles: tuple[SnapshotArticle, ...]
    files: tuple[SnapshotFile, ...]
    """The files in the order of delivery."""

    @property
    def folder(self) -> tuple[str, ...]:
        """The folders below ``unc`` in which the snapshot belongs."""
        return folder_of(self.publisher, self.database, self.publication, self.partition)


def being_initialised(node: str) -> str:
    """Return the message for a session that cannot begin because the node is being initialised."""
    return f"{node} is being initialised: where that was cut off, `subscribe` or `reinitialise` goes on with it"


def is_file_name(name: str) -> bool:
    """Return whether a name is valid for a file of a snapshot."""
    return bool(_FILE_NAME.match(name))


def encoded(text: str) -> str:
    """Return any text as a part of a file's name: without separators, and different for different texts."""
    return bounded(quote(text, safe=""), _PART_NAME_BYTES_MAX)


def folder_of(
    publisher: str, database: str, publication: str, partition: SnapshotPartition | None = None
) -> tuple[str, ...]:
    """Return the folders of a snapshot below ``<folder>/unc`` (seed 003): ``<Publisher>_<database>_<publication>``.

    That folder has a subfolder for each partition, named after its values and its number.
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
    """Return the name of a file. Files with rows include their generation, so that a new snapshot overwrites no
    file of an old one.

    Args:
        nickname: the article's nickname.
        table: the article's table.
        part: number of a part of the table's rows, from 1.
        data_format: format of the rows.
    """
    words = [f"{nickname:04}", encoded(table)]
    if generation is not None:
        words.append(generation.hex[:8])
    if part is not None:
        words.append(f"{part:04}")
    if data_format is not SnapshotFormat.TEXT:
        words.append(data_format)
    return f"{'_'.join(words)}.{kind}"
