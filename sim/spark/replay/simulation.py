"""Simulation of a recorded load with other delays, other agents or another number of Subscribers.

The transactions of the load's sessions are played on the model at their planned times; each seed is a trial, played
by one task. The outcome of each transaction, and the final rows, are compared with the recording.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import pyarrow
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias
from pyspark.sql.types import ArrayType, LongType, StructField, StructType

from twopc.sim.replay import loads
from twopc.sim.replay.divergence import Divergence, final_states, of_states
from twopc.sim.report.history import HistoryRecord
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.text import Document
from twopc.sim.spark import shapes
from twopc.sim.spark.archive import Archive
from twopc.sim.spark.archive.calls import of_loads
from twopc.sim.spark.errors import PipelineError
from twopc.sim.spark.replay.report import ReplayReport, counted
from twopc.sim.spark.replay.rows import NothingError
from twopc.sim.spark.session import translated
from twopc.sim.spark.source.histories import record_of
from twopc.sim.spark.sweep.grid import Point, with_settings
from twopc.sim.spark.sweep.summary import PointSummary, aligned
from twopc.sim.spark.sweep.trial import figures, simulated
from twopc.sim.workload.ports import COMMITTED

#: What a task returns of its trial.
_TRIAL = StructType(
    [
        *shapes.TRIALS.fields,
        StructField("transactions", LongType()),
        StructField("divergences", ArrayType(shapes.DIVERGENCES)),
    ]
)
#: Seed that stands for those of the recording.
_AS_RECORDED = -1
_ENDS = ("ok", "rejected", "error", "in_doubt")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """Options of a simulation."""

    run: str
    """The run that recorded the load."""
    document: Document
    """The run's scenario, whole."""
    settings: Sequence[tuple[str, str]] = ()
    """Dotted keys and values, as in a sweep."""
    order: str = ""
    """The load to simulate, if the run has several."""
    subscribers: int = 0
    """Number of Subscribers, to which sessions are assigned in turn. 0: the recorded ones."""
    speed: float = 1.0
    """Multiple of the recorded pace."""
    seeds: Sequence[int] = ()
    """Empty: one trial with the recorded seeds."""


def recorded_run(archive: Archive, name: str) -> str:
    """Return a run whose history the archive has; without a name the only one.

    Raises:
        NothingError: there is no such run, or there are several and no name.
    """
    known = [each.run for each in archive.manifest.histories]
    if name in known or (not name and len(known) == 1):
        return name or known[0]
    there = ", ".join(known) or "none: add them by twopc accumulate --history"
    asked = f"no run {name!r}" if name or not known else f"{len(known)} runs: say which by --run"
    raise NothingError(f"{archive.name} has {asked}; runs are {there}")


def scenario_of(archive: Archive, spark: SparkSession, run: str) -> Path:
    """Return the scenario file that a run has played.

    Raises:
        PipelineError: the file does not exist.
    """
    header = archive.history(spark, run=run).where("kind = 'header'").select("data").first()
    file = Path(json.loads(header["data"])["file"]) if header is not None else Path()
    if header is None or not file.is_file():
        raise PipelineError(f"the scenario of {run} is not at {file} any more: --scenario FILE")
    return file


def onto_model(archive: Archive, spark: SparkSession, options: ModelOptions) -> ReplayReport:
    """Simulate a recorded load, and compare the results with the recording.

    Raises:
        ArchiveError: there is no such run.
        NothingError: the run has no load with recorded statements, or several.
        ScenarioError: the scenario cannot be played with these settings.
    """
    began = time.perf_counter()
    history = archive.history(spark, run=options.run)
    calls = of_loads(history)
    case = _case(calls, options)
    settings = [*options.settings, *_subscribers(options)]
    with_settings(
        options.document, settings
    )  # so that a mistake is reported here rather than by every task
    own = history.where(F.col("case") == case)
    original = _original(own)
    transactions = _transactions(calls.where(F.col("case") == case))
    seeds = [*options.seeds] or [_AS_RECORDED]
    trials = shapes.frame(spark, [(each,) for each in seeds], shapes.shape("seed bigint"))

    def play(table: pyarrow.Table) -> pyarrow.Table:  # Spark uses these annotations
        return _played(table, options=options, settings=settings, original=original)

    trials = trials.crossJoin(transactions).groupBy("seed").applyInArrow(play, _TRIAL).persist()
    with translated():
        rows = trials.drop("divergences").toArrow().to_pylist()
    result = trials.select(F.inline("divergences"))
    was, then = PointSummary(Point(0, ())), PointSummary(Point(1, tuple(settings)))
    was.take({**figures([original.load]), "verdict": "", "wall_s": 0.0})
    for row in rows:
        then.take(row)
    broken = [f"seed {row['seed']}: {row['failure']}" for row in rows if row["verdict"] == "broken"]
    return ReplayReport(
        after=archive.manifest.first,
        upto=archive.manifest.position,
        counts={"transactions": max(row["transactions"] for row in rows), "trials": len(rows)},
        classes=counted(result, ["outcome", "state"]),
        divergences=result,
        unexamined=[f"a trial broke off, {each}" for each in broken],
        seconds=time.perf_counter() - began,
        remarks=_lines(was, then),
        pace={},
        figures={"recorded": was.as_json(), "simulated": then.as_json()},
    )


