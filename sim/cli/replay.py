"""``twopc replay``: play an archive again, and say where it comes out otherwise than it was recorded."""

from __future__ import annotations

import json
import secrets
import shlex
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sim.cli import replay_log
from sim.cli.exits import NOTHING, PASS, SAFETY, UNKNOWN
from sim.cli.options import Pg, Servers
from sim.cli.place import parse_nodes
from sim.cli.replay_options import (
    After,
    Against,
    Articles,
    At,
    CaseName,
    Coordinator,
    Force,
    InOrder,
    Limit,
    Names,
    Nodes,
    Onto,
    OntoWhat,
    Order,
    Out,
    Resume,
    Run,
    ScenarioFile,
    Seeds,
    Sets,
    Speed,
    Subscribers,
    SyncEvery,
    Tasks,
    Timings,
    Upto,
    What,
    Window,
)
from sim.cli.spark_options import (
    Conf,
    ExecutorPython,
    Json,
    Master,
    Package,
    begun,
    seqno,
    spark_options,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sim.spark.archive import Archive
    from sim.spark.replay import Report
    from sim.spark.session import SparkOptions

_ROOT = Path(".twopc/replays")


def replay(
    what: What,
    onto: OntoWhat = None,
    at: At = "end",
    articles: Articles = None,
    against: Against = None,
    node: Nodes = None,
    order: InOrder = Order.rows,
    speed: Speed = None,
    window: Window = 2000,
    after: After = None,
    upto: Upto = None,
    names: Names = None,
    resume: Resume = "",
    force: Force = False,
    coordinator: Coordinator = None,
    run: Run = "",
    scenario: ScenarioFile = None,
    case: CaseName = "",
    subscribers: Subscribers = 0,
    sync_every: SyncEvery = None,
    timing: Timings = None,
    sets: Sets = None,
    seeds: Seeds = "",
    tasks: Tasks = False,
    pg: Pg = None, servers: Servers = None,
    out: Out = None,
    limit: Limit = 100,
    master: Master = None, conf: Conf = None, python: ExecutorPython = None, package: Package = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Play an archive, or a run, again.

    As rows, commands are folded into what the published tables held at any point between the archive's first
    and last sequence number, and compared with live tables if nodes are named. On PostgreSQL, transactions are
    carried out once more at the nodes of another topology, side by side, and all rows compared at the end.
    On the model, a recorded load is simulated again, as it was or under other delays, agents, Subscribers.
    Of a run, each session says what it said once more, and is held against what it was told then.
    """
    options = spark_options(master, conf, python, package)
    nodes, target = parse_nodes(against or []), parse_nodes(node or [])
    folder = out or _ROOT / f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"
    moment, pace, renamed = _moment(at), _speed(speed), parse_nodes(names or [])
    changes = _range(after, upto) | {
        "names": renamed, "resume": resume, "force": force, "window": window,
        "coordinator": coordinator, "speed": pace,
    }  # fmt: skip
    what_if = {
        "order": case, "subscribers": subscribers, "seeds": _seeds(seeds), "speed": _speed(speed or "1x"),
        "settings": _settings(sync_every, timing or [], sets or []),
    }  # fmt: skip
    if replay_log.is_log(what):
        beyond = _beyond(what_if, nodes, articles, moment, after, upto, renamed, resume, run)
        asked = replay_log.Asked(
            onto=onto or Onto.postgres, order=order, speed=pace, case=case, scenario=scenario,
            dsns=target, pg=pg, servers=servers, by=options if tasks else None, beyond=beyond,
        )  # fmt: skip
        told = replay_log.said(what, asked, out=folder, quiet=as_json)
        _tell(told, limit=limit, as_json=as_json, out=folder)
        raise _ended(told)
    _fits(onto, target, speed, what)

    def play(opened: Archive, spark: SparkSession) -> Report:
        if onto is Onto.postgres:
            return _carried_out(opened, spark, target, order, changes)
        if onto is Onto.model:
            return _simulated(opened, spark, run, scenario, what_if)
        return _played(opened, spark, moment, articles or [], nodes, out)

    _replay(what, options, play, out=folder, limit=limit, as_json=as_json)


def _range(after: str | None, upto: str | None) -> dict[str, Any]:
    return {
        "after": None if after is None else seqno(after, "--after"),
        "upto": None if upto is None else seqno(upto, "--upto"),
    }


def _fits(onto: Onto | None, target: dict[str, str], speed: str | None, what: Path) -> None:
    """Nothing, if what is said belongs together."""
    if onto is None:
        if not what.exists():
            raise typer.BadParameter(f"nothing is at {what}", param_hint="ARCHIVE|LOG")
        raise typer.BadParameter(
            f"{what} is no history: say rows, postgres or model for an archive", param_hint="--onto"
        )
    if (onto is Onto.postgres) != bool(target):
        raise typer.BadParameter(
            "--onto postgres needs nodes, and nothing else does", param_hint="--node"
        )
    if onto is Onto.model and speed == "max":
        raise typer.BadParameter(
            "simulated time is as fast as can be: write 2x", param_hint="--speed"
        )


def _replay(
    archive: Path,
    options: SparkOptions,
    play: Callable[[Archive, SparkSession], Report],
    *,
    out: Path,
    limit: int,
    as_json: bool,
) -> None:
    """Play and tell; ends with an exit code."""
    from sim.spark.archive import Archive
    from sim.spark.replay.rows import NothingError

    opened = Archive.open(archive)
    try:
        with begun(options, quiet=as_json) as spark:
            report = play(opened, spark)
            _tell(report, limit=limit, as_json=as_json, out=out)
    except NothingError as error:
        print(f"nothing selected: {error}", file=sys.stderr)
        raise typer.Exit(NOTHING) from None
    raise _ended(report)


def _ended(report: Report) -> typer.Exit:
    return typer.Exit(SAFETY if report.total else UNKNOWN if report.unexamined else PASS)


def _beyond(what_if: dict[str, Any], *others: object) -> bool:
    """Something is said that only an archive, or a simulated load, has."""
    asked = (what_if["subscribers"], what_if["settings"], what_if["seeds"])
    return any((*asked, *others))


def _played(
    archive: Archive,
    spark: SparkSession,
    moment: int | datetime | None,
    articles: list[str],
    nodes: dict[str, str],
    out: Path | None,
) -> Report:
    from sim.spark.fold import seqno_at
    from sim.spark.replay import onto_rows
    from sim.spark.replay.rows import NothingError

    upto = moment
    if isinstance(upto, datetime):
        upto = seqno_at(archive.transactions(spark), upto)
        if upto is None:
            raise NothingError(f"{archive.name} has nothing that was committed by {moment}")
    return onto_rows(archive, spark, upto=upto, articles=articles, against=nodes, out=out)


def _carried_out(
    archive: Archive,
    spark: SparkSession,
    nodes: dict[str, str],
    order: Order,
    options: dict[str, Any],
) -> Report:
    from sim.spark.cores import cores
    from sim.spark.replay.postgres import ReplayOptions, onto_postgres
    from sim.spark.replay.windows import Sync

    asked = ReplayOptions(sync=Sync(order.value), lanes=cores(spark), **options)
    return onto_postgres(archive, spark, nodes, asked)


def _simulated(
    archive: Archive,
    spark: SparkSession,
    run: str,
    scenario: Path | None,
    asked: dict[str, Any],
) -> Report:
    from sim.spark.replay.model import ModelOptions, onto_model, recorded_run, scenario_of
    from sim.spark.sweep import grid

    found = recorded_run(archive, run)
    file = scenario or scenario_of(archive, spark, found)
    return onto_model(
        archive, spark, ModelOptions(run=found, document=grid.read(str(file)), **asked)
    )


def _settings(sync_every: str | None, timings: list[str], sets: list[str]) -> list[tuple[str, str]]:
    """Dotted keys and values, as a sweep has them."""
    found = [] if sync_every is None else [("workload.sync", sync_every)]
    for given, hint, root in ((timings, "--timing", "timing."), (sets, "--set", "")):
        for each in given:
            key, equals, value = each.partition("=")
            if not key.strip() or not equals:
                raise typer.BadParameter(f"write NAME=VALUE, not {each!r}", param_hint=hint)
            found.append((root + key.strip(), value.strip()))
    return found


def _seeds(text: str) -> range:
    first, dots, last = text.partition("..")
    try:
        return range(int(first), int(last if dots else first) + 1) if text else range(0)
    except ValueError:
        raise typer.BadParameter("write them as 1..100, or one", param_hint="--seeds") from None


def _speed(text: str | None) -> float | None:
    from sim.spark.replay.pace import speed

    try:
        return None if text is None else speed(text)
    except ValueError:
        raise typer.BadParameter(
            f"write a factor as 2x, or max, not {text!r}", param_hint="--speed"
        ) from None


def _moment(text: str) -> int | datetime | None:
    """None is the end."""
    if text == "end":
        return None
    if "/" in text or text.isdecimal():
        return seqno(text, "--at")
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            "write a sequence number as 0/1770488, a time as 2026-11-22T22:00:00Z, or end",
            param_hint="--at",
        ) from None
    if moment.tzinfo is None:
        raise typer.BadParameter(f"say the time zone: {text}Z, or {text}+01:00", param_hint="--at")
    return moment


def _tell(report: Report, *, limit: int, as_json: bool, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    report.write(out / "divergences")
    repro = shlex.join(["twopc", *sys.argv[1:]])
    told = report.as_json(limit=limit, repro=repro) | {"directory": str(out)}
    document = json.dumps(told, ensure_ascii=False)
    (out / "report.json").write_text(document + "\n", encoding="utf-8")
    if as_json:
        print(document)
        return
    for line in report.lines(limit=limit):
        print(line)
    print(f"  written to {out}")
