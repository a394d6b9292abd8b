"""The Spark pipeline: ``python -m benchmarks.pipeline``.

``source_ratio`` is rows per second of ``format("twopc")`` on two cores over those of one ADBC connection that reads
the same statement into an Arrow table, without Spark's start-up. ``fold_ratio`` is the speed of the fold over that of
the same fold by DuckDB's ``arg_max`` from the same Parquet files. ``sweep_ratio`` is trials per second of a sweep on
two cores over those of a plain loop in one process. ``memory_growth`` is the peak memory of all processes during
accumulating and folding over that with a tenth of the commands, both with the same heap. ``whole_rate`` is commands
per second of accumulating, folding and auditing in succession; it is measured on request, or with ``--size huge``.

Both sides run in turns. A run is void unless both sides have read the same rows, or have the same result.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from benchmarks.figures import Figure, add_only, median, report, selected, spread
from benchmarks.pipeline_data import filled
from benchmarks.pipeline_whole import accumulated, child, whole
from twopc.sim.spark.archive.manifest import DECODED
from twopc.sim.spark.decode import decoded
from twopc.sim.spark.fold import state_of
from twopc.sim.spark.session import SparkOptions, session
from twopc.sim.spark.source import queries, read
from twopc.sim.spark.source.facts import facts
from twopc.sim.spark.sweep import grid
from twopc.sim.spark.sweep.results import Results, asked
from twopc.sim.spark.sweep.run import sweep
from twopc.sim.spark.sweep.trial import trial


class BenchmarkSize(NamedTuple):
    """The amount of data and the figures of a size."""

    commands: int
    trials: int
    rounds: int
    only: tuple[str, ...]


RATIOS = ("source_ratio", "fold_ratio", "sweep_ratio", "memory_growth")
FIGURES = (*RATIOS, "whole_rate")
SIZES = {
    "full": BenchmarkSize(commands=10_000_000, trials=200, rounds=3, only=RATIOS),
    "quick": BenchmarkSize(commands=2_000_000, trials=60, rounds=1, only=RATIOS),
    "huge": BenchmarkSize(commands=100_000_000, trials=0, rounds=1, only=("whole_rate",)),
}
SCENARIO = "scenarios/stress/agent_outage.twopc.yaml"
SETTINGS = ("workload.for=7500ms", "workload.clients=2")
OPTIONS = SparkOptions(master="local[2]", conf={"spark.sql.shuffle.partitions": "4"})


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that the work takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def same(one: object, other: object, what: str) -> None:
    """Check that two results are equal.

    Raises:
        RuntimeError: they differ, and the run is void.
    """
    if one != other:
        raise RuntimeError(f"void: {what}: {one} and {other}")


# -- reading ---------------------------------------------------------------------------------------


def source(spark: SparkSession, dsn: str, commands: int, rounds: int, started_s: float) -> Figure:
    """Compare the data source with one ADBC connection."""
    import pyarrow.compute as pc
    from adbc_driver_postgresql import dbapi

    upto = facts(dsn).read_to
    query = queries.logged("commands", 1, after=0, upto=upto)

    def ours() -> DataFrame:
        return read(spark, "commands", dsn=dsn, after="0", upto=str(upto), partitions="2")

    def plain() -> Any:
        with dbapi.connect(dsn) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetch_arrow_table()

    sums = [F.count("*"), F.sum("seqno"), F.sum("hashkey"), F.sum(F.length("command"))]
    table = plain()
    by_adbc = (
        table.num_rows, pc.sum(table["seqno"]).as_py(), pc.sum(table["hashkey"]).as_py(),
        pc.sum(pc.utf8_length(table["command"])).as_py(),
    )  # fmt: skip
    del table
    first_s = timed(lambda: same(tuple(ours().agg(*sums).collect()[0]), by_adbc, "what was read"))
    same(by_adbc[0], commands, "the number of commands")
    mine, theirs = [], []
    for _ in range(rounds):
        theirs.append(timed(plain))
        mine.append(timed(lambda: ours().write.format("noop").mode("overwrite").save()))
    ratios = [there / here for here, there in zip(mine, theirs, strict=True)]
    return Figure(
        name="source_ratio", value=median(ratios), unit="", target=1.0, better="higher",
        detail={
            "rounds": spread(ratios), "ours_rows_s": round(commands / median(mine)),
            "adbc_rows_s": round(commands / median(theirs)), "started_s": round(started_s, 1),
            "first_query_s": round(first_s, 1),
        },
    )  # fmt: skip


# -- folding ---------------------------------------------------------------------------------------

_DUCKDB = """
create or replace table folded as
select key[1] as key,
    arg_max(values[1], order_of) filter (where whole or changed[1]) as id,
    arg_max(values[2], order_of) filter (where whole or changed[2]) as note,
    arg_max(values[3], order_of) filter (where whole or changed[3]) as n
