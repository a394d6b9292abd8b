"""Files of an archive: written to a staging folder, inspected, moved into place; and the writer's lock."""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from twopc.server.cache import FileLock
from twopc.sim.spark.archive.manifest import File
from twopc.sim.spark.errors import ArchiveBusyError, ArchiveError, PipelineError

MANIFEST = "manifest.json"
LOCK = "writer.lock"
_PATTERN = re.compile(r"[\\{}\[\]*?]")
_WHO = "writer.json"
#: A changed bit would usually change a value: Spark writes a checksum of every page, but does not verify it by
#: default. Nor may Spark skip a file, whatever its settings.
_WHOLE = {
    "parquet.page.verify-checksum.enabled": "true",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
}
#: The new manifest before it replaces the current one.
FRESH = "manifest.json.new"
#: The locks that this process holds, by the archive's folder.
_held: dict[Path, FileLock] = {}


def folder_of(text: str | Path) -> Path:
    """Return an archive's folder, without the scheme ``file:``.

    Raises:
        PipelineError: the folder is in an object store, or in another place where a file cannot replace another
            atomically.
    """
    given = str(text)
    scheme, colon, rest = given.partition(":")
    if colon and scheme == "file":
        return Path("/" + rest.lstrip("/")).absolute()
    if colon and rest.startswith("/") and len(scheme) > 1 and "/" not in scheme:
        raise PipelineError(
            f"{given}: an archive is a folder of a file system that driver and executors share, as NFS: "
            f"{scheme} cannot put a manifest in place of another at once"
        )
    return Path(given).absolute()


def spark_path(path: Path, *, read: bool = False) -> str:
    """Return a path for Spark, independent of Spark's default file system.

    Args:
        read: whether the path is for reading, where Spark takes it as a pattern: special characters are escaped.
    """
    text = _PATTERN.sub(lambda result: "\\" + result[0], str(path)) if read else str(path)
    return "file://" + text


def read(spark: SparkSession, paths: Iterable[Path], shape: StructType) -> DataFrame:
    """Return the content of files of an archive; the read fails if a file is missing or damaged."""
    reader = spark.read.schema(shape).options(**_WHOLE)
    return reader.parquet(*(spark_path(path, read=True) for path in paths))


def fresh_id() -> str:
    """Return a unique identifier for a name."""
    return secrets.token_hex(8)


def sync(path: Path) -> None:
    """Make a file, or a folder's entries, durable with fsync."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def replace_manifest(folder: Path, text: str) -> None:
    """Write a new manifest next to the current one; `commit_manifest` replaces that one."""
    fresh = folder / FRESH
    fresh.write_text(text, encoding="utf-8")
    sync(fresh)


def commit_manifest(folder: Path) -> None:
    """Replace the manifest atomically by the one that `replace_manifest` wrote.

    Raises:
        ArchiveError: the writer's lock is no longer that of the archive.
    """
    lock = _held.get(folder)
    if lock is not None and not lock.is_current():
        raise _lost(folder)
    os.replace(folder / FRESH, folder / MANIFEST)
    sync(folder)


def digest(path: Path) -> str:
    """Return the SHA-256 checksum of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def looked_at(path: Path, name: str, *, key: str | None = None) -> File:
    """Return the description of a Parquet file, from its footer.

    Args:
        name: the file's path in the manifest.
        key: the column whose minimum and maximum are recorded.

    Raises:
        ArchiveError: the file is no complete Parquet file.
    """
    try:
        with pq.ParquetFile(path) as parquet:
            metadata = parquet.metadata
            first, last = _range(metadata, key) if key and metadata.num_rows else (0, 0)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise ArchiveError(f"{path}: not a whole Parquet file: {error}") from error
    return File(
        path=name,
        rows=metadata.num_rows,
        bytes=path.stat().st_size,
        sha256=digest(path),
        first=first,
        last=last,
    )


