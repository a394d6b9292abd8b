"""The folder that was opened: which scenario files it has, and the only place where one is written.

Paths are relative to it, with ``/``; nothing outside of it is read or written, whatever links lead there.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from contextlib import suppress
from pathlib import Path, PurePosixPath

import twopc
from twopc.errors import ConfigurationError
from twopc.sim.explore.wire import ListedFile, SavedFile

SUFFIX = ".twopc.yaml"
_BYTES_MAX = 1_000_000
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


class OpenFolder:
    """A folder of scenarios.

    Args:
        opened: the folder, or the one file of it that is shown.
        read_only: nothing is written.
    """

    def __init__(self, opened: Path, *, read_only: bool = False) -> None:
        opened = opened.resolve()
        self.only = opened.name if opened.is_file() else ""
        self.root = opened.parent if self.only else opened
        self.read_only = read_only

    @property
    def name(self) -> str:
        """What it is called."""
        return self.root.name or str(self.root)

    def paths(self) -> list[str]:
        """The scenario files, sorted."""
        if self.only:
            return [self.only]
        results = []
        for folder, folders, files in os.walk(self.root):
            folders[:] = sorted(each for each in folders if not each.startswith("."))
            results += [
                place.relative_to(self.root).as_posix()
                for place in (Path(folder, name) for name in files)
                if self._is_listed(place)
            ]
        return sorted(results)

    def glance(self) -> list[ListedFile]:
        """The files, as a quick look at their texts tells: nothing is checked."""
        return [self._glance(path) for path in self.paths()]

    def _glance(self, path: str) -> ListedFile:
        try:
            text = self.read(path)
        except ConfigurationError:
            text = ""
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

    def _is_inside(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self.root)

    def _is_listed(self, path: Path) -> bool:
        """A file, not a pipe or a socket, which would keep whoever reads it waiting."""
        return path.name.endswith(SUFFIX) and self._is_inside(path) and path.is_file()

    def place(self, path: str) -> Path:
        """Where a file is.

        Raises:
            OutsideError: it is not a scenario within the folder.
        """
        place = self.root / checked_name(path)
        if self.only and path != self.only:
            raise OutsideError(f"only {self.only} was opened, not {path!r}: open its folder")
        if not self._is_inside(place):
            raise OutsideError(
                f"{path!r} leads out of the folder, so it is neither read nor written"
            )
        return place

    def read(self, path: str) -> str:
        """The text of a file.

        Raises:
            OutsideError: see `place`.
            MissingError: there is none, or it cannot be read.
        """
        place = self.place(path)
        if not place.exists() and path.startswith(f"{_SHIPPED.name}/"):
            place = _SHIPPED.parent / path  # as every command takes it
        if place.exists() and not place.is_file():
            raise MissingError(f"{path}: it is no regular file")
        try:
            with place.open("rb") as file:
                raw = file.read(_BYTES_MAX + 1)
        except OSError as error:
            raise MissingError(f"{path}: cannot read it: {error.strerror}") from error
        if len(raw) > _BYTES_MAX:
            raise MissingError(f"{path}: over {_BYTES_MAX} bytes is too long for a scenario")
        try:
            return raw.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = raw[: error.start].count(b"\n") + 1
            raise MissingError(f"{path}:{line}: it is not UTF-8") from error

    def save(self, path: str, text: str, base_version: str) -> SavedFile:
        """Write a file, whole or not at all, if it is what it was.

        Args:
            base_version: of the text that was changed; empty: there must be no such file.

        Raises:
            OutsideError: see `place`; or nothing is written here.
            ChangedError: it is another text by now.
            MissingError: its folder is not there, or it cannot be written.
        """
        if self.read_only:
            raise OutsideError(
                "this folder is open for reading only: copy the file to one of yours"
            )
        place = self.place(path)
        now = version_of(self.read(path)) if place.exists() else ""
        if now != base_version:
            what = "has been changed" if now else "is gone"
            if not base_version:
                what = "is there already"
            raise ChangedError(
                f"{path} {what} meanwhile; nothing was written: look at both, then save again", now
            )
        target = place.resolve()
        try:
            descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=".", suffix=".new")
        except OSError as error:
            raise MissingError(f"{path}: cannot write it: {error.strerror}") from error
        try:
            with open(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
            os.chmod(name, mode)
            os.replace(name, target)
        except OSError as error:
            with suppress(OSError):
                os.unlink(name)
            raise MissingError(f"{path}: cannot write it: {error.strerror}") from error
        return {"path": path, "version": version_of(text)}


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


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
