"""The open folder: its scenario files, and the only place to which files are written.

Paths are relative to the folder, with ``/``; nothing outside is read or written, even through links.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import twopc
from twopc.errors import ConfigurationError, ScenarioError
from twopc.sim.explore.wire.files import ListedFile, SavedFile
from twopc.sim.scenario.scenario_files import BYTES_MAX, decoded, read_regular

SUFFIX = ".twopc.yaml"
#: The scenarios that are installed.
_SHIPPED = Path(twopc.__file__).parent / "scenarios"
#: Keys of a file in their usual notation.
_NAME = re.compile(r"^name: *(.*?) *(?:#.*)?$", re.MULTILINE)
_ABOUT = re.compile(r"^about: *(?:[>|][+-]?)? *(.*(?:\n[ \t]+.*)*)", re.MULTILINE)
_ORDERS = re.compile(r"^orders:", re.MULTILINE)
_ORDER = re.compile(r"^ *- name: *(.*?) *(?:#.*)?$", re.MULTILINE)


class OutsideError(ConfigurationError):
    """The path is not that of a scenario within the folder."""


class MissingError(ConfigurationError):
    """The file does not exist, or cannot be read or written."""


class ChangedError(ConfigurationError):
    """The file has changed since it was read for editing."""

    def __init__(self, message: str, version: str) -> None:
        super().__init__(message)
        self.version = version
        """Version of the present content; empty: the file no longer exists."""


class TooLongError(ConfigurationError):
    """The text is longer than a scenario that can be read."""


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A scenario file, or a folder that cannot be listed."""

    path: str
    r"""Path within the folder, with ``/``; bytes that are not UTF-8 are written as ``\xff``."""
    why_not: str = ""
    """Why the entry cannot be read, if known."""


class OpenFolder:
    """A folder of scenarios.

    Args:
        opened: the folder, or the only file of it that is shown.
        read_only: whether saving is refused.
    """

    def __init__(self, opened: Path, *, read_only: bool = False) -> None:
        self.opened = opened = Path(os.path.realpath(opened))
        self.only = opened.name if opened.is_file() else ""
        self.root = opened.parent if self.only else opened
        self.read_only = read_only
        self._saving = threading.Lock()

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.root.name or str(self.root)

    def entries(self) -> list[FolderEntry]:
        """Return the scenario files and the folders that cannot be listed, sorted.

        Links that lead out of the folder are omitted, and so are files that are not regular, such as pipes.
        """
        if self.only:
            return [FolderEntry(self.only)]
        results: list[FolderEntry] = []

        def hidden(error: OSError) -> None:
            why = f"cannot list this folder: {error.strerror}"
            results.append(FolderEntry(self._shown(Path(os.fsdecode(error.filename))), why))

        for folder, folders, files in os.walk(self.root, onerror=hidden):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            places = [Path(folder, name) for name in files if name.endswith(SUFFIX)]
            results += [FolderEntry(self._shown(each), _why_not(each)) for each in places if self._is_listed(each)]  # fmt: skip
        return sorted(results, key=lambda each: each.path)

    def _shown(self, place: Path) -> str:
        inner = place.relative_to(self.root).as_posix()
        return os.fsencode(inner).decode("utf-8", "backslashreplace")

    def _is_listed(self, place: Path) -> bool:
        """Return whether a path is a regular file within the folder, or cannot be examined."""
        if not Path(os.path.realpath(place)).is_relative_to(self.root):
            return False
        try:
            return stat.S_ISREG(os.stat(place).st_mode)
        except OSError:
            return True

    def glance(self) -> list[ListedFile]:
        """Return the files, described from a quick scan of their texts; only their readability is checked."""
        return [self._glance(entry) for entry in self.entries()]

    def _glance(self, entry: FolderEntry) -> ListedFile:
        path = entry.path
        try:
            text = self.read_entry(entry)
        except MissingError as error:
            return unreadable(path, str(error))
        name, about = _NAME.search(text), _ABOUT.search(text)
        orders = text[match.end() :] if (match := _ORDERS.search(text)) else ""
        return {
            "path": path,
            "name": name[1].strip("'\"") if name else path.rsplit("/", 1)[-1].removesuffix(SUFFIX),
            "about": " ".join(about[1].strip("'\"").split()) if about else "",
            "steps": 0,
            "orders": [each.strip("'\"") for each in _ORDER.findall(orders)],
            "error": None,
            "why_not": "",
        }

    @contextmanager
    def _beside(self, path: str) -> Iterator[tuple[int, str]]:
        """Yield the descriptor of a file's folder, and the file's name there.

        Links are followed if they lead to a place within the folder; a path component that becomes a link later is
        not.

        Raises:
            OutsideError: the path is not that of a scenario within the folder.
            OSError: a folder of the path does not exist.
        """
        name = checked_name(path)
        if self.only and path != self.only:
            raise OutsideError(f"only {self.only} was opened, not {path!r}: open its folder")
        place = Path(os.path.realpath(self.root / name))
        if not place.is_relative_to(self.root) or place == self.root:
            raise OutsideError(
                f"{path!r} leads out of the folder, so it is neither read nor written"
            )
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = os.open(self.root, flags)
        try:
            for part in place.relative_to(self.root).parts[:-1]:
                inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = inner
            yield descriptor, place.name
        finally:
            os.close(descriptor)

    def read_entry(self, entry: FolderEntry) -> str:
        """Return the text of a listed file.

        Raises:
            MissingError: the file cannot be read, or is no longer within the folder.
        """
        if entry.why_not:
            raise MissingError(f"{entry.path}: {entry.why_not}")
        try:
            return self.read(entry.path)
        except OutsideError as error:
            raise MissingError(str(error)) from error

    def read(self, path: str) -> str:
        """Return the text of a file.

        Raises:
            OutsideError: the path is not that of a scenario within the folder.
            MissingError: the file does not exist, or cannot be read.
        """
        try:
            with self._beside(path) as (folder, name):
                return decoded(read_regular(name, within=folder), path)
        except OSError as error:
            first, _, rest = path.partition("/")
            if isinstance(error, FileNotFoundError) and first == _SHIPPED.name and not self.only:
                return OpenFolder(_SHIPPED).read(rest)  # as for every command
            raise MissingError(f"{path}: cannot read it: {error.strerror}") from error
        except ScenarioError as error:
            raise MissingError(str(error)) from error

    def save(self, path: str, text: str, base_version: str) -> SavedFile:
        """Write a file atomically if it has not changed.

        Args:
            base_version: version of the text that was edited; empty: the file must not exist.

        Raises:
            OutsideError: the path is not that of a scenario within the folder, or the folder is read-only.
            TooLongError: the text is too long to be read again.
            ChangedError: the file has another text now.
            MissingError: its folder does not exist, or the file cannot be written.
        """
        if self.read_only:
            raise OutsideError(
                "this folder is open for reading only: copy the file to one of yours"
            )
        text = text.lstrip("\ufeff")  # as reading will remove it
        raw = text.encode()
        if len(raw) > BYTES_MAX:
            raise TooLongError(
                f"{path}: over {BYTES_MAX} bytes is too long for a scenario; nothing was written"
            )
        try:
            with self._saving, self._beside(path) as (folder, name):
                now = _version_now(folder, name, path)
                if now != version_of(
                    text
                ):  # equal if this request was done before and the answer was lost
                    _check_version(now, path, base_version)
                    _write(folder, name, raw)
        except OSError as error:
            raise MissingError(
                f"{path}: cannot write it: {error.strerror}; nothing was written"
            ) from error
        return {"path": path, "version": version_of(text)}


