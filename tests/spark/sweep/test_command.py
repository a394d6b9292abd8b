"""Tests of errors that the command reports before Spark starts."""

from __future__ import annotations

import io
import os
import pty
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.spark.sweep.test_trial import SMALL
from twopc.sim.cli import app
from twopc.sim.cli.exits import exit_code
from twopc.sim.cli.sweep import _listener


def _run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["sweep", *arguments])
    code = done.exit_code
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        code = exit_code(done.exception)  # type: ignore[arg-type]
        return code, str(done.exception)
    return code, done.output


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--set", "workload.clientz=1"], 2, "--set:1:1: error: unknown key 'clientz'"),
        (["--set", "workload.clients"], 2, "write KEY=V1,V2"),
        (["--seeds", "x..y"], 2, "write them as 1..100"),
        (["--seeds", "5..4"], 5, "no seeds in 5..4"),
        (["--set", "workload.clients="], 5, "a key without values"),
        (["--order", "nobody"], 5, "no order has the name 'nobody'"),
        (["--conf", "spark.driver.memory"], 2, "write KEY=VALUE"),
    ],
)
def test_mistakes(arguments: list[str], code: int, said: str, tmp_path: Path) -> None:
    """Each mistake has its exit code and message, and leaves nothing behind."""
    found, text = _run(str(SMALL), *arguments, "--out", str(tmp_path / "out"))
    assert (found, said in text) == (code, True), text
    assert not (tmp_path / "out").exists()


def test_progress_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress is one line that is overwritten, and ended; without a terminal there is none."""
    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as screen, os.fdopen(theirs, "w") as terminal:
        monkeypatch.setattr("sys.stderr", terminal)
        listener = _listener("auto")
        assert listener is not None
        listener(1, 1200)
        listener(1200, 1200)
        said = b""
        while not said.endswith(b"\n"):
            said += screen.read(100)
        assert said == b"\r1 of 1,200 trials\r1,200 of 1,200 trials\r\n"
        assert _listener("plain") is None
        monkeypatch.setattr("sys.stderr", io.StringIO())
        assert _listener("auto") is None