from (
    select key, values, changed, operation <> 'upd' as whole, seqno::hugeint * 1000 + command_id as order_of
    from read_parquet(?)
)
group by key
"""


def fold(spark: SparkSession, dsn: str, commands: int, rounds: int, folder: Path) -> Figure:
    """Compare the fold with DuckDB's, both of the archive's decoded commands; decoding and whole fold in the detail."""
    import duckdb

    archive = accumulated(spark, dsn, folder / "archive")
    files = [str(archive.folder / each.path) for each in archive.manifest.of_table(DECODED)]
    there = duckdb.connect(str(folder / "duck.db"), config={"threads": 2})
    widths = {1: 3}

    def ours() -> DataFrame:
        from twopc.sim.spark.fold.state import _by_key  # only the fold itself

        return _by_key(archive.decoded(spark), widths)

    def value(column: Any) -> Any:
        return F.coalesce(F.length(column), F.lit(0))

    values = [value(F.get("values", F.lit(at))) for at in range(3)]
    n = F.get("values", F.lit(2)).cast("bigint")
    mine_is = tuple(
        ours().agg(F.count("*"), F.sum(values[0] + values[1] + values[2]), F.sum(n)).collect()[0]
    )
    there.execute(_DUCKDB, [files])
    theirs_is = there.execute(
        "select count(*), sum(length(id) + length(note) + length(n))::bigint, sum(n::bigint)::bigint from folded"
    ).fetchone()
    same(mine_is, theirs_is, "what the commands come to")
    mine, theirs, decoding, whole = [], [], [], []
    for _ in range(rounds):
        theirs.append(timed(lambda: there.execute(_DUCKDB, [files])))
        mine.append(timed(lambda: ours().write.format("noop").mode("overwrite").save()))
        made = decoded(archive.commands(spark), archive.manifest.articles)
        decoding.append(timed(partial(_to_nothing, made)))
        with ExitStack() as until:  # nothing persisted in one round remains for the next
            state = state_of(archive, spark, until=until)
            whole.append(timed(partial(_to_nothing, state)))
    there.close()
    ratios = [other / here for here, other in zip(mine, theirs, strict=True)]
    parquet = sum(each.bytes for each in archive.manifest.files())
    return Figure(
        name="fold_ratio", value=median(ratios), unit="", target=0.3, better="higher",
        detail={
            "rounds": spread(ratios), "ours_s": round(median(mine), 1), "duckdb_s": round(median(theirs), 1),
            "state_s": round(median(whole), 1), "decoding_s": round(median(decoding), 1),
            "bytes_a_command": round(parquet / commands, 1),
        },
    )  # fmt: skip


# -- sweeping --------------------------------------------------------------------------------------


def sweeping(spark: SparkSession, trials: int, rounds: int, folder: Path) -> Figure:
    """Compare a sweep over seeds with a plain loop over the same seeds."""
    document = grid.read(SCENARIO)
    (point,) = grid.parse_grid(SETTINGS)
    loaded = grid.with_settings(document, point.settings)
    trial(loaded, 0)  # warms both sides up
    ratios, mine, theirs = [], [], []
    warm = Results(folder / "warm", asked(document, [point], ""), resume=False)
    sweep(spark, document, [point], range(1, 5), warm)
    for number in range(rounds):
        results = Results(folder / f"sweep{number}", asked(document, [point], ""), resume=False)
        seeds = range(1, trials + 1)
        mine.append(timed(lambda r=results, s=seeds: sweep(spark, document, [point], s, r)))  # type: ignore[misc]
        plain: dict[int, object] = {}
        theirs.append(
            timed(lambda p=plain, s=seeds: p.update({each: trial(loaded, each)["history_sha256"] for each in s}))  # type: ignore[misc]
        )  # fmt: skip
        found = {row["seed"]: row["history_sha256"] for row in results.rows()}
        same(found, plain, "the histories of the trials")
        ratios.append(theirs[-1] / mine[-1])
    return Figure(
        name="sweep_ratio", value=median(ratios), unit="", target=1.7, better="higher",
        detail={
            "rounds": spread(ratios), "trials_s": round(trials / median(mine), 2),
            "plain_trials_s": round(trials / median(theirs), 2), "trials": trials,
        },
    )  # fmt: skip


# -- memory ----------------------------------------------------------------------------------------


def peak(process: subprocess.Popen[str]) -> int:
    """Return the peak memory in bytes of a process and its descendants until it ends."""
    most, over = 0, threading.Event()
    root = psutil.Process(process.pid)
    while process.poll() is None:
        held = 0
        try:
            for each in (root, *root.children(recursive=True)):
                try:
                    held += each.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
        except psutil.NoSuchProcess:
            break
        most = max(most, held)
        over.wait(0.05)
    return most


def _to_nothing(frame: DataFrame) -> None:
    """Compute a frame and discard the result."""
    frame.write.format("noop").mode("overwrite").save()


def _child(dsn: str, times: int) -> None:
    """Accumulate and fold this number of times, so that the heap reaches its usual size."""
    options = SparkOptions(master="local[2]", conf={**OPTIONS.conf, "spark.driver.memory": "1g"})
    with session(options) as spark, tempfile.TemporaryDirectory() as directory:
        for number in range(times):
            archive = accumulated(spark, dsn, Path(directory) / f"archive{number}")
            with ExitStack() as until:
                _to_nothing(state_of(archive, spark, until=until))


def memory(dsns: Mapping[int, str]) -> Figure:
    """Return the ratio of the peak memory with all commands to that with a tenth of them."""
    peaks = {}
    for size, dsn in dsns.items():
        times = 3 if size == min(dsns) else 1
        command = [sys.executable, "-m", "benchmarks.pipeline", "--child", json.dumps([dsn, times])]
        process = subprocess.Popen(command, text=True)
        peaks[size] = peak(process)
        if process.wait() != 0:
            raise RuntimeError(f"void: accumulating {size:,} commands has failed")
    small, large = peaks[min(dsns)], peaks[max(dsns)]
    return Figure(
        name="memory_growth",
        value=large / small,
        unit="",
        target=1.5,
        better="lower",
        detail={"mb": f"{small / 1e6:.0f} to {large / 1e6:.0f}", "heap": "1g"},
    )


def measured(only: Sequence[str], commands: int, trials: int, rounds: int) -> list[Figure]:
    """Return the figures requested."""
    found = []
    sizes = (commands // 10, commands) if "memory_growth" in only else (commands,)
    with filled(*sizes) as dsns, tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        if "memory_growth" in only:  # before this process starts a JVM
            found.append(memory(dsns))
        if "whole_rate" in only:
            found.append(whole(dsns[commands], commands))
        if set(only) - {"memory_growth", "whole_rate"}:
            began = time.perf_counter()
            with session(OPTIONS) as spark:
                spark.range(1).count()
                started_s = time.perf_counter() - began
                if "source_ratio" in only:
                    found.append(source(spark, dsns[commands], commands, rounds, started_s))
                if "fold_ratio" in only:
                    found.append(fold(spark, dsns[commands], commands, rounds, folder))
                if "sweep_ratio" in only:
                    found.append(sweeping(spark, trials, rounds, folder))
    return sorted(found, key=lambda each: FIGURES.index(each.name))


def main() -> None:
    """Measure, and report the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--size",
        choices=SIZES,
        default="full",
        help="quick ends in five minutes on two idle cores, huge takes hours",
    )
    parser.add_argument("--commands", type=int, help="in place of the size's; likewise the others")
    parser.add_argument("--trials", type=int)
    parser.add_argument("--rounds", type=int)
    add_only(parser)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--whole", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.whole:
        folder, commands, dsns = json.loads(options.whole)
        child(Path(folder), commands, dsns)
        return
    if options.child:
        _child(*json.loads(options.child))
        return
    size = SIZES[options.size]
    report(
        "Pipeline",
        measured(
            selected(parser, options.only, FIGURES) if options.only else size.only,
            options.commands or size.commands,
            options.trials or size.trials,
            options.rounds or size.rounds,
        ),
    )


if __name__ == "__main__":
    main()