def _case(calls: DataFrame, options: ModelOptions) -> str:
    known = sorted(str(row["case"]) for row in calls.select("case").distinct().collect())
    results = [each for each in known if options.order in ("", each)]
    if len(results) == 1:
        return results[0]
    if not known:
        raise NothingError(f"run {options.run} has no load whose statements are recorded")
    asked = f"no load {options.order!r}" if options.order else f"{len(known)} loads"
    raise NothingError(f"run {options.run} has {asked}: say which by --order: {', '.join(known)}")


def _subscribers(options: ModelOptions) -> list[tuple[str, str]]:
    if not options.subscribers:
        return []
    names = list(with_settings(options.document, ()).scenario.topology.subscribers)
    more = (f"further_{number}" for number in range(1, options.subscribers + 1))
    names += [next(more) for _ in range(options.subscribers - len(names))]
    return [("topology.subscribers", json.dumps(names[: options.subscribers]))]


def _original(history: DataFrame) -> Original:
    """Return the records of the recording other than its transactions, all of which are small."""
    kinds = ("drew", "load", "info", "state")
    requested = F.col("kind").isin(*kinds) & F.coalesce(F.col("message") == "stage", F.lit(True))
    final = F.get_json_object("data", "$.moment") == "final"
    rows = history.where(requested & ((F.col("kind") != "state") | final)).orderBy("seq")
    records = [record_of(each.asDict()) for each in rows.collect()]
    if not any(each.kind == "load" for each in records):
        raise NothingError("the run was broken off: its load did not come to an end")
    return Original.of(records)


def _transactions(calls: DataFrame) -> DataFrame:
    """Return a row for each transaction: the statements of its first attempt, and the outcome of its last one."""
    attempts = calls.groupBy("tx", "end_seq").agg(
        *(F.first(each).alias(each) for each in ("session", "node", "step", "due_us", "outcome", "kind")),
        F.transform(
            F.array_sort(F.collect_list(F.struct("call", "sql", "params"))),
            lambda each: F.struct(each["sql"].alias("sql"), each["params"].alias("params")),
        ).alias("statements"),
    )  # fmt: skip
    firsts = ("session", "node", "step", "due_us", "statements")
    return attempts.groupBy("tx").agg(
        *(F.min_by(each, "end_seq").alias(each) for each in firsts),
        *(F.max_by(each, "end_seq").alias(each) for each in ("outcome", "kind")),
    )


def _played(
    table: pyarrow.Table,
    *,
    options: ModelOptions,
    settings: Sequence[tuple[str, str]],
    original: Original,
) -> pyarrow.Table:
    """Play one trial, in a task."""
    rows = table.to_pylist()
    seed = int(rows[0]["seed"])
    loaded = with_settings(options.document, settings)
    row, result = compared(
        loaded,
        rows,
        original,
        seed=None if seed == _AS_RECORDED else seed,
        order=options.order,
        speed=options.speed,
        spread=bool(options.subscribers),
    )
    report = {
        **row,
        "point": 0,
        "parameters": json.dumps(dict(settings), ensure_ascii=False),
        "repro": "",
        "transactions": len(rows),
        "divergences": [each.as_row() for each in result],
    }
    return pyarrow.Table.from_pylist([report], schema=shapes.arrow_schema(_TRIAL))


