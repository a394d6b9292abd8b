"""Plays a sweep's trials on Spark, wave by wave."""

from __future__ import annotations

import functools
import gc
import json
import os
import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twopc.sim.scenario.cases import groups
from twopc.sim.scenario.refusals import refuse
from twopc.sim.scenario.text import Document
from twopc.sim.scenario.theatres import TheatreOptions, theatre
from twopc.sim.spark.cores import cores as cores_of
from twopc.sim.spark.session import translated
from twopc.sim.spark.shapes import TRIALS, arrow_schema
from twopc.sim.spark.sweep.grid import Point, extending, with_settings
from twopc.sim.spark.sweep.planning import TrialBatch, wave
from twopc.sim.spark.sweep.results import Results
from twopc.sim.spark.sweep.trial import selection, trial

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

#: Called with the number of finished trials and that of all trials.
Listener = Callable[[int, int], None]


def playable(document: Document, points: Sequence[Point], order: str) -> bool:
    """Return whether there is anything to play at each point.

    Raises:
        ScenarioError: a value is invalid, or the model cannot play it; the message lists every mistake with its
            place.
    """
    possible = theatre("model", TheatreOptions()).capabilities
    for point in points:
        loaded = with_settings(document, point.settings)
        refuse(loaded, possible)
        if not groups(loaded, selection(None, order)):
            return False
    return bool(points)


def sweep(
    spark: SparkSession,
    document: Document,
    points: Sequence[Point],
    seeds: Sequence[int],
    results: Results,
    *,
    order: str = "",
    batch: int = 8,
    listener: Listener | None = None,
) -> None:
    """Play each point with each seed, except for trials whose results are stored already.

    The results of a wave are stored before the next one begins.

    Args:
        document: the scenario, whole: it is sent to the executors, which need no file.
        batch: maximum number of trials per task.

    Raises:
        PipelineError: Spark cannot continue.
    """
    done = results.finished()
    todo = [(each.number, seed) for seed in seeds for each in points]
    requested = len(todo)
    todo = [each for each in todo if each not in done]
    cores = cores_of(spark)
    cost_s: dict[int, float] = {}
    while todo:
        if listener is not None:
            listener(requested - len(todo), requested)
        batches = wave(todo, cost_s, cores=cores, most=batch)
        with translated():
            result = _wave(spark, document, points, batches, order, results.path)
        results.add(result)
        played = set(zip(*(result[name].to_pylist() for name in ("point", "seed")), strict=True))
        todo = [each for each in todo if each not in played]
        _learn(cost_s, result)
    if listener is not None:
        listener(requested, requested)


def _wave(
    spark: SparkSession, document: Document, points: Sequence[Point], batches: Sequence[TrialBatch],
    order: str, path: Path,
) -> pyarrow.Table:  # fmt: skip
    """Play a wave as one job with one partition per batch, so that nothing is shuffled; task n plays batch n."""
    plan = [(points[each.point], each.seeds) for each in batches]
    play = functools.partial(_played, plan=plan, document=document, order=order, path=str(path))
    frame = spark.range(0, len(plan), 1, len(plan)).mapInArrow(play, TRIALS)
    return frame.toArrow()


def _played(
    numbers: Iterator[pyarrow.RecordBatch],
    *,
    plan: Sequence[tuple[Point, Sequence[int]]],
    document: Document,
    order: str,
    path: str,
) -> Iterator[pyarrow.RecordBatch]:
    """Play the batches with these numbers, in a task. The scenario is built once per batch."""
    import pyarrow

    schema = arrow_schema(TRIALS)
    for each in numbers:
        for number in each.column(0).to_pylist():
            point, seeds = plan[number]
            loaded = with_settings(document, point.settings)
            rows = [
                {
                    **trial(loaded, seed, order=order),
                    "point": point.number,
                    "parameters": json.dumps(dict(point.settings), ensure_ascii=False),
                    "repro": reproduce(document, point, seed, order, path),
                }
                for seed in seeds
            ]
            yield pyarrow.RecordBatch.from_pylist(rows, schema=schema)
            gc.collect()  # a trial's machinery refers to itself


def _learn(cost_s: dict[int, float], result: pyarrow.Table) -> None:
    """Update the duration of a trial by the results of the last wave, for the points in it."""
    seconds: dict[int, list[float]] = {}
    for point, wall_s in zip(
        result["point"].to_pylist(), result["wall_s"].to_pylist(), strict=True
    ):  # fmt: skip
        seconds.setdefault(point, []).append(wall_s)
    cost_s.update({point: sum(each) / len(each) for point, each in seconds.items()})


# -- doing it again -------------------------------------------------------------------------------


def reproduce(document: Document, point: Point, seed: int, order: str, path: str) -> str:
    """Return the command that plays one trial again."""
    file = str(Path(path) / "repro" / f"point-{point.number}.twopc.yaml") if point.settings else document.path  # fmt: skip
    command = f"twopc run {shlex.quote(file)} --on model --seed {seed}"
    if order:
        command += f" --order {shlex.quote(order)}"
    has_twin = not point.settings and document.root is not None and "twin" in document.root
    return f"{command} --no-twins" if has_twin else command


def write_repro(document: Document, points: Sequence[Point], results: Results) -> list[Path]:
    """Write a scenario for each point that has values of its own and a trial that did not pass."""
    failed = {row["point"] for row in results.rows(["point", "kind"]) if row["kind"]}
    written = []
    for point in points:
        if point.settings and point.number in failed:
            path = results.path / "repro" / f"point-{point.number}.twopc.yaml"
            path.parent.mkdir(exist_ok=True)
            base = os.path.relpath(document.path, path.parent)
            path.write_text(extending(document, point.settings, base=base), encoding="utf-8")
            written.append(path)
    return written
