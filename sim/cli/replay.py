"""``twopc replay``: replay an archive or a run, and report where the result differs from the recording."""

from __future__ import annotations

import dataclasses
import json
import secrets
import shlex
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from twopc.sim.cli.command import command
from twopc.sim.cli.connection_strings import named, parse_nodes
from twopc.sim.cli.exits import NOTHING, PASS, SAFETY, UNKNOWN
from twopc.sim.cli.options import seeds, settings
from twopc.sim.cli.replay_options import Onto, ReplayOptions
from twopc.sim.cli.spark_options import begun, seqno

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from twopc.sim.spark.archive import Archive
    from twopc.sim.spark.replay import ReplayReport
    from twopc.sim.spark.replay.archive import PostgresOptions
    from twopc.sim.spark.replay.simulation import ModelOptions
    from twopc.sim.spark.session import SparkOptions

_ROOT = Path(".twopc/replays")


@command
def replay(options: ReplayOptions) -> None:
    """Replay an archive or a run.

    As rows, commands are folded into what the published tables held at any point between the archive's first
    and last sequence number, and compared with live tables if nodes are named. On PostgreSQL, transactions are
    carried out once more at the nodes of another topology, side by side, and all rows compared at the end.
    On the model, a recorded load is simulated again, as it was or under other delays, agents, Subscribers.
    Of a recorded run, the statements of each session are sent again, and the results compared with the recorded
    ones.
    """
    spark = options.spark.options()
    from twopc.sim.spark.replay.runs import log_of

    nodes, target = parse_nodes(options.against or [], "--against"), parse_nodes(options.node or [])
    folder = options.out or _ROOT / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
    moment, carry_out, simulate = options.moment, _on_postgres(options), _on_the_model(options)
    log = log_of(options.what)
    if log is not None:
        text = _resimulated(log, options, target, spark, folder)
        _tell(text, limit=options.limit, as_json=options.as_json, out=folder)
        raise _ended(text)
    _fits(options, target)

    def play(archive: Archive, session: SparkSession) -> ReplayReport:
        if options.onto is Onto.postgres:
            return _carried_out(archive, session, target, carry_out)
        if options.onto is Onto.model:
            return _simulated(archive, session, options, simulate)
        return _rows(archive, session, moment, nodes, options)

    _replay(options, spark, play, folder)


def _on_postgres(options: ReplayOptions) -> PostgresOptions:
    """Return the options of a replay on PostgreSQL."""
    from twopc.sim.spark.replay.archive import PostgresOptions

    return PostgresOptions(
        sync=options.order,
        speed=options.pace,
        window=options.window,
        after=None if options.after is None else seqno(options.after, "--after"),
        upto=None if options.upto is None else seqno(options.upto, "--upto"),
        names=dict(named(options.names or [], "--map", "OLD=NAME")),
        resume=options.resume,
        force=options.force,
        coordinator=options.coordinator,
    )


def _on_the_model(options: ReplayOptions) -> Callable[..., ModelOptions]:
    """Return a constructor of simulation options; run and scenario, which depend on the archive, are still missing."""
    from twopc.sim.spark.replay.simulation import ModelOptions

    return partial(
        ModelOptions,
        settings=options.settings,
        order=options.case,
        subscribers=options.subscribers,
        speed=options.pace or 1.0,
        seeds=seeds(options.seeds) if options.seeds else range(0),
    )


def _fits(options: ReplayOptions, target: Mapping[str, str]) -> None:
    """Raise `typer.BadParameter` if the options of an archive's replay contradict each other."""
    if options.onto is None:
        if not options.what.exists():
            raise typer.BadParameter(f"nothing is at {options.what}", param_hint="ARCHIVE|LOG")
        raise typer.BadParameter(
            f"{options.what} is no history: say rows, postgres or model for an archive",
            param_hint="--onto",
        )
    if (options.onto is Onto.postgres) != bool(target):
        raise typer.BadParameter(
            "--onto postgres needs nodes, and nothing else does", param_hint="--node"
        )
    if options.onto is Onto.model and options.speed == "max":
        raise typer.BadParameter(
            "simulated time is as fast as can be: write 2x", param_hint="--speed"
        )


# -- an archive ------------------------------------------------------------------------------------


