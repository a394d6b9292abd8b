"""docs/reports.md is true: its diagrams are drawn from a recorded history, its example runs."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from sim.report.diagram import diagram, text
from sim.report.mermaid import mermaid
from tests.report.recorded import first

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


def test_the_diagrams_are_those_of_the_program() -> None:
    order = first("lost_update")
    assert ("text", text(diagram(order, 100))) in BLOCKS
    assert ("mermaid", mermaid(order)) in BLOCKS


def test_the_example_prints_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    place = next(at for at, (kind, _) in enumerate(BLOCKS) if kind == "python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(BLOCKS[place][1], "docs/reports.md", "exec"), {})
    assert ("text", printed.getvalue()) == BLOCKS[place + 1]


def test_every_form_is_told() -> None:
    from typer.testing import CliRunner

    from sim.cli import app

    shown = CliRunner().invoke(app, ["report", "--help"]).stdout
    forms = set(re.findall(r"--\w+", shown)) - {"--order", "--help"}
    assert forms == set(re.findall(r"^\| `(--\w+)`", PAGE, re.MULTILINE))
