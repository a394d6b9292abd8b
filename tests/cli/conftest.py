"""Command lines run in this process, each in an empty folder."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from sim.cli import main
from tests.fix_log import loggers_restored


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
