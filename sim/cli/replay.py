"""``twopc replay``: play an archive again, and say where it comes out otherwise than it was recorded."""

from __future__ import annotations

import json
import shlex
import sys
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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


def replay(
    archive: ArchivePath,
    onto: Annotated[Onto, typer.Option(help="rows: the tables' rows at a point in the sequence.")],
    at: Annotated[
        str,
        typer.Option(metavar="SEQNO|TIME|end", help="Rows: as of then; a time has its time zone."),
    ] = "end",
    article: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE", help="Only this one; again for more. All of them."),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=DSN", help="A node whose rows are compared; again for more."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write rows and divergences there, as Parquet."),
    ] = None,
    limit: Annotated[
        int, typer.Option("--max-divergences", metavar="N", min=0, help="Show so many.")
    ] = 100,
    master: Master = None,
    conf: Conf = None,
    python: ExecutorPython = None,
    package: Package = None,
    as_json: Json = False,
) -> None:
    """Play an archive again.

    As rows, commands are folded into what the published tables held at any point between the archive's first
    and last sequence number, and compared with live tables if nodes are named.
    """
    from sim.spark.java import require_extra

    require_extra()
    from sim.spark.archive import Archive
    from sim.spark.replay.rows import NothingError

    options = spark_options(master, conf, python, package)
    moment = _moment(at)
    nodes = parse_nodes(against or [])
    opened = Archive.open(archive)
    try:
        with begun(options, quiet=as_json) as spark:
            report = _played(opened, spark, moment, article or [], nodes, out)
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
        print(f"  rows and divergences: {out}")