def _replay(
    options: ReplayOptions,
    spark: SparkOptions,
    play: Callable[[Archive, SparkSession], ReplayReport],
    folder: Path,
) -> None:
    """Replay an archive and report the result; exit with its exit code."""
    from twopc.sim.spark.archive import Archive
    from twopc.sim.spark.replay.rows import NothingError

    archive = Archive.open(options.what)
    try:
        with archive.reading(), begun(spark, quiet=options.as_json) as session:
            report = play(archive, session)
            _tell(report, limit=options.limit, as_json=options.as_json, out=folder)
    except NothingError as error:
        print(f"nothing selected: {error}", file=sys.stderr)
        raise typer.Exit(NOTHING) from None
    raise _ended(report)


def _rows(
    archive: Archive,
    spark: SparkSession,
    moment: int | datetime | None,
    nodes: Mapping[str, str],
    options: ReplayOptions,
) -> ReplayReport:
    from twopc.sim.spark.fold import seqno_at
    from twopc.sim.spark.replay import onto_rows
    from twopc.sim.spark.replay.rows import NothingError

    upto = moment
    if isinstance(upto, datetime):
        upto = seqno_at(archive.transactions(spark), upto)
        if upto is None:
            raise NothingError(f"{archive.name} has nothing that was committed by {moment}")
    articles = options.articles or []
    return onto_rows(archive, spark, upto=upto, articles=articles, against=nodes, out=options.out)


def _carried_out(
    archive: Archive, spark: SparkSession, nodes: Mapping[str, str], options: PostgresOptions
) -> ReplayReport:
    from twopc.sim.spark.cores import cores
    from twopc.sim.spark.replay.archive import onto_postgres

    return onto_postgres(archive, spark, nodes, dataclasses.replace(options, lanes=cores(spark)))


def _simulated(
    archive: Archive,
    spark: SparkSession,
    options: ReplayOptions,
    simulate: Callable[..., ModelOptions],
) -> ReplayReport:
    from twopc.sim.spark.replay.simulation import onto_model, recorded_run, scenario_of
    from twopc.sim.spark.sweep import grid

    run = recorded_run(archive, options.run)
    file = options.scenario or scenario_of(archive, spark, run)
    return onto_model(archive, spark, simulate(run=run, document=grid.read(str(file))))


# -- a run -----------------------------------------------------------------------------------------


def _resimulated(
    log: Path,
    options: ReplayOptions,
    target: Mapping[str, str],
    spark: SparkOptions,
    folder: Path,
) -> ReplayReport:
    """Replay a run's statements; without tasks, the replay's history is written to `folder`."""
    from twopc.sim.replay.runs import RunReplay
    from twopc.sim.scenario.theatres import TheatreOptions
    from twopc.sim.spark.replay.runs import replay_by_tasks, replay_here

    if options.onto is Onto.rows:
        raise typer.BadParameter(
            "a run has statements, no rows at each moment: archive what was distributed, by twopc accumulate",
            param_hint="--onto",
        )
    if _beyond(options):
        raise typer.BadParameter(
            "of a log there are --sync, --speed, --order, --scenario, --node, --pg, --servers and --spark; what if "
            "delays or agents were others is asked of an archive: twopc accumulate --history"
        )
    chosen = settings(pg=options.pg, servers=options.servers)
    how = RunReplay(
        on=(options.onto or Onto.postgres).value,
        sync=options.order,
        speed=options.pace,
        place=TheatreOptions(pg=chosen.pg, servers=chosen.servers, dsns=target),
    )
    order, file = options.case, options.scenario
    if not options.tasks:
        return replay_here(log, how, order=order, scenario=file, kept=folder / "history.jsonl")
    with begun(spark, quiet=options.as_json) as session:
        return replay_by_tasks(log, session, how, order=order, scenario=file)


def _beyond(options: ReplayOptions) -> bool:
    """Return whether an option is given that only archives, or simulated loads, support."""
    return options.at != "end" or any(
        (
            options.articles, options.against, options.after, options.upto, options.names,
            options.resume, options.run, options.subscribers, options.settings, options.seeds,
        )
    )  # fmt: skip


# -- what comes of either --------------------------------------------------------------------------


def _ended(report: ReplayReport) -> typer.Exit:
    return typer.Exit(SAFETY if report.total else UNKNOWN if report.unexamined else PASS)


def _tell(report: ReplayReport, *, limit: int, as_json: bool, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    report.write(out / "divergences")
    repro = shlex.join(["twopc", *sys.argv[1:]])
    text = report.as_json(limit=limit, repro=repro) | {"directory": str(out)}
    document = json.dumps(text, ensure_ascii=False)
    (out / "report.json").write_text(document + "\n", encoding="utf-8")
    if as_json:
        print(document)
        return
    for line in report.lines(limit=limit):
        print(line)
    print(f"  written to {out}")