def _version_now(folder: int, name: str, path: str) -> str:
    """Return the version of a file; empty if it does not exist. Raise `MissingError` if it cannot be read."""
    try:
        return version_of(decoded(read_regular(name, within=folder), path))
    except FileNotFoundError:
        return ""
    except ScenarioError as error:
        raise MissingError(f"{error}; nothing was written") from error


def _check_version(now: str, path: str, base_version: str) -> None:
    """Raise `ChangedError` if the file has another version."""
    if now == base_version:
        return
    what = "has been changed" if now else "is gone"
    if not base_version:
        what = "is there already"
    raise ChangedError(
        f"{path} {what} meanwhile; nothing was written: look at both, then save again", now
    )


def _write(folder: int, name: str, raw: bytes) -> None:
    """Replace a file atomically and keep its mode, or create it."""
    fresh = f".{secrets.token_hex(8)}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    mode = None
    with suppress(FileNotFoundError):
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode & 0o777
    first = (
        0o666 if mode is None else 0o600
    )  # a user without access to the old file must not open the new one
    descriptor = os.open(fresh, flags, first, dir_fd=folder)
    try:
        with open(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            file.write(raw)
            file.flush()
            os.fsync(descriptor)
        os.replace(fresh, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(fresh, dir_fd=folder)
        raise


def _why_not(place: Path) -> str:
    try:
        place.name.encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8: rename it"
    return ""


def unreadable(path: str, why: str) -> ListedFile:
    """Return a file that cannot be read as one line of a list."""
    return {
        "path": path,
        "name": path.rsplit("/", 1)[-1],
        "about": "",
        "steps": 0,
        "orders": [],
        "error": {
            "line": 1, "column": 1, "length": 1, "message": why, "remedy": "",
            "severity": "error", "path": "",
        },
        "why_not": "",
    }  # fmt: skip


def checked_name(path: str) -> PurePosixPath:
    """Return a path if it is valid for a scenario in a folder.

    Raises:
        OutsideError: the path is invalid.
    """
    pure = PurePosixPath(path)
    is_strange = (
        not path or "\0" in path or "\\" in path or pure.is_absolute() or ".." in pure.parts
    )
    if is_strange or not pure.name.endswith(SUFFIX) or pure.name == SUFFIX:
        raise OutsideError(
            f"{path!r} is no scenario of this folder: its name ends in {SUFFIX}, and it lies within"
        )
    return pure


def version_of(text: str) -> str:
    """Return a text's version, a digest."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
