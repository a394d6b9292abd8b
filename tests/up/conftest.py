"""A folder for a topology that is left running, and when its sites agree."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import psycopg
import pytest

from tests.fix_log import loggers_restored
from twopc.server.waiting import wait_for
from twopc.sim.cli import main
from twopc.sim.up import State

PREPARED = "select count(*) from pg_prepared_xacts where database = current_database()"
ROWS = "select md5(string_agg(t::text, ' ' order by id)) from account as t"


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the servers' user can enter; pytest's are its owner's alone."""
    with TemporaryDirectory(prefix="twopc-test-") as made:
        Path(made).chmod(0o755)
        yield Path(made) / "Ada's state"  # what is printed for a shell is quoted for it


Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def twopc(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Command]:
    """Run a command line on the folder; what is left there is taken down in the end."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["twopc", *words, "--state", str(place)])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    with loggers_restored():
        yield run
        assert run("down", "--remove")[0] == 0


def suspend(process: psutil.Process) -> int:
    """Send it SIGSTOP, and wait until it does nothing any more. Returns its number."""
    process.suspend()
    wait_for(
        lambda: process.status() == psutil.STATUS_STOPPED, what="the process to stop", timeout_s=30
    )
    return process.pid


def wait_until_equal(state: State) -> None:
    """Nothing is prepared, and all sites hold the same."""

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
