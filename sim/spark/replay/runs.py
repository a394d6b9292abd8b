"""Replay of a run's history: order by order in this process, or by Spark's tasks, with one order per task.

Both carry out the same statements in the same way, and return the same report.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias
from pyspark.sql.types import ArrayType, StructField, StructType

from twopc.errors import ConfigurationError
from twopc.sim.replay.divergence import Divergence
from twopc.sim.replay.runs import OrderReplay, RunReplay, orders_of, replay_order, totals
from twopc.sim.report.history import History, HistoryRecord
from twopc.sim.report.history import read as read_history
from twopc.sim.scenario.text import Document
from twopc.sim.spark import shapes, source
from twopc.sim.spark.errors import PipelineError
from twopc.sim.spark.replay.report import ReplayReport
from twopc.sim.spark.session import translated
from twopc.sim.spark.source import histories
from twopc.sim.spark.source.histories import record_of
from twopc.sim.spark.sweep.grid import read, with_settings

_ORDER_REPLAY = StructType(
    [
        *shapes.shape("order string, seq bigint, transactions bigint, statements bigint"),
        *shapes.shape("classes array<string>, broken string"),
        StructField("divergences", ArrayType(shapes.DIVERGENCES)),
    ]
)
_FIELDS = ("order", "transactions", "statements", "classes")


def log_of(path: Path) -> Path | None:
    """Return the history of a path to a file or to a run's folder; None if there is no such file.

    Raises:
        PipelineError: the history cannot be read.
    """
    file = path / "history.jsonl" if path.is_dir() else path
    if not file.is_file():
        return None
    histories.check(file)
    return file


def scenario_of(header: HistoryRecord, file: Path | None = None) -> Document:
    """Return the whole scenario of a run.

    Args:
        file: the scenario's file, if it has been moved.

    Raises:
        PipelineError: the file does not exist.
        ScenarioError: the scenario cannot be played.
    """
    result = file or Path(str((header.data or {}).get("file", "")))
    if not result.is_file():
        raise PipelineError(f"the scenario is not at {result} any more: --scenario FILE")
    return read(str(result))


def replay_here(
    log: Path,
    options: RunReplay,
    *,
    order: str = "",
    scenario: Path | None = None,
    kept: Path | None = None,
) -> ReplayReport:
    """Replay a history in this process. Needs no Java.

    Args:
        order: the only order to replay; empty: all.
        scenario: the scenario's file, if it has been moved.
        kept: a file to which the history of the replay is written.

    Raises:
        PipelineError: there is no such order, or the scenario has changed.
        ScenarioError: the scenario cannot be played.
    """
    began = time.perf_counter()
    records = read_history(log)
    loaded = with_settings(scenario_of(records[0], scenario), ())
    orders = orders_of(records, order).values()
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
    with kept.open("w", encoding="utf-8") if kept is not None else nullcontext() as file:
        history = History(file)
        replays = [
            replay_order(loaded, [records[0], *own], options, history=history) for own in orders
        ]
    return _report(options, replays, time.perf_counter() - began)


def replay_by_tasks(
    log: Path,
    spark: SparkSession,
    options: RunReplay,
    *,
    order: str = "",
    scenario: Path | None = None,
) -> ReplayReport:
    """Replay a history with one order per task; see `replay_here`. Each task determines its servers itself."""
    began = time.perf_counter()
    history = source.read(spark, "history", path=str(log))
    first = history.where("kind = 'header'").orderBy("seq").first()
    if first is None:
        raise PipelineError(f"{log} has no header: the run was broken off before it began")
    head = first.asDict()
    document = scenario_of(record_of(head), scenario)
    with_settings(document, ())  # so that a mistake is reported here rather than by every task

    def play(table: pyarrow.Table) -> pyarrow.Table:  # Spark uses these annotations
        return _played(table, head=head, document=document, options=options)

    own = history.where(F.col("case").isNotNull())
    if order:
        own = own.where(F.col("case") == order)
    with translated():
        result = own.groupBy("case").applyInArrow(play, _ORDER_REPLAY).orderBy("seq").collect()
    if not result or all(each["seq"] < 0 for each in result):
        orders_of([], order)
    broken = [str(each["broken"]) for each in result if each["broken"]]
    if broken:
        raise PipelineError(broken[0])
    replays = [
        OrderReplay(
            **{name: each[name] for name in _FIELDS},
            divergences=tuple(map(_divergence, each["divergences"])),
        )
        for each in result
        if each["seq"] >= 0
    ]
    return _report(options, replays, time.perf_counter() - began)


def _divergence(row: Row) -> Divergence:
    values = row.asDict()
    return Divergence(kind=values.pop("class"), **values)


def _played(
    table: pyarrow.Table, *, head: dict[str, Any], document: Document, options: RunReplay
) -> pyarrow.Table:
    """Replay one order, in a task."""
    records = [record_of(row) for row in sorted(table.to_pylist(), key=lambda row: int(row["seq"]))]
    row: dict[str, Any] = {"seq": -1}
    if not any(each.kind == "infeasible" for each in records):
        row["seq"] = records[0].seq
        try:
            done = replay_order(with_settings(document, ()), [record_of(head), *records], options)
        except (
            ConfigurationError
        ) as error:  # returned as data, as Spark would retry a task that raises
            row["broken"] = str(error)
        else:
            row |= {name: getattr(done, name) for name in _FIELDS}
            row["divergences"] = [each.as_row() for each in done.divergences]
    return pyarrow.Table.from_pylist([row], schema=shapes.arrow_schema(_ORDER_REPLAY))


def _report(options: RunReplay, replays: Sequence[OrderReplay], seconds: float) -> ReplayReport:
    counts, classes = totals(replays)
    results = [each for order in replays for each in order.divergences]
    largest = max((each.transactions for each in replays), default=0)
    share = largest / counts["transactions"] if counts["transactions"] else 0.0
    lines = [
        f"replayed {counts['orders']:,} order{'s' * (counts['orders'] != 1)} on {options.on}, --sync {options.sync}: "
        f"{counts['transactions']:,} transactions, {counts['statements']:,} statements",
        f"  skew: the largest order had {largest:,} of {counts['transactions']:,} transactions "
        f"({share:.0%})",
    ]
    if "rows" not in classes:
        lines.append("  rows of queries are in no load's history: that class was not examined")
    return ReplayReport(
        after=0,
        upto=0,
        counts=counts,
        classes=classes,
        divergences=results,
        seconds=seconds,
        remarks=lines,
        figures={"largest_unit_share": share},
    )
