"""The state of a running topology: a file in its folder, readable by the owner only.

Independent of how processes are started.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from psycopg import conninfo

from twopc.errors import ConfigurationError
from twopc.server.cache import FileLock, cache_directory

_FILE = "state.json"
_PASSWORDS = "passwords"
_FORMAT = 1
_ARCHIVE_HOURS = 72.0
_LOCK_TIMEOUT_S = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StateNode:
    """One database."""

    kind: str
    """``publisher``, ``subscriber`` or ``distribution``."""
    server: str
    """Name of its server in the folder."""
    dsn: str = field(repr=False)
    """The administrator's connection string."""
    app_dsn: str = field(repr=False)
    """The application's connection string."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """A topology that was set up in a folder."""

    folder: Path
    name: str
    """Name of the topology."""
    source: str
    """Source of the topology: a scenario's file, or ``--subscribers N``."""
    nodes: dict[str, StateNode]
    metrics_port: int | None = None
    """Port of the metrics; None: metrics are not served."""
    merge_every_s: float | None = None
    """Seconds between two sessions of a merge agent; None: the topology does not use merge replication."""
    archive_hours: float = _ARCHIVE_HOURS
    """How long clean-up waits for an archive that is not appended to."""

    @property
    def merges(self) -> bool:
        """Whether the topology uses merge replication."""
        return self.merge_every_s is not None

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

    def dsns_without_password(self) -> dict[str, str]:
        """Return the connection strings with a password file, in this folder and readable by the owner only, for
        libpq.
        """
        lines, results = [], {}
        for name, dsn in self.dsns.items():
            parts = conninfo.conninfo_to_dict(dsn)
            password = str(parts.pop("password", "") or "")
            fields = [str(parts.get(key) or "*") for key in ("host", "port", "dbname", "user")]
            lines.append(":".join(_escaped(each) for each in (*fields, password)))
            parts["passfile"] = str(self.folder / _PASSWORDS)
            results[name] = conninfo.make_conninfo("", **parts)
        self._write(_PASSWORDS, "\n".join(dict.fromkeys(lines)) + "\n")
        return results

    def save(self) -> None:
        """Write the state atomically."""
        facts = asdict(self)
        del facts["folder"]
        self._write(_FILE, json.dumps({"format": _FORMAT, **facts}, indent=2))

    def _write(self, name: str, text: str) -> None:
        new = self.folder / f"{name}.new"
        new.touch(mode=0o600)
        new.write_text(text, encoding="utf-8")
        new.replace(self.folder / name)


def _escaped(text: str) -> str:
    """Escape a field of a password file."""
    return text.replace("\\", "\\\\").replace(":", "\\:")


def default_folder() -> Path:
    """Return the default folder of a topology."""
    return cache_directory("up") / "default"


def tour_folder() -> Path:
    """Return the default folder of a tour."""
    return default_folder().with_name("tour")


def load(folder: Path) -> State:
    """Return the state of the topology in a folder.

    Raises:
        ConfigurationError: no topology was set up there.
    """
    result = look(folder)
    if result is None:
        raise ConfigurationError(f"nothing was set up in {folder}: `twopc up` first")
    return result


def look(folder: Path) -> State | None:
    """Return the state as `load` does; None if no topology was set up, or not completely.

    Raises:
        ConfigurationError: the file cannot be read, or is of another version.
    """
    folder = folder.absolute()
    try:
        known = json.loads((folder / _FILE).read_text(encoding="utf-8"))
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
        nodes={name: StateNode(**node) for name, node in known["nodes"].items()},
        metrics_port=known.get("metrics_port"),
        merge_every_s=known.get("merge_every_s"),
        archive_hours=known.get("archive_hours", _ARCHIVE_HOURS),
    )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder, which is created if missing, against starts and stops by other processes."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0:
        folder.chmod(0o755)  # the servers run as another user
    lock = FileLock.take(folder / "lock", timeout_s=_LOCK_TIMEOUT_S)
    try:
        yield
    finally:
        lock.release()
