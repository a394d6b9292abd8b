"""`twopc up`, `watch` and `down` on the command line; the topology survives `kill -9`."""

from __future__ import annotations

import asyncio
import os
import pty
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.any_client.test_programs import program
from tests.cli.in_process import twopc
from tests.cli.shops import ROOT
from tests.up.conftest import Standing, wait_until_equal
from twopc.server.polling import wait_for
from twopc.sim.up import State, load
from twopc.sim.up.parts import running
from twopc.sim.up.setup import server_of
from twopc.sim.up.watch import TopologyState, TopologyWatch
from twopc.waits import WAITS_SQL

UPDATE = "update account set balance = balance + 1 where id = 1"
END_OF_WATCHES = (
    "select pg_terminate_backend(pid, 60000) from pg_stat_activity "
    "where datname = current_database() and application_name = 'twopc watch'"
)


def write(state: State, node: str, *statements: str) -> None:
    """Execute statements at a node as an ordinary client."""
    with psycopg.connect(state.nodes[node].app_dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def write_as_administrator(state: State, node: str, statement: str) -> None:
    """Execute a statement at a node as its administrator."""
    with psycopg.connect(state.nodes[node].dsn, autocommit=True) as connection:
        connection.execute(statement.encode())


def balance(state: State, node: str) -> int:
    """Return the balance of the first account."""
    with psycopg.connect(state.nodes[node].app_dsn) as connection:
        row = connection.execute("select balance from account where id = 1").fetchone()
    assert row is not None
    return int(row[0])


class Screen:
    """`twopc watch` at a terminal."""

    def __init__(self, place: Path) -> None:
        self._mine, theirs = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "twopc.sim", "watch", "--every", "0.1", "--state", str(place)],
            cwd=ROOT,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "COLUMNS": "120", "LINES": "40", "TERM": "xterm"},
        )
        os.close(theirs)

    def until(self, *words: str) -> None:
        """Read until all words were shown since the last call."""
        seen = ""

        def shown() -> bool:
            nonlocal seen
            seen += self._read()
            return all(word in seen for word in words)

        try:
            wait_for(shown, what=f"{words} on the screen", timeout_s=60)
        except (TimeoutError, EOFError) as error:
            raise AssertionError(f"no {words}, {error!r}, in {seen[-3000:]}") from None

    def _read(self) -> str:
        """Return the output since the last call; raise EOFError if the process has ended."""
        ready, _, _ = select.select([self._mine], [], [], 0.1)
        try:
            return os.read(self._mine, 65536).decode(errors="replace") if ready else ""
        except OSError:  # the other end is closed
            raise EOFError from None

    def close(self) -> None:
        """End the process with Ctrl-C."""
        self._process.send_signal(signal.SIGINT)

        def ended() -> bool:
            with suppress(EOFError):
                self._read()  # otherwise it could not write
            return self._process.poll() is not None

        try:
            wait_for(ended, what="the screen to end", timeout_s=60)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._mine)


def look_while_a_node_goes(state: State) -> None:
    """Check what is shown of a node that stops answering during a look."""

    class Struck(TopologyWatch):
        async def rows(self, name: str, query: str, params: Any = None) -> list[tuple[Any, ...]]:
            if (name, query) == ("sub1", WAITS_SQL):
                write_as_administrator(state, name, END_OF_WATCHES)
            return await super().rows(name, query, params)

    async def look() -> list[TopologyState]:
        async with Struck(state) as struck:
            first = await struck.look()
        async with TopologyWatch(state) as eyes:
            return [first, await eyes.look()]

    first, second = asyncio.run(look())
    assert [node.name for node in first.nodes if node.error] == ["sub1"]
    assert not any(node.error for node in second.nodes)


@pytest.mark.xdist_group("standing")
def test_all_of_it(state: State) -> None:
    """A change arrives at all nodes; conflicts, waits and dead processes are on the screen.

    After `kill -9` of everything, `up` starts it again.
    """
    place, before = state.folder, balance(state, "sub2")
    again = twopc("up", "--state", str(place))
    assert again.stdout.endswith(f"twopc down --state {shlex.quote(str(place))}\n")
    assert again.returncode == 0
    for name in ("pub", "sub1", "sub2"):
        assert f"  {name:4}  " in again.stdout
    assert again.stdout.count("psql 'postgresql://") == 3
    assert len(running(place)) == 6
    other = twopc("up", "--subscribers", "3", "--state", str(place))
    assert (other.returncode, "twopc down --remove" in other.stderr) == (4, True)

    write(state, "sub1", UPDATE)
    wait_until_equal(state)
    assert balance(state, "sub2") == before + 1

    look_while_a_node_goes(state)
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
    assert balance(state, "sub2") == before + 2


def test_mistakes(tmp_path: Path) -> None:
    """A topology that was not set up, a foreign folder, and two sources are refused."""
    for command in ("down", "watch"):
        done = twopc(command, "--state", str(tmp_path / "none"))
        assert (done.returncode, "`twopc up` first" in done.stderr) == (4, True)
    done = twopc("down", "--remove", "--state", str(tmp_path))
    assert (done.returncode, "no folder of ours" in done.stderr) == (4, True)
    assert twopc("up", "x.twopc.yaml", "--subscribers", "2").returncode == 2


