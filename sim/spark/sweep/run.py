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
from twopc.sim.spark.shapes import TRIALS
from twopc.sim.spark.sweep.grid import Point, extending, with_settings
from twopc.sim.spark.sweep.planning import TrialBatch, wave
from twopc.sim.spark.sweep.results import Results
from twopc.sim.spark.sweep.trial import selection, trial

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import SparkSession

#: Told of how many trials are done, and of how many there are.
Listener = Callable[[int, int], None]


def playable(document: Document, points: Sequence[Point], order: str) -> bool:
    """Whether there is anything to be played at each point.

    Raises:
        ScenarioError: a value is refused, or the model cannot play it; with every mistake and its place.
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
    """Play each point with each seed that is not among the results yet.

    What a wave has found is kept before the next begins.

    Args:
        document: the scenario, whole: it travels to the executors, which need no file.
        batch: a task plays so many trials at most.

    Raises:
        PipelineError: Spark cannot go on.
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
    """One job: as many partitions as batches, so nothing is shuffled; task n plays batch n."""
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
    """What a task does: the batches with these numbers. The scenario is read once for each."""
    import pyarrow
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(TRIALS)
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
    """How long a trial takes: what the last wave has shown counts, of a point that was in it."""
    seconds: dict[int, list[float]] = {}
    for point, wall_s in zip(
        result["point"].to_pylist(), result["wall_s"].to_pylist(), strict=True
    ):  # fmt: skip
        seconds.setdefault(point, []).append(wall_s)
    cost_s.update({point: sum(each) / len(each) for point, each in seconds.items()})


# -- doing it again -------------------------------------------------------------------------------


def reproduce(document: Document, point: Point, seed: int, order: str, path: str) -> str:
    """The command that plays a trial again by itself."""
    file = str(Path(path) / "repro" / f"point-{point.number}.twopc.yaml") if point.settings else document.path  # fmt: skip
    command = f"twopc run {shlex.quote(file)} --on model --seed {seed}"
    if order:
        command += f" --order {shlex.quote(order)}"
    has_twin = not point.settings and document.root is not None and "twin" in document.root
    return f"{command} --no-twins" if has_twin else command


def write_repro(document: Document, points: Sequence[Point], results: Results) -> list[Path]:
    """A scenario for each point with values of its own of which a trial did not pass."""
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
