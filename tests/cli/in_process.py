"""Run command lines in this process: a new interpreter would import everything again."""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from io import StringIO
from typing import Any

import pytest
import typer

from tests.fix_log import loggers_restored
from twopc.sim.cli import app, main


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a command line."""

    returncode: int
    stdout: str
    stderr: str


def twopc(*words: object) -> Done:
    """Run a command line in the current folder, in a thread if an event loop is running.

    Commands run their own event loops.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(words)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_run, words).result()


@cache
def _commands() -> Any:
    """Build the commands once per process, which takes as long as a command that is refused."""
    return typer.main.get_command(app)


def _run(words: tuple[object, ...]) -> Done:
    out, err, commands = StringIO(), StringIO(), _commands()
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(out),
        redirect_stderr(err),
        loggers_restored(),
    ):
        patch.setattr("typer.main.get_command", lambda _: commands)
        patch.setattr(sys, "argv", ["twopc", *map(str, words)])
        with pytest.raises(SystemExit) as left:
            main()
    return Done(int(left.value.code or 0), out.getvalue(), err.getvalue())
