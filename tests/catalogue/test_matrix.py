"""Tests of the table of conflicts: how it is made from a run, and that the README's is correct."""

from __future__ import annotations

from pathlib import Path

import pytest

from twopc.errors import ScenarioError
from twopc.sim.cli.matrix import BEGIN, END, inserted, outcome, rows, table
from twopc.sim.report.history import HistoryRecord
from twopc.sim.scenario.check import load
from twopc.sim.scenario.postgres_theatre import PostgresTheatre

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
LOST_UPDATE = "scenarios/immediate/lost_update.twopc.yaml"


def shown() -> list[str]:
    """Return the lines of the table in the README."""
    text = README.read_text(encoding="utf-8")
    return text.partition(BEGIN)[2].partition(END)[0].strip().splitlines()


async def test_a_row_of_the_readme_is_what_happens(server, monkeypatch) -> None:
    monkeypatch.chdir(ROOT)
    async with PostgresTheatre(server=server) as theatre:
        played_rows = await rows(load(LOST_UPDATE), theatre)

    head, line, *played = table(played_rows).splitlines()
    assert shown()[:2] == [head, line]
    first = next(place for place, text in enumerate(shown()) if LOST_UPDATE in text)
    assert shown()[first : first + len(played)] == played


def test_every_conflict_is_in_the_readme() -> None:
    paths = sorted((ROOT / "scenarios").rglob("*.twopc.yaml"))
    conflicts = [path for path in paths if "conflict" in load(path).scenario.tags]

    assert len(conflicts) >= 10
    for path in conflicts:
        assert any(f"({path.relative_to(ROOT).as_posix()})" in line for line in shown()), path


def record(kind: str, **fields) -> HistoryRecord:
    return HistoryRecord(
        **{"seq": 1, "t_us": 1, "kind": kind, "session": "bob", "step": "b_write", **fields}
    )


@pytest.mark.parametrize(
    ("records", "became"),
    [
        ([record("ok")], "ok"),
        ([record("rejected", conflict={"kind": "row_missing"}, sqlstate="40001")], "row_missing"),
        ([record("error", sqlstate="P0001")], "P0001"),
        ([record("blocked"), record("ok")], "⧗ ok"),
        ([record("blocked"), record("rejected", conflict={"kind": "row_missing"})], "⧗ row_missing"),
        ([record("blocked", step="other"), record("error", sqlstate="P0001")], "P0001"),
        ([record("blocked"), record("stuck")], "no end"),
        ([record("error", session="", step="sync #1", sqlstate="23505")], "ok"),
    ],
)  # fmt: skip
def test_what_became_of_the_change_that_lost(records, became) -> None:
    assert outcome(records) == became


def test_it_stands_between_its_marks() -> None:
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"

    assert inserted(page, "new\n") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
    with pytest.raises(ScenarioError, match="the file needs a line <!-- twopc matrix -->"):
        inserted("nothing", "new\n")
