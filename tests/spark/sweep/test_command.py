"""What the command refuses before Spark is begun."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from sim.cli import app
from sim.cli.exits import exit_code
from tests.spark.sweep.test_trial import SMALL


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
    """Each with its exit code and what is wrong; nothing is left behind."""
    found, text = _run(str(SMALL), *arguments, "--out", str(tmp_path / "out"))
    assert (found, said in text) == (code, True), text
    assert not (tmp_path / "out").exists()
