"""Reading and writing of the files of a snapshot: an incomplete file is never valid, and every file is verified
when read.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from twopc.errors import MergeError
from twopc.merge.snapshots import (
    FORMAT,
    MANIFEST,
    PARTIAL,
    SnapshotFile,
    SnapshotManifest,
    is_file_name,
)

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

_CHUNK_BYTES = 2**20
_MANIFEST_BYTES_MAX = 64 * 2**20
_UNFINISHED = ".tmp"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredManifest:
    """The manifest of a folder, as read."""

    folder: Path
    manifest: SnapshotManifest
    digest: str
    """SHA-256 of the manifest's text."""


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """Size and digest of a written file."""

    size_bytes: int
    sha256: str


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter  # not needed without snapshots in files

    return TypeAdapter(kind)


def as_json(value: object) -> bytes:
    """Return a value as the text of a file; the same value always gives the same text."""
    return _adapter(type(value)).dump_json(value, indent=1) + b"\n"


def from_json(text: bytes, path: Path, kind: type[T]) -> T:
    """Return the value stored in a file.

    Raises:
        MergeError: the content is not such a value.
    """
    from pydantic import ValidationError

    try:
        value: T = _adapter(kind).validate_json(text, strict=True)
        return value
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        raise MergeError(
            f"{path} is not what the Snapshot Agent writes: {where or 'it'}: {first['msg']}: make another snapshot"
        ) from error


async def write_file(folder: Path, name: str, blocks: AsyncGenerator[bytes]) -> WrittenFile:
    """Write a file under a temporary name, flush it to disk, and rename it.

    Raises:
        MergeError: the file cannot be written; its incomplete content is removed.
    """
    path, unfinished = folder / name, folder / (name + _UNFINISHED)
    digest, size = hashlib.sha256(), 0
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as stream:
            async with aclosing(blocks):
                async for block in blocks:
                    stream.write(block)
                    digest.update(block)
                    size += len(block)
            stream.flush()
            await asyncio.to_thread(os.fsync, stream.fileno())
        os.replace(unfinished, path)
        _keep_names(folder)
    except OSError as error:
        raise MergeError(
            f"{path} cannot be written: {error.strerror or error}: make room there, or name another folder, and run the "
            "Snapshot Agent again"
        ) from error
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    return WrittenFile(size_bytes=size, sha256=digest.hexdigest())


async def whole(text: bytes) -> AsyncGenerator[bytes]:
    """Yield a text as the only block of a file."""
    yield text


async def write_manifest(folder: Path, name: str, manifest: SnapshotManifest) -> str:
    """Write a manifest, replacing one of the same name; return its digest."""
    return (await write_file(folder, name, whole(as_json(manifest)))).sha256


def make_folder(folder: Path) -> None:
    """Create a folder that other users cannot read, with its parents.

    Raises:
        MergeError: it cannot be created, or is not writable.
    """
    try:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            each.mkdir(mode=0o700, exist_ok=True)
        probe = folder / f".probe{_UNFINISHED}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise MergeError(
            f"snapshot folder {folder} cannot be written to: {error.strerror or error}: name another folder, or let the "
            "user who runs the Snapshot Agent write there"
        ) from error


def remove_others(folder: Path, kept: frozenset[str]) -> None:
    """Remove the files of earlier snapshots, and of agents that were killed."""
    for path in folder.iterdir():
        if path.name not in kept and path.is_file() and _is_of_a_snapshot(path.name):
            with suppress(OSError):
                path.unlink()


def _is_of_a_snapshot(name: str) -> bool:
    name = name.removesuffix(_UNFINISHED)
    return name in (MANIFEST, PARTIAL) or (
        name[:4].isdigit() and name[4:5] == "_" and is_file_name(name)
    )


def _keep_names(folder: Path) -> None:
    """Flush the entries of a folder to disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_manifest(folder: Path, name: str = MANIFEST) -> StoredManifest | None:
    """Return the manifest of a folder; None: there is none.

    Raises:
        MergeError: it cannot be read, is incomplete, or is of another version.
    """
    path = folder / name
    try:
        if not path.is_file():
            return None
        with path.open("rb") as stream:
            text = stream.read(_MANIFEST_BYTES_MAX)
    except OSError as error:
        raise MergeError(f"{path} cannot be read: {error.strerror or error}") from error
    version = _version(text)
    if version is not None and version != FORMAT:
        raise MergeError(
            f"{path} is of version {version}, and version {FORMAT} is known here: make another snapshot with this "
            "version of twopc"
        )
    manifest = from_json(text, path, SnapshotManifest)
    for file in manifest.files:
        if not is_file_name(file.name):
            raise MergeError(
                f"{path} names {file.name!r}, which is no file of a snapshot: make another"
            )
    return StoredManifest(folder=folder, manifest=manifest, digest=hashlib.sha256(text).hexdigest())


def _version(text: bytes) -> int | None:
    try:
        head = json.loads(text)
    except ValueError:
        return None
    version = head.get("format") if isinstance(head, dict) else None
    return version if isinstance(version, int) else None


def check_there(folder: Path, file: SnapshotFile) -> None:
    """Refuse a file that is missing, or has another size.

    Raises:
        MergeError: names the file.
    """
    path = folder / file.name
    try:
        size = path.stat().st_size if path.is_file() else None
    except OSError as error:
        raise MergeError(f"{path} cannot be read: {error.strerror or error}") from error
    if size is None:
        raise MergeError(f"{path} is missing: put it back, or make another snapshot")
    if size != file.size_bytes:
        what = "was cut short" if size < file.size_bytes else "was altered"
        raise MergeError(
            f"{path} {what}: it has {size} bytes, and had {file.size_bytes}: put it back, or make another snapshot"
        )


async def read_blocks(folder: Path, file: SnapshotFile) -> AsyncIterator[bytes]:
    """Yield the content of a file. It must not be committed before the end, where its digest is checked.

    Raises:
        MergeError: the file is missing, or differs from what the agent has written.
    """
    check_there(folder, file)
    path = folder / file.name
    digest, left = hashlib.sha256(), file.size_bytes
    try:
        with path.open("rb") as stream:
            while left and (block := stream.read(min(left, _CHUNK_BYTES))):
                digest.update(block)
                left -= len(block)
                yield block
    except OSError as error:
        raise MergeError(f"{path} cannot be read: {error.strerror or error}") from error
    if left or digest.hexdigest() != file.sha256:
        raise MergeError(
            f"{path} was altered: its SHA-256 is not the one in the manifest: put it back, or make another snapshot"
        )


async def read_file(folder: Path, file: SnapshotFile) -> bytes:
    """Return the content of a file; see `read_blocks`."""
    return b"".join([block async for block in read_blocks(folder, file)])


async def is_intact(folder: Path, file: SnapshotFile) -> bool:
    """Whether a file is as an agent has written it."""
    try:
        async for _ in read_blocks(folder, file):
            pass
    except MergeError:
        return False
    return True
