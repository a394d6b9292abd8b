"""Tests of a server that outlives the process that started it, and is restarted after a kill."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import psycopg
import pytest

from twopc.server.binaries import find_binaries
from twopc.server.persistent import LastingServer
from twopc.server.polling import wait_for


@pytest.fixture
def killed() -> Iterator[LastingServer]:
    """Create a server and kill it, so that its `postmaster.pid` is left."""
    with TemporaryDirectory(prefix="twopc-test-") as made:
        Path(made).chmod(0o755)  # the servers' user must enter it
        server = LastingServer.create(Path(made) / "server", {})
        try:
            server.start()
            server.kill()
            yield server
        finally:
            server.remove()


def test_starts_after_a_kill_whose_number_is_a_zombies(killed: LastingServer) -> None:
    """A server starts although the pid in its `postmaster.pid` is that of a zombie.

    Some containers have such processes: their parent has ended, and init does not reap them.
    """
    zombie = find_binaries().run("postgres", "--version", output=subprocess.DEVNULL)
    try:
        wait_for(
            lambda: psutil.Process(zombie.pid).status() == psutil.STATUS_ZOMBIE,
            what="the program to end",
            timeout_s=30,
        )
        pidfile = killed.data / "postmaster.pid"
        _, *others = pidfile.read_text(encoding="utf-8").splitlines(keepends=True)
        pidfile.write_text("".join([f"{zombie.pid}\n", *others]), encoding="utf-8")
        killed.start()
        with psycopg.connect(killed.dsn("postgres")) as connection:
            assert connection.execute("select 1").fetchone() == (1,)
    finally:
        zombie.wait()
