"""Tests of the grid's command: cells by name, in separate processes, and several per strike."""

from __future__ import annotations

import csv
from pathlib import Path

from tests.grid.__main__ import main
from tests.grid.cells import Kind, Place
from tests.grid.jobs import Spec, played, together
from tests.grid.rig import Rig
from tests.grid.rows import EVERY

KIND = Kind()


def spec(point: str, row: str = "M3", fault: str = "the Publisher's server") -> Spec:
    """Return a cell of a transaction that commits."""
    return Spec(kind=KIND, row=row, fault=fault, place=Place(point=point))


def test_every_fault_has_a_name_of_its_own() -> None:
    names = [(fault.row, fault.name) for fault in EVERY]
    assert len(names) == len(set(names))


def test_cells_of_a_servers_death_stand_together() -> None:
    places = [f"point{number}" for number in range(10)]
    alone = spec("elsewhere", "M1", "the coordinator")
    first = Spec(
        kind=KIND, row="M3", fault="the Publisher's server",
        place=Place(point="recovery.begin"), first=Place(point="coordinator.decision_logged"),
    )  # fmt: skip
    groups = together([alone, first, *map(spec, places)])
    assert [len(group) for group in groups] == [1, 1, 8, 2]
    assert [str(one) for group in groups[2:] for one in group] == [str(spec(p)) for p in places]


def test_one_restart_serves_several(rig: Rig) -> None:
    ends = {
        "application.worked": {"aborted"},
        "coordinator.before_prepare(sub1)": {"aborted", "committed"},
        "coordinator.decision_logged": {"committed"},
        "coordinator.after_commit(sub1)": {"committed"},
    }
    results = played(rig, tuple(map(spec, ends)))
    assert [result.broken for result in results] == [()] * 4
    for result, allowed in zip(results, ends.values(), strict=True):
        assert result.outcome in allowed, result.cell


def test_one_cell_is_played_again_by_its_name(tmp_path: Path) -> None:
    name = "M1 the coordinator | presumed_abort, commit | coordinator.decision_logged"
    table, page = tmp_path / "cells.csv", tmp_path / "cells.html"
    assert main(["--cell", name, "-j", "1", "--csv", str(table), "--html", str(page)]) == 0
    with table.open(newline="") as file:
        (cell,) = csv.DictReader(file)
    assert (cell["name"], cell["state"]) == (name, "ok")
    assert cell["command"] == f"python -m tests.grid --cell '{name}'"
    assert "M11 late PREPARE" in page.read_text(encoding="utf-8")
