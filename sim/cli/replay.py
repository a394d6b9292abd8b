"""``twopc replay``: play an archive again, and say where it comes out otherwise than it was recorded."""

from __future__ import annotations

import json
import shlex
import sys
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sim.cli.exits import NOTHING, PASS, SAFETY, UNKNOWN
from sim.cli.operate import parse_nodes
from sim.cli.spark_options import (
    ArchivePath,
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


class Onto(StrEnum):
    """What it is played onto."""

    rows = "rows"
    postgres = "postgres"


class Order(StrEnum):
    """As `sim.spark.replay.windows.Sync`, which needs Spark to be there."""

    commit = "commit"
    rows = "rows"
    session = "session"
    off = "off"


OntoWhat = Annotated[
    Onto,
    typer.Option(
        help="rows: tables as they were at a point; postgres: transactions, done once more."
    ),
]
At = Annotated[
    str, typer.Option(metavar="SEQNO|TIME|end", help="Rows: as of then; a time has its time zone.")
]
Articles = Annotated[
    list[str] | None,
    typer.Option("--article", metavar="TABLE", help="Rows: this one; again for more. All of them."),
]
Against = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=DSN", help="Rows: a node to compare with; again for more."),
]
Nodes = Annotated[
    list[str] | None,
    typer.Option(
        "--node",
        metavar="NAME=DSN",
        help="Postgres: a node of the target, the distribution database among them.",
    ),
]
InOrder = Annotated[
    Order, typer.Option("--sync", help="Postgres: which transactions keep their order.")
]
Speed = Annotated[
    str,
    typer.Option(metavar="2x|max", help="Postgres: times the recorded pace, or as fast as can be."),
]
Window = Annotated[
    int, typer.Option(metavar="N", min=1, help="Postgres: so many transactions at a time.")
]
After = Annotated[
    str | None, typer.Option(metavar="SEQNO", help="Postgres: behind this; behind the bases.")
]
Upto = Annotated[
    str | None, typer.Option(metavar="SEQNO", help="Postgres: up to here; the archive's end.")
]
Names = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="OLD=NAME", help="Postgres: a node in a recorded one's place."),
]
Resume = Annotated[
    str, typer.Option(metavar="ID", help="Postgres: go on with a replay that was broken off.")
]
Force = Annotated[
    bool, typer.Option("--force", help="Postgres: onto the recorded Publisher itself.")
]
Coordinator = Annotated[
    str | None, typer.Option(metavar="NAME", help="Postgres: the target's, if it knows several.")
]
Out = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write rows and divergences there, as Parquet.")
]
Limit = Annotated[int, typer.Option("--max-divergences", metavar="N", min=0, help="Show so many.")]


def replay(
    archive: ArchivePath,
    onto: OntoWhat,
    at: At = "end",
    articles: Articles = None,
    against: Against = None,
    node: Nodes = None,
    order: InOrder = Order.rows,
    speed: Speed = "max",
    window: Window = 2000,
    after: After = None,
    upto: Upto = None,
    names: Names = None,
    resume: Resume = "",
    force: Force = False,
    coordinator: Coordinator = None,
    out: Out = None,
    limit: Limit = 100,
    master: Master = None,
    conf: Conf = None,
    python: ExecutorPython = None,
    package: Package = None,
    as_json: Json = False,
) -> None:
    """Play an archive again.

    As rows, commands are folded into what the published tables held at any point between the archive's first
    and last sequence number, and compared with live tables if nodes are named. On PostgreSQL, transactions are
    carried out once more at the nodes of another topology, side by side, and all rows compared at the end.
    """
    from sim.spark.java import require_extra

    require_extra()
    from sim.spark.archive import Archive
    from sim.spark.replay.rows import NothingError

    options = spark_options(master, conf, python, package)
    moment = _moment(at)
    nodes = parse_nodes(against or [])
    target = parse_nodes(node or [])
    if (onto is Onto.postgres) != bool(target):
        raise typer.BadParameter(
            "--onto postgres needs nodes, and nothing else does", param_hint="--node"
        )
    changes = {
        "after": None if after is None else seqno(after, "--after"),
        "upto": None if upto is None else seqno(upto, "--upto"),
        "names": parse_nodes(names or []),
        "resume": resume,
        "force": force,
        "window": window,
        "coordinator": coordinator,
        "speed": _speed(speed),
    }
    opened = Archive.open(archive)
    try:
        with begun(options, quiet=as_json) as spark:
            if onto is Onto.postgres:
                report = _carried_out(opened, spark, target, order, changes)
            else:
                report = _played(opened, spark, moment, articles or [], nodes, out)
            _tell(report, limit=limit, as_json=as_json, out=out)
    except NothingError as error:
        print(f"nothing selected: {error}", file=sys.stderr)
        raise typer.Exit(NOTHING) from None
    raise typer.Exit(SAFETY if report.total else UNKNOWN if report.unexamined else PASS)


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


def _speed(text: str) -> float | None:
    from sim.spark.replay.pace import speed

    try:
        return speed(text)
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


def _tell(report: Report, *, limit: int, as_json: bool, out: Path | None) -> None:
    if out is not None:
        from sim.spark.archive.files import spark_path

        folder = spark_path(out.absolute() / "divergences")
        report.divergences.write.mode("overwrite").parquet(folder)
    if as_json:
        repro = shlex.join(["twopc", *sys.argv[1:]])
        print(json.dumps(report.as_json(limit=limit, repro=repro), ensure_ascii=False))
        return
    for line in report.lines(limit=limit):
        print(line)
    if out is not None:
        print(f"  written to {out}")
