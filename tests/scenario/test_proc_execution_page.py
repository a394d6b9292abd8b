"""Tests of the page about published routines: it shows what is printed, and names what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from twopc.sim.cli import app

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/proc_execution.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"\(`twopc (run [^`]+)`\)", PAGE)
SHOWN = re.findall(r"```\n( +.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("number", range(2))
def test_timelines_are_those_of_a_run(number, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "100")  # the width of those in the page
    command = re.findall(r'"[^"]*"|\S+', COMMANDS[number])
    printed = CliRunner().invoke(app, [each.strip('"') for each in command]).stdout
    lines = [line.rstrip() for line in printed.splitlines()]
    shown = [line.rstrip() for line in SHOWN[number].splitlines() if line.strip()]
    assert len(shown) > 5
    assert [line for line in shown if line not in lines] == []


def test_files_that_it_names_are_there():
    named = re.findall(r"`((?:tests|benchmarks)/[\w/]+\.py)`", PAGE)
    assert len(named) > 5
    for name in named:
        assert (ROOT / name).exists(), name
    for name in re.findall(r"`(subscriber/test_\w+\.py)`", PAGE):
        assert (ROOT / "tests/proc_execution" / name).exists(), name


def test_every_scenario_is_named():
    for path in (ROOT / "scenarios/proc_execution").glob("*.twopc.yaml"):
        assert path.name.partition(".")[0] in PAGE