def _lines(was: PointSummary, then: PointSummary) -> list[str]:
    """Return the figures of recording and simulation, in columns."""
    heads = ["", "trials", "committed", "refused", "errors", "in doubt", "commit p50", "p99", "committed/s"]  # fmt: skip
    table = [heads]
    for name, each in (("recorded", was), ("simulated", then)):
        table.append(
            [
                name, str(each.trials), f"{each.counts['committed']:,}", f"{each.counts['rejected']:,}",
                f"{each.counts['errors']:,}", f"{each.counts['in_doubt']:,}",
                each.shown_ms("commit", 50), each.shown_ms("commit", 99), each.shown_rate(),
            ]
        )  # fmt: skip
    return [f"  {line}" for line in aligned(table)]


# -- one trial -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Original:
    """The records of a recording other than its transactions."""

    load: HistoryRecord
    """Summary of the recorded load."""
    load_seed: int | None
    """Seed from which the load was drawn."""
    model_seed: int | None
    """Seed of the model, if the load was played there."""
    states: tuple[HistoryRecord, ...]
    """Final states of the tables."""

    @classmethod
    def of(cls, records: Sequence[HistoryRecord]) -> Self:
        """Create the value from a history's records, in their order."""
        by_kind: dict[str, HistoryRecord] = {each.kind: each for each in records}

        def seed(kind: str) -> int | None:
            record = by_kind.get(kind)
            results = (record.data or {}).get("seed") if record is not None else None
            return None if results is None else int(results)

        return cls(
            load=by_kind["load"],
            load_seed=seed("drew"),
            model_seed=seed("info"),
            states=tuple(final_states(records)),
        )


def compared(
    loaded: LoadedScenario,
    transactions: Sequence[Mapping[str, Any]],
    original: Original,
    *,
    seed: int | None,
    order: str = "",
    speed: float = 1.0,
    spread: bool = False,
) -> tuple[Mapping[str, Any], list[Divergence]]:
    """Simulate the transactions, and compare the results with the recording.

    Args:
        transactions: with `tx`, `session`, `node`, `step`, `due_us`, `statements` (`sql` and `params`, JSON text),
            and how each ended: `outcome`, `kind`.
        seed: None: the recorded seeds.
        spread: whether sessions are assigned in turn to the scenario's Subscribers, wherever they were.

    Returns:
        A row of `shapes.TRIALS`, and the divergences.
    """
    topology = loaded.scenario.topology
    calls = [
        {**each, "statements": [(made["sql"], json.loads(made["params"] or "{}")) for made in each["statements"]]}
        for each in transactions
    ]  # fmt: skip
    recording = loads.begun(calls, speed=speed)
    if spread:
        recording = loads.redistributed(recording, topology.subscribers, topology.publisher)
    model_seed, load_seed = seed, seed
    if seed is None:
        load_seed = original.load_seed or 0
        model_seed = load_seed if original.model_seed is None else original.model_seed
    row, records = simulated(
        loaded, model_seed or 0, order=order, load_seed=load_seed, recording=recording
    )
    results = [*_outcomes(transactions, records), *of_states(original.states, records)]
    which = f", seed {seed}" if seed is not None else ""
    return row, [replace(each, call=f"{each.call}{which}") for each in results]


def _outcomes(
    transactions: Sequence[Mapping[str, Any]], records: Sequence[HistoryRecord]
) -> Iterator[Divergence]:
    ended: dict[int, str] = {}
    for record in records:
        if record.kind in _ENDS and "number" in (record.data or {}):
            kind = (record.conflict or {}).get("kind")
            ended[int((record.data or {})["number"])] = _ending(record.kind, kind)
    for each in sorted(transactions, key=lambda each: int(each["tx"])):
        expected = _ending(each["outcome"], each["kind"])
        actual = ended.get(each["tx"], "not ended")
        if actual != expected:
            yield Divergence(
                kind="outcome",
                session=each["session"],
                call=f"transaction {each['tx']} ({each['step']})",
                expected=expected,
                actual=actual,
            )


def _ending(outcome: str, kind: str | None) -> str:
    if outcome == COMMITTED:
        return "committed"
    return f"{outcome}: {kind}" if kind else outcome
