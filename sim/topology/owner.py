"""Whose databases are these? Told by their names, so that those of a run that was killed are found.

A name is ``twopct_<machine><boot>_<pid>_<worker>_<number>``, and a node's database adds ``_<node>``. Pure but for
asking the operating system who we are and who lives.
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
    """The name of the topology that it belongs to."""
    node: str
    machine: str
    boot: str
    """Which start of the machine; pids are counted anew after each."""
    pid: int

    @property
    def is_gone(self) -> bool:
        """The process surely lives no more. What another machine has made may be in use there."""
        if self.machine != machine():
            return False
        return self.boot != boot() or not _lives(self.pid)


def prefix(worker: str) -> str:
    """What the names of this process's topologies begin with; `worker` tells processes of one run apart."""
    plain = re.sub(r"[^a-z0-9]", "", worker.lower()) or "main"
    return f"{_HEAD}_{machine()}{boot()}_{os.getpid()}_{plain}"


def owner_of(database: str) -> Owner | None:
    """Who made a database; None if nobody here has made it."""
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
    """This machine, in six characters."""
    return _short(socket.gethostname())


def boot() -> str:
    """Its last start, in six characters; always the same where it does not tell."""
    try:
        return _short(_BOOT_ID.read_text(encoding="ascii").strip())
    except OSError:
        return "0" * 6


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:6]


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
