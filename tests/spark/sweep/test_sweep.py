"""Tests of sweeps on Spark, and of the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.spark.sweep.test_trial import SMALL
from twopc.sim.spark.sweep import grid, run
from twopc.sim.spark.sweep.results import Results, asked
from twopc.sim.spark.sweep.trial import trial

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_executors_play_what_the_driver_would(spark: SparkSession, tmp_path: Path) -> None:
    """An executor's history equals the driver's for the same seed; finished trials are kept."""
    document = grid.read(str(SMALL))
    points = grid.parse_grid(["workload.clients=1,2", "workload.for=200ms"])
    results = Results(tmp_path / "out", asked(document, points, ""), resume=False)
    run.sweep(spark, document, points, range(1, 3), results)
    rows = {(row["point"], row["seed"]): row for row in results.rows()}
    assert sorted(rows) == [(0, 1), (0, 2), (1, 1), (1, 2)]
    for (point, seed), row in rows.items():
        loaded = grid.with_settings(document, points[point].settings)
        assert row["history_sha256"] == trial(loaded, seed)["history_sha256"]
    before = (tmp_path / "out/results/wave-00001.parquet").stat().st_mtime_ns
    again = Results(tmp_path / "out", asked(document, points, ""), resume=True)
    run.sweep(spark, document, points, range(1, 4), again)
    assert len(list(again.rows())) == len(again.finished()) == 6
    assert (tmp_path / "out/results/wave-00001.parquet").stat().st_mtime_ns == before


def test_a_trial_that_fails_can_be_played_again(spark: SparkSession, tmp_path: Path) -> None:
    """The command that is reported with a failed trial fails in the same way."""
    file = tmp_path / "bound.twopc.yaml"
    file.write_text(
        SMALL.read_text(encoding="utf-8").replace("committed.count > 0", "committed.count > 10000"),
        encoding="utf-8",
    )
    document = grid.read(str(file))
    points = grid.parse_grid(["workload.clients=2", "workload.for=250ms"])
    results = Results(tmp_path / "out", asked(document, points, ""), resume=False)
    run.sweep(spark, document, points, range(7, 8), results)
    (row,) = results.rows()
    assert (row["verdict"], row["kind"]) == ("fail", "threshold")
    assert "committed.count > 10000" in row["failure"]
    (written,) = run.write_repro(document, points, results)
    assert row["repro"] == f"twopc run {written} --on model --seed 7"
    done = subprocess.run(
        [sys.executable, "-m", "twopc.sim", *row["repro"].split()[1:], "--json", "--out", str(tmp_path / "runs")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 7, done.stderr
    assert json.loads(done.stdout)["first_failure"]["message"] == row["failure"]


def test_killed_and_resumed(spark: SparkSession, tmp_path: Path) -> None:
    """A sweep that was killed between waves is continued by ``--resume``."""
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "twopc.sim", "sweep", str(SMALL), "--set", "workload.clients=1,2,3",
        "--set", "workload.for=200ms", "--seeds", "1..4", "--out", str(out), "--no-plots",
        "--progress", "json", "--master", "local[1]", "--conf", "spark.driver.memory=1g",
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    assert process.stderr is not None
    for line in process.stderr:  # one wave is stored, and the next one runs
        if '"event": "sweep"' in line and json.loads(line)["done"] > 0:
            break
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    document = grid.read(str(SMALL))
    points = grid.parse_grid(["workload.clients=1,2,3", "workload.for=200ms"])
    results = Results(out, asked(document, points, ""), resume=True)
    kept = results.finished()
    assert 0 < len(kept) < 12
    run.sweep(spark, document, points, range(1, 5), results)
    rows = [(row["point"], row["seed"]) for row in results.rows()]
    assert sorted(rows) == sorted({(point, seed) for point in range(3) for seed in range(1, 5)})
    assert set(rows[: len(kept)]) == kept
