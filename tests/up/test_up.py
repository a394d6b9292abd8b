"""`twopc up`, `watch` and `down`, as a person types them; what they leave survives everything."""

from __future__ import annotations

import os
import pty
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from sim.up import State, load
from sim.up.keeping import server_of
from sim.up.parts import running
from tests.any_client.test_programs import program
from tests.cli.test_operate import ROOT, twopc
from tests.up.conftest import wait_until_equal
from twopc.server.waiting import wait_for

UPDATE = "update account set balance = balance + 1 where id = 1"


@pytest.fixture
def state(place: Path) -> Iterator[State]:
    """Two Subscribers, each with a server of its own."""
    done = twopc("up", "--subscribers", "2", "--each", "--state", str(place))
    assert done.returncode == 0, done.stderr
    yield load(place)
    gone = twopc("down", "--remove", "--state", str(place))
    assert gone.returncode == 0, gone.stderr
    assert not place.exists()


def write(state: State, node: str, *statements: str) -> None:
    """An ordinary client at a node."""
    with psycopg.connect(state.nodes[node].app_dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def balance(state: State, node: str) -> int:
    """Of the first account."""
    with psycopg.connect(state.nodes[node].app_dsn) as connection:
        row = connection.execute("select balance from account where id = 1").fetchone()
    assert row is not None
    return int(row[0])


class Screen:
    """`twopc watch` at a terminal."""

    def __init__(self, place: Path) -> None:
        self._mine, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sim", "watch", "--every", "0.1", "--state", str(place)],
            cwd=ROOT,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "COLUMNS": "120", "LINES": "40", "TERM": "xterm"},
        )
        os.close(theirs)
        self.text = ""

    def until(self, *words: str) -> None:
        """Read on until all of them were shown since the last time."""
        seen = ""

        def shown() -> bool:
            nonlocal seen
            ready, _, _ = select.select([self._mine], [], [], 0.1)
            if ready:
                seen += os.read(self._mine, 65536).decode(errors="replace")
            return all(word in seen for word in words)

        try:
            wait_for(shown, what=f"{words} on the screen", timeout_s=60)
        except TimeoutError:
            raise AssertionError(f"no {words} in {seen[-3000:]}") from None

    def close(self) -> int:
        """Ctrl-C."""
        self._process.send_signal(signal.SIGINT)
        while True:
            try:
                if not os.read(self._mine, 65536):
                    break
            except OSError:  # the other end is closed
                break
        os.close(self._mine)
        return self._process.wait(60)


def test_all_of_it(state: State, place: Path) -> None:
    """A change arrives everywhere; conflicts, waits, what does not run are on the screen; kill -9 of everything."""
    again = twopc("up", "--state", str(place))
    assert again.returncode == 0
    for name in ("pub", "sub1", "sub2"):
        assert f"  {name:4}  " in again.stdout
    assert again.stdout.count("psql 'postgresql://") == 3
    assert len(running(place)) == 5
    other = twopc("up", "--subscribers", "3", "--state", str(place))
    assert (other.returncode, "twopc down --remove" in other.stderr) == (4, True)

    write(state, "sub1", UPDATE)
    wait_until_equal(state)
    assert balance(state, "sub2") == 101

    screen = Screen(place)
    screen.until("sub1", "sub2", "in doubt: none")
    with psycopg.connect(state.nodes["sub1"].app_dsn) as holder:
        holder.execute(UPDATE.encode())
        waiting = subprocess.Popen(
            [program("psql"), "-X", "-c", UPDATE, state.nodes["sub2"].app_dsn],
            stderr=subprocess.PIPE,
            text=True,
        )
        screen.until("blocked: 1", "of sub2")
    assert '"kind" : "version_mismatch"' in waiting.communicate(timeout=60)[1]
    screen.until("conflicts: 1", "version_mismatch", 'account {"id": 1}')

    for process in running(place).values():
        process.kill()
    for name in state.servers:
        server_of(state, name).kill()
    screen.until("does not run", "server of pub", "resolver")
    screen.close()

    assert twopc("up", "--state", str(place)).returncode == 0
    wait_until_equal(state)
    assert balance(state, "sub2") == 102
    write(state, "sub2", UPDATE)
    wait_until_equal(state)

    down = twopc("down", "--state", str(place))
    assert (down.returncode, down.stderr) == (0, "")
    assert not running(place)
    assert all(server_of(state, name).pid is None for name in state.servers)
    nodes = twopc("up", "--nodes", "--state", str(place)).stdout
    assert nodes.count("--node '") == 4
    assert twopc("up", "--state", str(place)).returncode == 0
    assert balance(state, "sub1") == 103


def test_mistakes(tmp_path: Path) -> None:
    """Nothing was set up; a folder of somebody else's is not removed; two sources."""
    for command in ("down", "watch"):
        done = twopc(command, "--state", str(tmp_path / "none"))
        assert (done.returncode, "`twopc up` first" in done.stderr) == (4, True)
    done = twopc("down", "--remove", "--state", str(tmp_path))
    assert (done.returncode, "no folder of ours" in done.stderr) == (4, True)
    assert twopc("up", "x.twopc.yaml", "--subscribers", "2").returncode == 2
