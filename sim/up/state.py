"""What is known of a topology that was left running: a file in its folder, which only its owner can read.

It must not know how anything is started.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from twopc.errors import ConfigurationError
from twopc.server.cache import FileLock, cache_directory

_FILE = "state.json"
_FORMAT = 1
_LOCK_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One database."""

    kind: str
    """``publisher``, ``subscriber`` or ``distribution``."""
    server: str
    """Which of the folder's servers it is on."""
    dsn: str = field(repr=False)
    """The administrator's connection string."""
    app_dsn: str = field(repr=False)
    """The application's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A topology that was set up in a folder."""

    folder: Path
    name: str
    """The topology's."""
    source: str
    """What it was made of: a scenario's file, or ``--subscribers N``."""
    nodes: dict[str, Node]

    @property
    def publisher(self) -> str:
        """The Publisher's name."""
        return next(name for name, node in self.nodes.items() if node.kind == "publisher")

    @property
    def subscribers(self) -> tuple[str, ...]:
        """The Subscribers' names."""
        return tuple(name for name, node in self.nodes.items() if node.kind == "subscriber")

    @property
    def servers(self) -> tuple[str, ...]:
        """The servers' names, the Publisher's first."""
        return tuple(dict.fromkeys(node.server for node in self.nodes.values()))

    @property
    def dsns(self) -> dict[str, str]:
        """Administrators' connection strings, by node."""
        return {name: node.dsn for name, node in self.nodes.items()}

    def save(self) -> None:
        """Write it, whole or not at all."""
        text = json.dumps(
            {
                "format": _FORMAT,
                "name": self.name,
                "source": self.source,
                "nodes": {name: asdict(node) for name, node in self.nodes.items()},
            },
            indent=2,
        )
        new = self.folder / f"{_FILE}.new"
        new.touch(mode=0o600)
        new.write_text(text)
        new.replace(self.folder / _FILE)


def default_folder() -> Path:
    """Where a topology is left if nobody says where."""
    return cache_directory("up") / "default"


def load(folder: Path) -> State:
    """What was set up in a folder.

    Raises:
        ConfigurationError: nothing was.
    """
    found = look(folder)
    if found is None:
        raise ConfigurationError(f"nothing was set up in {folder}: `twopc up` first")
    return found


def look(folder: Path) -> State | None:
    """As `load`; None if nothing was set up, or not to its end.

    Raises:
        ConfigurationError: its file cannot be read, or is another version's.
    """
    folder = folder.absolute()
    try:
        known = json.loads((folder / _FILE).read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{folder / _FILE} cannot be read: {error}") from None
    if known.get("format") != _FORMAT:
        raise ConfigurationError(
            f"{folder} was set up by another version: `twopc down --remove` there, and set it up again"
        )
    return State(
        folder=folder,
        name=known["name"],
        source=known["source"],
        nodes={name: Node(**node) for name, node in known["nodes"].items()},
    )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else starts or ends anything in a folder meanwhile; it is made if it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        folder.chmod(0o755)  # the servers are another user's
    lock = FileLock.take(folder / "lock", timeout_s=_LOCK_TIMEOUT_S)
    try:
        yield
    finally:
        lock.release()
