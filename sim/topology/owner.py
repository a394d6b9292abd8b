"""Owners of databases, derived from the databases' names, so that those of a killed run can be found.

A name is ``twopct_<machine><boot>_<pid>_<worker>_<number>``, and a node's database adds ``_<node>``. Pure except
for queries of the operating system for this process's identity and for running processes.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

_HEAD = "twopct"
_NAME = re.compile(
    rf"(?P<topology>{_HEAD}_(?P<machine>[0-9a-f]{{6}})(?P<boot>[0-9a-f]{{6}})_(?P<pid>\d+)_"
    r"(?P<worker>[a-z0-9]+)_\d+)(?:_(?P<node>.+))?\Z"
)
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The process that made a database for a test, or for a scenario."""

    topology: str
    """Name of the topology to which the database belongs."""
    node: str
    machine: str
    boot: str
    """Identifier of the machine's boot, since PIDs are reused after each boot."""
    pid: int

    @property
    def is_gone(self) -> bool:
        """Whether the process has certainly ended. Processes of other machines are assumed to be running."""
        if self.machine != machine():
            return False
        return self.boot != boot() or not _is_running(self.pid)


def prefix(worker: str) -> str:
    """Return the prefix of this process's topology names; `worker` distinguishes processes of one run."""
    plain = re.sub(r"[^a-z0-9]", "", worker.lower()) or "main"
    return f"{_HEAD}_{machine()}{boot()}_{os.getpid()}_{plain}"


def owner_of(database: str) -> Owner | None:
    """Return the owner of a database; None if its name is not of the format of this module."""
    match = _NAME.match(database)
    if match is None or not match["node"]:
        return None
    return Owner(
        topology=match["topology"],
        node=match["node"],
        machine=match["machine"],
        boot=match["boot"],
        pid=int(match["pid"]),
    )


def machine() -> str:
    """Return an identifier of this machine, of six characters."""
    return _short(socket.gethostname())


def boot() -> str:
    """Return an identifier of this machine's last boot, of six characters; a constant where it is not available."""
    try:
        return _short(_BOOT_ID.read_text(encoding="ascii").strip())
    except OSError:
        return "0" * 6


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
