"""Command lines run in this process, each in an empty folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.cli.shops import NODES, Shop
from tests.fix_log import loggers_restored
from twopc.server import EmbeddedServer
from twopc.sim.cli import main


@dataclass(frozen=True, slots=True)
class Done:
    """What a command line came to."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def twopc(tmp_path, monkeypatch, capsys):
    """Run a command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments) -> Done:
        monkeypatch.setattr(sys, "argv", ["twopc", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        out, err = capsys.readouterr()
        return Done(int(left.value.code or 0), out, err)

    with loggers_restored():
        yield run


@pytest.fixture
def shop(twopc: Any) -> Iterator[Shop]:
    """Nothing of ours is there."""
    with EmbeddedServer.start() as server:
        for name in NODES:
            server.create_database(name)
        made = Shop(server, twopc)
        made.sql("pub", "create table account (id int primary key, balance int not null)")
        made.sql("pub", "insert into account values (1, 100), (2, 100)")
        made.sql("pub", "create table note (id int primary key, text text)")
        made.sql(
            "pub",
            "create procedure double() language sql as 'update account set balance = balance * 2'",
        )
        yield made
