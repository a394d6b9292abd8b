"""Tests of ``twopc report`` on recorded histories."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from tests.fix_golden import Golden
from tests.report.recorded import HISTORIES
from twopc.sim.cli import app


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a run that failed, as ``twopc run`` leaves it; its root is the working directory."""
    directory = tmp_path / ".twopc/runs/lost-update/20260101T000000-1"
    directory.mkdir(parents=True)
    shutil.copy(HISTORIES / "failing.jsonl", directory / "history.jsonl")
    (directory.parent / "latest").symlink_to(directory.name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return directory


def report(*arguments: str | Path) -> Result:
    """Run the command, and return its result."""
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_the_whole_run_as_it_was_printed(run: Path, golden: Golden) -> None:
    done = report(run)
    assert done.exit_code == 0
    golden("report/whole_failing.txt", done.stdout)


def test_a_run_is_found_by_its_scenario_too(run: Path) -> None:
    outputs = {
        report(name, "--json").stdout for name in ("lost-update", run, run / "history.jsonl")
    }
    assert len(outputs) == 1
    assert json.loads(outputs.pop())["verdict"] == "fail"


@pytest.mark.parametrize(
    ("form", "begin"),
    [
        ("--html", "<!DOCTYPE html>"),
        ("--mermaid", "### alice first\n\n```mermaid\nsequenceDiagram"),
        ("--junit", "<?xml"),
        ("--json", "{"),
        ("--diagram", "  ✗ alice first"),
    ],
)
def test_each_form_is_printed_or_written(run: Path, form: str, begin: str) -> None:
    printed = report(run, form)
    assert printed.exit_code == 0
    assert printed.stdout.startswith(begin)
    written = report(run, form, "-o", "there")
    assert (written.exit_code, written.stdout, written.stderr) == (0, "", "there\n")
    assert Path("there").read_text(encoding="utf-8") == printed.stdout


def test_one_order(run: Path) -> None:
    done = report(run, "--json", "--order", "alice has finished")
    assert [order["name"] for order in json.loads(done.stdout)["orders"]] == ["alice has finished"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "no history.jsonl in nowhere or"),
        (["lost-update", "--order", "bob"], "there is 'alice first', 'alice has finished'"),
        (["lost-update", "--html", "--json"], "one form at a time: --html or --json"),
    ],
)
def test_what_is_refused(run: Path, arguments: list[str], message: str) -> None:
    done = report(*arguments)
    assert done.exit_code == 2
    assert message in " ".join(done.stderr.split())


def test_it_cannot_be_written(run: Path) -> None:
    done = report(run, "-o", "nowhere/there")
    assert "give another place by -o FILE" in str(done.exception)


def test_a_run_that_was_interrupted_is_shown(run: Path) -> None:
    lines = (run / "history.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (run / "history.jsonl").write_text("".join(lines[:20]) + lines[20][:9], encoding="utf-8")
    done = report(run)
    assert done.exit_code == 0
    assert "the history ends before its verdict" in done.stdout
