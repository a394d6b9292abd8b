"""``twopc replay LOG``: a run's statements, said once more, without an archive."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sim.cli.options import settings
from sim.cli.replay_options import Onto, Order
from sim.cli.spark_options import begun

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sim.spark.replay import Report
    from sim.spark.session import SparkOptions


def is_log(path: Path) -> bool:
    """It is a history, or the folder of a run.

    Raises:
        PipelineError: it is a history that cannot be read.
    """
    from sim.spark.replay.recorded import log_of

    return log_of(path) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What somebody has said about a log."""

    onto: Onto
    order: Order
    speed: float | None
    case: str
    scenario: Path | None
    dsns: Mapping[str, str]
    pg: str | None
    servers: str | None
    by: SparkOptions | None
    """How Spark is begun; None: in this process."""
    beyond: bool
    """Something was said that means nothing here."""


def said(path: Path, asked: Asked, *, out: Path, quiet: bool) -> Report:
    """What came of it; its own history is left in `out`, if it is not played by tasks."""
    from sim.spark.replay.again import Manner
    from sim.spark.replay.recorded import log_of, said_by_tasks, said_here
    from sim.spark.replay.windows import Sync

    log = log_of(path)
    assert log is not None
    if asked.onto is Onto.rows:
        raise typer.BadParameter(
            "a run has statements, no rows at each moment: archive what was distributed, by twopc accumulate",
            param_hint="--onto",
        )
    if asked.beyond:
        raise typer.BadParameter(
            "of a log there are --sync, --speed, --order, --scenario, --node, --pg, --servers and --spark; what if "
            "delays or agents were others is asked of an archive: twopc accumulate --history"
        )
    chosen = settings(pg=asked.pg, servers=asked.servers)
    manner = Manner(
        on=asked.onto.value,
        sync=Sync(asked.order.value),
        speed=asked.speed,
        pg=chosen.pg,
        servers=chosen.servers,
        dsns=asked.dsns,
    )
    order, file = asked.case, asked.scenario
    if asked.by is None:
        return said_here(log, manner, order=order, scenario=file, kept=out / "history.jsonl")
    with begun(asked.by, quiet=quiet) as spark:
        return said_by_tasks(log, spark, manner, order=order, scenario=file)
