"""A server that outlives its starter, opened again after it was killed."""

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
    """One that ran, and was killed: its `postmaster.pid` stays."""
    with TemporaryDirectory(prefix="twopc-test-") as made:
        Path(made).chmod(0o755)  # the servers' user enters
        server = LastingServer.create(Path(made) / "server", {})
        try:
            server.start()
            server.kill()
            yield server
        finally:
            server.remove()


def test_starts_after_a_kill_whose_number_is_a_zombies(killed: LastingServer) -> None:
    """Whose parent has ended and whom nobody reaps, as init does in some containers."""
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
