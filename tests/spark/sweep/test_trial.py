"""Tests of single trials and of their summary, without Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram

from twopc.errors import ScenarioError
from twopc.sim.spark.errors import PipelineError
from twopc.sim.spark.sweep import grid, plots, run, summary
from twopc.sim.spark.sweep.grid import Point
from twopc.sim.spark.sweep.results import Results, asked, folder
from twopc.sim.spark.sweep.trial import BROKEN, trial

SMALL = Path(__file__).with_name("small.yaml")
LOST_UPDATE = Path(__file__).parents[3] / "scenarios/immediate/lost_update.twopc.yaml"


def _row(seed: int, **settings: str) -> dict[str, object]:
    given = [(key.replace("_", "."), value) for key, value in settings.items()]
    return dict(trial(grid.with_settings(grid.read(str(SMALL)), given), seed))


def test_the_same_each_time() -> None:
    """The same seed gives the same row except for the duration; another seed gives another run."""
    one, again, other = _row(1), _row(1), _row(2)
    assert {**one, "wall_s": 0} == {**again, "wall_s": 0}
    assert one["history_sha256"] != other["history_sha256"]
    assert one["verdict"] == "pass"
    assert one["attempts"] == one["committed"] + one["rejected"] + one["errors"] + one["in_doubt"]  # type: ignore[operator]
    assert HdrHistogram.decode(one["commit_hdr"]).get_total_count() == one["committed"]


def test_a_scenario_of_steps() -> None:
    """A scenario of steps has no load: its transactions are counted, and its twins are not played."""
    loaded = grid.with_settings(grid.read(str(LOST_UPDATE)), ())
    row = trial(loaded, 1, order="alice first")
    assert (row["verdict"], row["attempts"], row["committed"], row["rejected"]) == ("pass", 2, 1, 1)
    assert row["commit_hdr"] is None


def test_a_trial_that_breaks_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trial that raises an exception is a row without a verdict about the scenario."""

    def fails(*_: object) -> None:
        raise RuntimeError("the model is broken")

    loaded = grid.with_settings(grid.read(str(SMALL)), ())
    monkeypatch.setattr(
        "twopc.sim.spark.sweep.trial.played", lambda _, work: (work.close(), fails())
    )
    row = trial(loaded, 1)
    assert (row["verdict"], row["failure"]) == (BROKEN, "RuntimeError: the model is broken")
    found = summary.summarised([Point(0, ())], [{**row, "point": 0, "parameters": "{}", "repro": ""}])  # fmt: skip
    assert found.exit_code == 70


def _results(tmp_path: Path, points: list[Point], *, resume: bool = False) -> Results:
    return Results(tmp_path / "out", asked(grid.read(str(SMALL)), points, ""), resume=resume)


def _table(points: list[Point], seeds: range) -> object:
    """Return the table that an executor makes, from the same function."""
    import pyarrow

    plan = [(point, tuple(seeds)) for point in points]
    numbers = pyarrow.RecordBatch.from_pydict({"id": list(range(len(plan)))})
    found = run._played(
        iter([numbers]), plan=plan, document=grid.read(str(SMALL)), order="", path="out"
    )
    return pyarrow.Table.from_batches(list(found))


def test_what_is_kept_and_told(tmp_path: Path) -> None:
    """Counts are added, percentiles come from merged histograms, and the page needs no network."""
    points = grid.parse_grid(["workload.clients=1,3", "workload.for=200ms"])
    results = _results(tmp_path, points)
    results.add(_table(points, range(1, 3)))  # type: ignore[arg-type]
    again = _results(tmp_path, points, resume=True)
    assert again.finished() == {(point, seed) for point in (0, 1) for seed in (1, 2)}
    found = summary.summarised(points, again.rows(), expected=6)
    assert (found.trials, found.missing, found.exit_code, found.failed) == (4, 2, 0, 0)
    for each in found.points:
        assert each.histograms["commit"].get_total_count() == each.counts["committed"] > 0
    lines = summary.table(found)
    assert lines[0].split()[:3] == ["workload.clients", "workload.for", "trials"]
    assert [line.split()[:3] for line in lines[1:]] == [["1", "200ms", "2"], ["3", "200ms", "2"]]
    pictures = plots.write_plots(found, tmp_path)
    assert [each.name for each in pictures] == ["conflict_rate.png", "commit.png", "in_doubt.png", "throughput.png"]  # fmt: skip
    assert all(each.stat().st_size > 5_000 for each in pictures)
    plots.write_page(found, asked(grid.read(str(SMALL)), points, ""), pictures, tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text(encoding="utf-8")
    assert page.count("data:image/png;base64,") == 4
    assert "http" not in page


def test_a_folder_that_holds_another_sweep(tmp_path: Path) -> None:
    """A folder of another sweep is neither overwritten nor extended."""
    points = grid.parse_grid(["workload.clients=1,3"])
    results = _results(tmp_path, points)
    results = _results(tmp_path, points)  # the first attempt stored nothing
    results.add(_table(points[:1], range(1, 2)))  # type: ignore[arg-type]
    with pytest.raises(ScenarioError, match="holds a sweep already: --resume goes on with it"):
        _results(tmp_path, points)
    with pytest.raises(ScenarioError, match="another sweep"):
        _results(tmp_path, grid.parse_grid(["workload.clients=1,4"]), resume=True)
    changed = tmp_path / "changed.twopc.yaml"
    changed.write_text(SMALL.read_text(encoding="utf-8").replace("20ms", "30ms"), encoding="utf-8")
    other = asked(grid.read(str(changed)), points, "")
    with pytest.raises(ScenarioError, match="the scenario is another one since"):
        Results(tmp_path / "out", other, resume=True)
    wave = tmp_path / "out/results/wave-00001.parquet"
    wave.write_bytes(wave.read_bytes()[:-9])
    with pytest.raises(PipelineError, match="bytes and should have"):
        _results(tmp_path, points, resume=True)


def test_where_a_sweep_goes(tmp_path: Path) -> None:
    """Each sweep gets a new folder; resuming finds the last one of the same sweep."""
    about = asked(grid.read(str(SMALL)), grid.parse_grid(["workload.clients=1,3"]), "")
    first = folder(tmp_path, about, resume=False)
    assert folder(tmp_path, about, resume=True) == first
    first.mkdir()
    second = folder(tmp_path, about, resume=False)
    assert second.name == f"{first.name}-2"
    assert folder(tmp_path, about, resume=True) == first
    second.mkdir()
    assert folder(tmp_path, about, resume=True) == second
