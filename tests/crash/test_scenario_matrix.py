"""Tests of a scenario's crash matrix: cells from a run without faults, worker processes, and the table."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from twopc.errors import ServerError
from twopc.sim.faults.matrix_page import Square, write_page
from twopc.sim.faults.matrix_pool import ProcessPool

TWOPC = [sys.executable, "-m", "twopc.sim"]
SCENARIO = """
twopc: 1
name: one-transfer
topology: {publisher: pub, subscribers: [sub1], distribution: none, timeouts: {lock: 1s, step: 8s}}
tables:
  account:
    columns: {id: int primary key, balance: int not null}
    rows: [{id: 1, balance: 100}, {id: 2, balance: 100}]
sessions:
  alice:
    node: sub1
    steps:
      - a_begin: begin
      - a_take: {sql: "update account set balance = balance - 10 where id = 1"}
      - a_give: {sql: "update account set balance = balance + 10 where id = 2"}
      - a_end: commit
orders:
  - name: it is transferred
    steps: [a_begin, a_take, a_give, a_end]
expect:
  sum: {table: account, column: balance, equals: TOTAL}
"""


def matrix(tmp_path: Path, total: int, cells: str, *more: str) -> subprocess.CompletedProcess[str]:
    """Play the matching cells of a scenario whose expected total is `total`."""
    file = tmp_path / "transfer.twopc.yaml"
    file.write_text(SCENARIO.replace("TOTAL", str(total)), encoding="utf-8")
    command = [*TWOPC, "run", str(file), "--crash-matrix", "-j", "1", "--cell", cells, *more]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2]), "COLUMNS": "100"}
    return subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.postgres
def test_cells_come_from_a_clean_run(tmp_path: Path) -> None:
    table, shown = tmp_path / "cells.csv", tmp_path / "cells.html"
    done = matrix(
        tmp_path, 200, "commit(pub) | crash coordinator", "--csv", str(table), "--html", str(shown)
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with table.open(newline="") as file:
        cells = list(csv.DictReader(file))
    assert {cell["column"]: (cell["state"], cell["outcome"]) for cell in cells} == {
        f"{point}(pub)": ("ok", "alice in doubt")
        for point in ("coordinator.before_commit", "reply.commit", "coordinator.after_commit")
    }
    assert f"{len(cells)} cells: 0 broken" in done.stdout
    assert "--cell &#x27;" not in shown.read_text(encoding="utf-8")
    assert cells[0]["name"] in shown.read_text(encoding="utf-8")


@pytest.mark.postgres
def test_a_broken_cell_is_told_with_its_command(tmp_path: Path) -> None:
    done = matrix(tmp_path, 7, "coordinator.decision_logged | crash coordinator")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "✗ it is transferred | coordinator.decision_logged | crash coordinator" in done.stdout
    assert "sum: " in done.stdout
    command = "--cell 'it is transferred | coordinator.decision_logged | crash coordinator'"
    assert command in done.stdout


# -- the table -------------------------------------------------------------------------------------


def square(row: str, column: str, state: str, **more: object) -> Square:
    """Return a cell as the page shows it."""
    told = {"outcome": "committed", "seconds": 1.0, "broken": (), "command": "again", **more}
    return Square(row=row, column=column, name=f"{row} | {column}", state=state, **told)  # type: ignore[arg-type]


def test_the_worst_of_a_place_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "matrix.html"
    write_page(
        path,
        title="a matrix <of cells>",
        squares=[
            square("M1", "decided", "ok"),
            square("M1", "decided", "broken", broken=("I1: </script>",)),
            square("M3", "decided", "empty"),
        ],
        seconds=3.2,
        missing=[("M20", "not performed")],
    )
    shown = path.read_text(encoding="utf-8")
    assert "a matrix &lt;of cells&gt;" in shown
    assert (
        '<button class="broken" data-squares="0,1" aria-label="broken">✗<small>2</small>' in shown
    )
    assert '<button class="empty" data-squares="2"' in shown
    assert "3 cells: 1 broken, 1 hold, 1 with nothing to strike; 3 s" in shown
    assert "not performed" in shown
    inside = shown.partition('id="squares">')[2].partition("</script>")[0]
    assert json.loads(inside)[1]["broken"] == ["I1: </script>"]
    assert "http" not in shown, "it needs no network"


# -- processes -------------------------------------------------------------------------------------


def doubled(setup: int, wire: Connection) -> None:
    """Answer each job with the job times the setup; exit at zero."""
    while (job := wire.recv()) is not None:
        if job == 0:
            os._exit(3)
        wire.send(job * setup)


def test_each_job_is_answered_once() -> None:
    with ProcessPool(doubled, 2, 2) as pool:
        assert sorted(pool.results([1, 2, 3, 4, 5])) == [(n, 2 * n) for n in range(1, 6)]
        assert list(pool.results([6])) == [(6, 12)], "the same processes go on"


def test_a_process_that_dies_is_told_of() -> None:
    with ProcessPool(doubled, 2, 1) as pool, pytest.raises(ServerError, match="played 0 has ended"):
        list(pool.results([0]))