MIXED = """
twopc: 1
name: mixed
topology: {publisher: pub, subscribers: [reader, writer, later]}
subscribers:
  reader: {update: read only, streams: 2, skip_errors: ["20598"]}
  later: {joins: later}
tables:
  account:
    columns: {id: int primary key, balance: int not null}
    rows: [{id: 1, balance: 100}, {id: 2, balance: 100}]
sessions:
  office: {node: pub, steps: [o: {sql: update account set balance = 0}]}
  newcomer: {node: later, steps: [s: subscribe]}
orders: [{name: one, steps: [o, s]}]
"""


def test_not_everybody_writes(place: Path, tmp_path: Path) -> None:
    """A Subscriber may be read-only, with its agent's profile, or not subscribe yet.

    This is the same after `down` and `up`.
    """
    scenario = tmp_path / "mixed.twopc.yaml"
    scenario.write_text(MIXED, encoding="utf-8")
    words = ("up", str(scenario), "--state", str(place))
    # the processes that it leaves running must not hold its pipes
    done = subprocess.run(
        [sys.executable, "-m", "twopc.sim", *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    try:
        parts = {"agent of reader", "agent of writer", "clean up", "log reader", "resolver"}
        assert f"running: {', '.join(sorted(parts))}" in done.stdout
        assert "does not run" not in twopc("watch", "--once", "--state", str(place)).stdout
        state = load(place)
        write_as_administrator(state, "reader", "delete from account where id = 2")
        write(state, "writer", "update account set balance = 1 where id = 2", UPDATE)
        what = "what can be, to arrive"
        wait_for(lambda: balance(state, "reader") == 101, what=what, timeout_s=60)

        down = twopc("down", "--state", str(place))
        assert (down.returncode, down.stderr) == (0, "")
        assert not running(place)
        assert all(server_of(state, name).pid is None for name in state.servers)
        nodes = twopc("up", "--nodes", "--state", str(place)).stdout
        assert nodes.count("--node '") == 5
        assert twopc("up", "--state", str(place)).returncode == 0
        assert twopc("down", "--state", str(place)).returncode == 0
        assert twopc("up", "--state", str(place)).returncode == 0
        assert {str(part) for part in running(place)} == parts
        assert balance(state, "pub") == 101
        write(state, "writer", "update account set balance = 2 where id = 2", UPDATE)
        wait_for(lambda: balance(state, "reader") == 102, what=what, timeout_s=60)
    finally:
        assert twopc("down", "--remove", "--state", str(place)).returncode == 0


def test_more_hours_than_there_are(place: Path) -> None:
    """An excessive number of hours is refused: with it, clean-up could never start again."""
    for words in (("up", "--state", str(place)), ("agent", "clean-up", "--node", "distribution=")):
        done = twopc(*words, "--archive-hours", "1e300")
        assert (done.returncode, done.stdout) == (2, "")
        assert "'--archive-hours': Input should be less than or equal to 87600" in done.stderr
    assert not place.exists()


@pytest.mark.xdist_group("standing")
def test_a_port_for_metrics_that_is_taken(state: State) -> None:
    """If a process beside the servers ends, its message is printed without the error's class."""
    taken = int(conninfo_to_dict(state.nodes[state.publisher].dsn)["port"])
    done = twopc("up", "--metrics", str(taken), "--state", str(state.folder))
    assert done.returncode == 4
    message = (
        f"the metrics has ended: port {taken} for metrics cannot be used: Address already in use"
    )
    assert done.stderr.splitlines()[-1].endswith(message), done.stderr
    assert twopc("up", "--metrics", "0", "--state", str(state.folder)).returncode == 0


@pytest.fixture
def spent(state: State, standing: Standing) -> Iterator[State]:
    """The state of a topology that the test does not leave intact."""
    yield state
    standing.remove()


@pytest.mark.xdist_group("standing")
def test_changed_while_it_runs(spent: State) -> None:
    """Commands find the topology by its folder, and wait for its agents.

    `up` starts the processes that it needs after the changes.
    """

    before = balance(spent, "sub2")

    def does(*words: str) -> str:
        done = twopc(*words, "--state", str(spent.folder))
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    assert "upd SCALL" in does("article", "show")
    write(spent, "sub1", UPDATE)
    does("article", "change", "account", "--upd", "XCALL")
    write(spent, "sub1", UPDATE)
    does("sync")
    assert balance(spent, "sub2") == before + 2
    write_as_administrator(spent, "pub", "create table note (id int primary key)")
    does("publish", "note")
    assert does("refresh").splitlines() == ["sub1: note", "sub2: note"]
    does("unsubscribe", "sub2")
    write(spent, "sub1", "insert into note values (1)")
    does("unsubscribe", "sub1")  # the last one: no log reader is needed
    does("unpublish", "account")
    does("subscribe", "sub2", "--streams", "2")
    does("any-client", "on", "sub2")
    does("up")
    expected = {"agent of sub2", "clean up", "log reader", "resolver"}
    assert {str(part) for part in running(spent.folder)} >= expected
    assert "does not run" not in does("watch", "--once")
    write(spent, "sub2", "insert into note values (2)")
    write_as_administrator(spent, "pub", "insert into note values (3)")
    does("sync")
    with psycopg.connect(spent.nodes["sub2"].app_dsn) as connection:
        assert connection.execute("select id from note order by id").fetchall() == [
            (1,),
            (2,),
            (3,),
        ]
