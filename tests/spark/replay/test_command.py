"""Tests of the command's error messages."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from twopc.sim.cli import app
from twopc.sim.spark.errors import ArchiveError


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--onto", "rows", "--at", "2026-11-22T22:00:00"], "say the time zone"),
        (["--onto", "rows", "--at", "yesterday"], "write a sequence number as 0/1770488"),
        (["--onto", "rows", "--node", "pub=dbname=x"], "--onto postgres needs nodes"),
        (["--onto", "model", "--speed", "max"], "as fast as can be: write 2x"),
        (
            ["--onto", "postgres", "--node", "a=dbname=b", "--speed", "-1x"],
            "write a factor as 2x, or max",
        ),
        (["--onto", "model", "--timing", "slow"], "write NAME=VALUE"),
        (["--onto", "model", "--seeds", "a..b"], "write them as 1..100"),
        (["--onto", "postgres"], "--onto postgres needs nodes"),
        (["--onto", "rows", "--against", "pub"], "write NAME=DSN"),
    ],
)
def test_wrong_usage(words: list[str], said: str, tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["replay", str(tmp_path), *words])
    assert found.exit_code == 2
    assert said in " ".join(found.output.replace("│", " ").split())


def test_no_archive(tmp_path: Path) -> None:
    """A missing archive is an error before Spark starts."""
    found = CliRunner().invoke(app, ["replay", str(tmp_path), "--onto", "rows"])
    assert isinstance(found.exception, ArchiveError)
    assert "twopc accumulate makes one" in str(found.exception)