def _range(metadata: Any, key: str) -> tuple[int, int]:
    place = metadata.schema.to_arrow_schema().get_field_index(key)
    groups = [metadata.row_group(each) for each in range(metadata.num_row_groups)]
    statistics = [each.column(place).statistics for each in groups if each.num_rows]
    return min(int(s.min) for s in statistics), max(int(s.max) for s in statistics)


def written(staging: Path) -> list[Path]:
    """Return the Parquet files that Spark wrote to a folder, without empty ones, in the order of partitions."""
    results = []
    for path in sorted(staging.glob("part-*.parquet")):
        with pq.ParquetFile(path) as parquet:
            if parquet.metadata.num_rows:
                results.append(path)
    return results


def move(paths: list[Path], folder: Path, below: str, *, key: str | None = None) -> list[File]:
    """Move files of a staging folder into the archive, under unique names.

    Args:
        folder: the archive.
        below: the folder within the archive.
        key: see `looked_at`.
    """
    target = folder / below
    target.mkdir(parents=True, exist_ok=True)
    moved = []
    for number, path in enumerate(paths):
        name = f"{below}/part-{number:05d}-{fresh_id()}.zstd.parquet"
        result = looked_at(path, name, key=key)
        sync(path)
        os.rename(path, folder / name)
        moved.append(result)
    _sync_up(target, folder)
    return moved


def _sync_up(target: Path, folder: Path) -> None:
    """Sync a folder and the folders above it up to the archive, as any of them may be new."""
    while True:
        sync(target)
        if target == folder:
            return
        target = target.parent


# -- one writer -----------------------------------------------------------------------------------


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the writer's lock of an archive within the block.

    Raises:
        ArchiveBusyError: another writer holds the lock.
        PipelineError: the folder cannot be written.
        ArchiveError: the block failed after the folder or its lock file was moved, removed or replaced.
    """
    try:
        lock = FileLock.try_take(folder / LOCK)
    except OSError as error:
        raise PipelineError(f"{folder} cannot be written: {error.strerror}") from error
    if lock is None:
        who: dict[str, Any] = {}
        with suppress(OSError, ValueError):
            who = json.loads((folder / _WHO).read_text(encoding="utf-8"))
        pid = int(who.get("pid", 0))
        by = f"process {pid} on {who.get('host', '?')}" if pid else "another process"
        raise ArchiveBusyError(f"{folder.name} is being written by {by}", pid=pid)
    try:
        who = {"pid": os.getpid(), "host": socket.gethostname()}
        (folder / _WHO).write_text(json.dumps(who), encoding="utf-8")
        _held[folder] = lock
        yield
    except Exception as error:
        if lock.is_current():
            raise
        raise _lost(folder) from error
    finally:
        _held.pop(folder, None)
        if lock.is_current():  # otherwise the files may be another writer's
            shutil.rmtree(folder / "staging", ignore_errors=True)
            with suppress(OSError):
                (folder / _WHO).unlink()
        lock.release()


def _lost(folder: Path) -> ArchiveError:
    return ArchiveError(
        f"{folder}: the folder or its {LOCK} was moved, removed or replaced while this process was writing, so another "
        "one may be writing too: nothing was added since; leave the folder in place, and run the command again"
    )


def strays(folder: Path, known: set[str]) -> list[Path]:
    """Return the data files that the manifest does not name."""
    data = folder / "data"
    results = [path for path in data.rglob("*") if path.is_file()] if data.is_dir() else []
    return sorted(path for path in results if path.relative_to(folder).as_posix() not in known)


def sweep(folder: Path, known: set[str]) -> int:
    """Remove files left behind by terminated writers, and return the number of data files removed.

    Only the holder of the lock may call this.
    """
    shutil.rmtree(folder / "staging", ignore_errors=True)
    with suppress(FileNotFoundError):
        (folder / FRESH).unlink()
    removed = strays(folder, known)
    for path in removed:
        path.unlink()
    for path in sorted((folder / "data").rglob("*"), reverse=True):
        if path.is_dir():
            with suppress(OSError):  # not empty
                path.rmdir()
    return len(removed)
