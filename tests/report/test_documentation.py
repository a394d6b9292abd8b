"""Tests of docs/reports.md: its diagrams are those of a recorded history, and its example runs."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

from tests.report.recorded import first, records
from twopc.errors import KINDS
from twopc.sim.report.causes import because_of
from twopc.sim.report.diagram import diagram, text
from twopc.sim.report.diff import first_difference
from twopc.sim.report.fold import Fold
from twopc.sim.report.history import by_order
from twopc.sim.report.kinds import KINDS_TABLE, markdown
from twopc.sim.report.mermaid import mermaid
from twopc.sim.report.story import story
from twopc.sim.report.verdict import EXIT_CODES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reports.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


def test_the_diagrams_are_those_of_the_program() -> None:
    order = first("lost_update")
    assert ("text", text(diagram(order, 100))) in BLOCKS
    assert ("mermaid", mermaid(order)) in BLOCKS


def test_the_story_the_reason_and_the_difference_are_those_of_the_program() -> None:
    order, failing = first("lost_update"), first("failing")
    assert ("text", "\n".join(story(Fold(order.records))) + "\n") in BLOCKS
    (failure,) = failing.verdict["failures"]
    because, however = because_of(Fold(failing.records), failure)
    told = f"{failure['message']}\n  because  {because}\n  however  {however}\n"
    assert ("text", told) in BLOCKS
    (_, one), (_, other) = by_order(records("lost_update"))
    difference = first_difference(one, other)
    assert difference is not None
    assert ("text", difference.text() + "\n") in BLOCKS


def test_the_kinds_are_those_of_the_program() -> None:
    assert f"<!-- kinds -->\n{markdown()}<!-- /kinds -->" in PAGE
    assert list(KINDS_TABLE) == list(KINDS)


def test_every_kind_of_verdict_is_told() -> None:
    for kind, code in EXIT_CODES.items():
        if kind:
            assert re.search(rf"^\| .*`{kind}`.* \| {code} \|", PAGE, re.MULTILINE), kind


def test_the_example_prints_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    place = next(at for at, (kind, _) in enumerate(BLOCKS) if kind == "python")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(BLOCKS[place][1], "docs/reports.md", "exec"), {})
    assert ("text", printed.getvalue()) == BLOCKS[place + 1]


def test_every_form_is_told() -> None:
    from typer.testing import CliRunner

    from twopc.sim.cli import app

    shown = CliRunner().invoke(app, ["report", "--help"]).stdout
    forms = set(re.findall(r"--\w+", shown)) - {"--order", "--help"}
    assert forms == set(re.findall(r"^\| `(--\w+)`", PAGE, re.MULTILINE))
