"""The folder that was opened: which scenario files it has, and the only place where one is written.

Paths are relative to it, with ``/``; nothing outside of it is read or written, whatever links lead there.
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
from twopc.sim.explore.wire import ListedFile, SavedFile
from twopc.sim.scenario.scenario_files import BYTES_MAX, decoded, read_regular

SUFFIX = ".twopc.yaml"
#: The scenarios that are installed.
_SHIPPED = Path(twopc.__file__).parent / "scenarios"
#: What a file says of itself, where it is written as usual.
_NAME = re.compile(r"^name: *(.*?) *(?:#.*)?$", re.MULTILINE)
_ABOUT = re.compile(r"^about: *(?:[>|][+-]?)? *(.*(?:\n[ \t]+.*)*)", re.MULTILINE)
_ORDERS = re.compile(r"^orders:", re.MULTILINE)
_ORDER = re.compile(r"^ *- name: *(.*?) *(?:#.*)?$", re.MULTILINE)


class OutsideError(ConfigurationError):
    """A path that is not one of a scenario within the folder."""


class MissingError(ConfigurationError):
    """There is no such file."""


class ChangedError(ConfigurationError):
    """The file is not what it was when somebody began to change it."""

    def __init__(self, message: str, version: str) -> None:
        super().__init__(message)
        self.version = version
        """Of what is there now; empty: the file is gone."""


class TooLongError(ConfigurationError):
    """A text that would not be read again once it was written."""


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A scenario file, or something where there may be some."""

    path: str
    """Within the folder, with ``/``; what is not UTF-8 in it is written as ``\\xff``."""
    why_not: str = ""
    """Why it cannot be read, if that is known."""


class OpenFolder:
    """A folder of scenarios.

    Args:
        opened: the folder, or the one file of it that is shown.
        read_only: nothing is written.
    """

    def __init__(self, opened: Path, *, read_only: bool = False) -> None:
        self.opened = opened = Path(os.path.realpath(opened))
        self.only = opened.name if opened.is_file() else ""
        self.root = opened.parent if self.only else opened
        self.read_only = read_only
        self._saving = threading.Lock()

    @property
    def name(self) -> str:
        """What it is called."""
        return self.root.name or str(self.root)

    def entries(self) -> list[FolderEntry]:
        """The scenario files, sorted, and what hides some: a folder that cannot be listed.

        What leads out of the folder is left out, and so are pipes and the like: they are no files of it.
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
        """A file within, no pipe or folder; or what cannot even be looked at."""
        if not Path(os.path.realpath(place)).is_relative_to(self.root):
            return False
        try:
            return stat.S_ISREG(os.stat(place).st_mode)
        except OSError:
            return True

    def glance(self) -> list[ListedFile]:
        """The files, as a quick look at their texts tells: nothing is checked but whether they can be read."""
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
        """The descriptor of the folder in which a file is, and its name there.

        Links are followed as long as they lead to something within; what becomes a link from then on is not.

        Raises:
            OutsideError: it is not a scenario within the folder.
            OSError: there is no such folder.
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
        """The text of a file that is listed.

        Raises:
            MissingError: it cannot be read; or it is no file within any more.
        """
        if entry.why_not:
            raise MissingError(f"{entry.path}: {entry.why_not}")
        try:
            return self.read(entry.path)
        except OutsideError as error:
            raise MissingError(str(error)) from error

    def read(self, path: str) -> str:
        """The text of a file.

        Raises:
            OutsideError: it is not a scenario within the folder.
            MissingError: there is none, or it cannot be read.
        """
        try:
            with self._beside(path) as (folder, name):
                return decoded(read_regular(name, within=folder), path)
        except OSError as error:
            first, _, rest = path.partition("/")
            if isinstance(error, FileNotFoundError) and first == _SHIPPED.name and not self.only:
                return OpenFolder(_SHIPPED).read(rest)  # as every command takes it
            raise MissingError(f"{path}: cannot read it: {error.strerror}") from error
        except ScenarioError as error:
            raise MissingError(str(error)) from error

    def save(self, path: str, text: str, base_version: str) -> SavedFile:
        """Write a file, whole or not at all, if it is what it was.

        Args:
            base_version: of the text that was changed; empty: there must be no such file.

        Raises:
            OutsideError: it is not a scenario within the folder; or nothing is written here.
            TooLongError: it would not be read again.
            ChangedError: it is another text by now.
            MissingError: its folder is not there, or it cannot be written.
        """
        if self.read_only:
            raise OutsideError(
                "this folder is open for reading only: copy the file to one of yours"
            )
        text = text.lstrip("\ufeff")  # as it will be read
        raw = text.encode()
        if len(raw) > BYTES_MAX:
            raise TooLongError(
                f"{path}: over {BYTES_MAX} bytes is too long for a scenario; nothing was written"
            )
        try:
            with self._saving, self._beside(path) as (folder, name):
                now = _version_now(folder, name, path)
                if now != version_of(text):  # as it is if the answer to the same request was lost
                    _check_version(now, path, base_version)
                    _write(folder, name, raw)
        except OSError as error:
            raise MissingError(
                f"{path}: cannot write it: {error.strerror}; nothing was written"
            ) from error
        return {"path": path, "version": version_of(text)}


def _version_now(folder: int, name: str, path: str) -> str:
    """Of what is in a file; empty: there is none. MissingError: it cannot be read."""
    try:
        return version_of(decoded(read_regular(name, within=folder), path))
    except FileNotFoundError:
        return ""
    except ScenarioError as error:
        raise MissingError(f"{error}; nothing was written") from error


def _check_version(now: str, path: str, base_version: str) -> None:
    """ChangedError: the file is another one."""
    if now == base_version:
        return
    what = "has been changed" if now else "is gone"
    if not base_version:
        what = "is there already"
    raise ChangedError(
        f"{path} {what} meanwhile; nothing was written: look at both, then save again", now
    )


def _write(folder: int, name: str, raw: bytes) -> None:
    """Put a whole file in the place of one that there may be, with its mode."""
    fresh = f".{secrets.token_hex(8)}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    mode = None
    with suppress(FileNotFoundError):
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode & 0o777
    first = 0o666 if mode is None else 0o600  # who may not read the old one opens no new one
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
    """A file that cannot even be read, as one line of a list."""
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
    """The name that a scenario of a folder may have.

    Raises:
        OutsideError: it is no such name.
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
    """Changes with the text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]
