"""Tests of simulating an archived load again by Spark's tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from twopc.sim.report.history import HistoryRecord
from twopc.sim.spark.archive import Archive, writer
from twopc.sim.spark.archive.histories import add_history
from twopc.sim.spark.replay.rows import NothingError
from twopc.sim.spark.replay.simulation import ModelOptions, onto_model, recorded_run, scenario_of
from twopc.sim.spark.source.facts import Publisher
from twopc.sim.spark.source.histories import record_of
from twopc.sim.spark.sweep import grid
from twopc.sim.spark.sweep.trial import simulated

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

SMALL = Path(__file__).parents[1] / "sweep/small.yaml"
PUBLISHER = Publisher(name="office", database="office", number=1, slot="s", distribution="1/2")


def test_a_load_is_simulated_again(spark: SparkSession, tmp_path: Path) -> None:
    """Unchanged settings give the same result; with rare deliveries and two seeds, differences are named."""
    document = grid.read(str(SMALL))
    was, records = simulated(grid.with_settings(document, ()), 3, load_seed=4)
    file = tmp_path / "small/run-4/history.jsonl"
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"{each.line()}\n" for each in records), encoding="utf-8")
    archive = Archive.create(tmp_path / "archive", PUBLISHER)
    with pytest.raises(NothingError, match="none: add them by twopc accumulate --history"):
        recorded_run(archive, "")
    with writer(archive) as held:
        (added,) = add_history(held, spark, file)
        archive = added.archive

    run = recorded_run(archive, "")
    assert run == "small/run-4"
    assert scenario_of(archive, spark, run).samefile(SMALL)
    kept = archive.history(spark, run=run).where("kind <> 'header'").orderBy("seq").collect()
    of_loads = [each for each in records if each.kind in ("ok", "rejected", "load", "state")]
    read = {each["seq"]: HistoryRecord.parse(record_of(each.asDict()).line()) for each in kept}
    assert [read[each.seq] for each in of_loads] == [
        HistoryRecord.parse(each.line()) for each in of_loads
    ]

    report = onto_model(archive, spark, ModelOptions(run=run, document=document))
    assert report.shown(10) == []
    assert report.classes == {"outcome": 0, "state": 0}
    told = report.figures
    for name in ("committed", "rejected", "attempts"):
        assert told["simulated"][name] == told["recorded"][name] == was[name]

    changed = ModelOptions(
        run=run, document=document, settings=[("workload.sync", "400ms")], seeds=(1, 2), subscribers=3
    )  # fmt: skip
    report = onto_model(archive, spark, changed)
    assert (report.counts["trials"], report.unexamined) == (2, [])
    assert len(found := report.shown(1000)) == report.total > 0
    assert {each["call"][-6:] for each in found} == {"seed 1", "seed 2"}
    assert report.figures["simulated"]["settings"]["topology.subscribers"].count('"') == 6
    assert "simulated  2" in report.lines(limit=0)[2]
    with pytest.raises(NothingError, match="no load 'another': say which by --order: load"):
        onto_model(archive, spark, ModelOptions(run=run, document=document, order="another"))
