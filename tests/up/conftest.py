"""A folder for a topology that is left running, and a wait until its sites agree."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import psycopg
import pytest

from tests.cli.in_process import twopc as run_command
from twopc.server.embedded_server import free_port
from twopc.server.polling import wait_for
from twopc.sim.up import State, load

PREPARED = "select count(*) from pg_prepared_xacts where database = current_database()"
ROWS = "select md5(string_agg(t::text, ' ' order by id)) from account as t"


@contextmanager
def _folder() -> Iterator[Path]:
    """Yield a folder that the servers' user can enter; pytest's folders admit their owner only."""
    with TemporaryDirectory(prefix="twopc-test-") as made:
        Path(made).chmod(0o755)
        yield Path(made) / "Ada's state"  # commands that are printed for a shell quote it


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for one test."""
    with _folder() as made:
        yield made


Command = Callable[..., tuple[int, str, str]]


def _command(place: Path) -> Command:
    """Return a function that runs a command line on a folder."""

    def run(*words: str) -> tuple[int, str, str]:
        done = run_command(*words, "--state", str(place))
        return done.returncode, done.stdout, done.stderr

    return run


@pytest.fixture
def twopc(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Run a command line on the test's own folder, and take down what is left there at the end."""
    monkeypatch.setenv("COLUMNS", "80")
    run = _command(place)
    yield run
    assert run("down", "--remove")[0] == 0


class Standing:
    """A topology that is set up once, for all tests that leave it intact.

    It has two Subscribers, each with a server of its own, and metrics.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._run = _command(place)

    def state(self) -> State:
        """Return the state of the topology, which runs with metrics."""
        first = [] if self._place.exists() else ["-s", "2", "--each"]
        code, _, err = self._run("up", *first)
        assert code == 0, err
        state = load(self._place)
        if state.metrics_port is None:
            code, _, err = self._run("up", "--metrics", str(free_port()))
            assert code == 0, err
        return load(self._place)

    def remove(self) -> None:
        """Remove the topology; the next test gets a new one."""
        code, _, err = self._run("down", "--remove")
        assert code == 0, err
        assert not self._place.exists()


@pytest.fixture(scope="session")
def standing() -> Iterator[Standing]:
    """The topology of all tests in this folder."""
    with _folder() as made:
        each = Standing(made)
        yield each
        if made.exists():
            each.remove()


@pytest.fixture
def state(standing: Standing, monkeypatch: pytest.MonkeyPatch) -> State:
    """The state of the running topology, whose sites agree."""
    monkeypatch.setenv("COLUMNS", "80")
    running = standing.state()
    wait_until_equal(running)
    return running


@pytest.fixture
def standing_command(state: State) -> Command:
    """Run a command line on the running topology."""
    return _command(state.folder)


def suspend(process: psutil.Process) -> int:
    """Suspend a process with SIGSTOP, wait until it has stopped, and return its number."""
    process.suspend()
    wait_for(
        lambda: process.status() == psutil.STATUS_STOPPED, what="the process to stop", timeout_s=30
    )
    return process.pid


def wait_until_equal(state: State) -> None:
    """Wait until nothing is prepared and all sites hold the same rows."""

    def asked(node: str, query: str) -> object:
        with psycopg.connect(state.nodes[node].dsn) as connection:
            row = connection.execute(query.encode()).fetchone()
        assert row is not None
        return row[0]

    def equal() -> bool:
        nodes = (state.publisher, *state.subscribers)
        return not any(asked(node, PREPARED) for node in nodes) and (
            len({asked(node, ROWS) for node in nodes}) == 1
        )

    wait_for(equal, what="all sites to be equal", timeout_s=60)
