"""A separate cache, and processes that own servers and can be killed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from twopc.server.cache import CACHE_VARIABLE
from twopc.server.polling import wait_for

ROOT = Path(__file__).parents[2]

#: A program that starts a server, prints where it is, and lives until its standard input ends.
OWNER = """
import json, sys
from twopc.server import EmbeddedServer
server = EmbeddedServer.start()
print(json.dumps({"directory": str(server.directory), "lockfile": str(server._run.lockfile),
                  "sockets": str(server.socket_dir),
                  "pid": server.pid, "supervisor": server.supervisor_pid,
                  "dsn": server.dsn("postgres"), "uid": server.directory.stat().st_uid}), flush=True)
sys.stdin.read()
"""


@contextmanager
def temporary_cache() -> Iterator[Path]:
    """Create a path for a cache directory in a place that every user can enter."""
    place = Path(tempfile.mkdtemp(prefix="twopc-test-"))
    place.chmod(0o755)
    cache = place / "cache"
    yield cache
    # The supervisors of servers that were not stopped are still cleaning up.
    wait_for(lambda: not any(cache.glob("runs/*")), what=f"the runs in {cache}", timeout_s=60)
    shutil.rmtree(place)


@pytest.fixture(scope="session")
def session_cache() -> Iterator[Path]:
    """Create a cache directory that no other process uses."""
    with temporary_cache() as cache:
        yield cache


@pytest.fixture
def own_cache(session_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make `session_cache` the cache of this process and its children; no other process sweeps there."""
    monkeypatch.setenv(CACHE_VARIABLE, str(session_cache))
    return session_cache


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Make an empty cache that of this process and its children."""
    with temporary_cache() as cache:
        monkeypatch.setenv(CACHE_VARIABLE, str(cache))
        yield cache


@dataclass(kw_only=True)
class Child:
    """A Python process that prints a line of JSON."""

    process: subprocess.Popen[str]

    def said(self) -> dict[str, Any]:
        """Wait for the line that the process prints, and return it."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            pytest.fail(f"the process ended early: {self.process.stderr.read()}")
        said = json.loads(line)
        assert isinstance(said, dict)
        return said

    def end(self) -> None:
        """End its standard input, and thereby the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.process.kill()
        self.process.wait()


MakeChild = Callable[..., Child]


@pytest.fixture
def make_child() -> Iterator[MakeChild]:
    """Return a function that starts Python processes with a piece of code; they end with the test."""
    children: list[Child] = []

    def make(code: str = OWNER, python: str = sys.executable, **rest: Any) -> Child:
        options: dict[str, Any] = {
            "cwd": ROOT,
            "env": {
                **os.environ,
                "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)]),
            },
            **rest,
        }
        process = subprocess.Popen(
            [python, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        children.append(Child(process=process))
        return children[-1]

    yield make
    for child in children:
        for stream in (child.process.stdin, child.process.stdout, child.process.stderr):
            assert stream is not None
            stream.close()
    for child in children:
        child.process.wait(30)


def wait_until_gone(said: dict[str, Any]) -> None:
    """Wait until nothing is left of a server that its owner has described."""
    paths = [Path(said["directory"]), Path(said["lockfile"]), Path(said["sockets"])]

    def nothing_left() -> bool:
        return not is_alive(said["pid"]) and not any(path.exists() for path in paths)

    wait_for(nothing_left, what=f"{paths} and process {said['pid']} to be gone", timeout_s=60)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False
