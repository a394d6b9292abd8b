"""Runs an audit of an archive and live nodes; reports the findings and what could not be examined."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from twopc.errors import TwopcError
from twopc.sim import validation
from twopc.sim.operate import attach
from twopc.sim.spark import shapes
from twopc.sim.spark.archive import Archive
from twopc.sim.spark.audit import atomic, calls, delivery, rows, versions
from twopc.sim.spark.audit.frames import Frames, Names, findings, lsn, newest_articles
from twopc.sim.spark.audit.gather import AuditInput, AuditSites, kept, sites
from twopc.sim.spark.session import translated
from twopc.validation import ArticleVerdict

#: Classes of findings in the order of the report.
CLASSES = ("atomic", "echo", "delivered", "order", "versions", "rows")
WITNESS = frozenset({"echo", "delivered", "order"})


@dataclass(slots=True, kw_only=True)
class AuditReport:
    """Result of an audit."""

    classes: dict[str, int]
    """Number of findings of each class that was examined."""
    findings: list[Mapping[str, Any]]
    """The first findings, ordered by class."""
    left_out: int
    """Number of findings that are not in `findings`."""
    unexamined: list[str]
    after: int
    upto: int
    seconds: float = 0.0

    @property
    def total(self) -> int:
        """Number of all findings."""
        return sum(self.classes.values())


@dataclass(slots=True, kw_only=True)
class AuditRequest:
    """Options of an audit."""

    only: Sequence[str] = CLASSES
    limit: int = 100
    drive: bool = False
    """Whether to deliver during the audit, where no agents run."""
    repro: str = ""
    out: Path = field(default_factory=Path)
    """A folder that driver and executors share, in which the findings are stored."""


def audit(
    spark: SparkSession, archive: Archive, nodes: Mapping[str, str], requested: AuditRequest
) -> AuditReport:  # fmt: skip
    """Compare an archive with live nodes.

    Args:
        nodes: names and administrators' connection strings of the Publisher, the distribution database and
            Subscribers.

    Raises:
        PipelineError: the Publisher or the distribution database is missing, or does not belong to this archive.
    """
    began = time.monotonic()
    result, known = sites(nodes, archive)
    out = requested.out.absolute()  # Spark's tasks have other working directories
    work = out / "work"
    work.mkdir(parents=True)
    with translated(), ExitStack() as until:
        gathered = AuditInput(spark, archive, result, known, work, until)
        names = Names(publisher=result.publisher, repro=requested.repro)
        text = _checked(spark, gathered, result, names, requested, work)
        left = kept(text, out / "findings")
        counts = {row["class"]: row["count"] for row in left.groupBy("class").count().collect()}
        first = list[Mapping[str, Any]]()
        if counts:
            first = _first(left, requested)
    examined = _examined(gathered, result, requested)
    return AuditReport(
        classes={kind: counts.get(kind, 0) for kind in requested.only if kind in examined},
        findings=first,
        left_out=sum(counts.values()) - len(first),
        unexamined=result.unexamined,
        after=archive.manifest.first,
        upto=archive.manifest.position,
        seconds=time.monotonic() - began,
    )


def _first(every: DataFrame, requested: AuditRequest) -> list[Mapping[str, Any]]:
    """Return the first findings in the order of their report, up to the requested limit."""
    of_class = Window.partitionBy("class").orderBy("article", "key", "node")
    rows = every.withColumn("place", F.row_number().over(of_class)).where(
        F.col("place") <= requested.limit
    )
    ordered = sorted(
        (row.asDict() for row in rows.collect()),
        key=lambda row: (requested.only.index(row["class"]), row["place"]),
    )
    return [{name: row[name] for name in every.columns} for row in ordered[: requested.limit]]


def _examined(gathered: AuditInput, result: AuditSites, requested: AuditRequest) -> set[str]:
    """Return the classes that could be examined; note for the others why they could not."""
    blind = [each for each in result.subscribers if each not in gathered.watched()]
    asked = [each for each in CLASSES if each in WITNESS and each in requested.only]
    if blind and asked:
        result.unexamined.append(
            f"{', '.join(blind)}: no witness is there, so {', '.join(asked)} are not examined "
            "(twopc audit --witness install)"
        )
    without = gathered.not_folded()
    if without and "rows" in requested.only:
        result.unexamined.append(
            f"{', '.join(without)}: the archive has no base, so rows are not held against the commands"
        )
    result.unexamined += _of_calls(gathered, result, requested, asked)
    if not result.subscribers:
        return set(requested.only) & {"versions", "rows"}
    if len(blind) == len(result.subscribers):
        return set(requested.only) - WITNESS
    return set(requested.only)


def _of_calls(
    gathered: AuditInput, result: AuditSites, requested: AuditRequest, asked: Sequence[str]
) -> Iterator[str]:
    """Yield a text for everything that calls of routines keep from being examined.

    Args:
        asked: the requested classes that need a witness.
    """
    if {"rows", "versions"} & set(requested.only):
        for text in gathered.untold.values():
            yield f"{text}: its rows are not held against the commands, and its versions are not examined"
    if {"rows", "atomic"} & set(requested.only):
        for name, tables in gathered.versions_of_their_own().items():
            yield (
                f"{name} takes calls, which make row versions of its own: those of {', '.join(tables)} are not "
                "examined there"
            )
    unseen = [each for each in gathered.unwatched_calls() if each in result.subscribers]
    if unseen and {"delivered", "order"} & set(asked):
        yield (
            f"{', '.join(unseen)}: the witness there notes no calls, so whether each was made once and in order is "
            "not examined (twopc audit --witness install)"
        )


def _checked(
    spark: SparkSession, gathered: AuditInput, result: AuditSites, names: Names, requested: AuditRequest, work: Path
) -> DataFrame:  # fmt: skip
    """Return `FINDINGS` of the requested classes."""
    frames = gathered.frames()
    lines = [shapes.frame(spark, [], shapes.FINDINGS)]
    if {"rows", "atomic"} & set(requested.only):
        differ = kept(rows.differences(frames, names), work / "differences")
        repeated = differ.select("node", "article").distinct().collect()
        if repeated:
            confirmed = asyncio.run(_look_again(result, repeated, drive=requested.drive))
            frames = (
                gathered.frames()
            )  # by now the log has been read past all changes that were seen
            differ = _confirmed(spark, frames, differ, confirmed)
            differ = kept(differ, work / "confirmed")
        lines += [atomic.check(frames, names, differ)] if "atomic" in requested.only else []
        lines += [rows.check(frames, names, differ)] if "rows" in requested.only else []
    if "versions" in requested.only:
        lines += [versions.check(frames, names), _unreadable(gathered, result, frames, names)]
    for kind, check in (("echo", delivery.echo), ("delivered", delivery.delivered), ("order", delivery.order)):  # fmt: skip
        lines += [check(frames, names)] if kind in requested.only else []
    if frames.takers:
        lines += [calls.delivered(frames, names)] if "delivered" in requested.only else []
        lines += [calls.order(frames, names)] if "order" in requested.only else []
    if "delivered" in requested.only:
        lines.append(_skipped(gathered, names))
    every = lines[0]
    for each in lines[1:]:
        every = every.unionByName(each)
    return every.select(*shapes.FINDINGS.names)


async def _look_again(
    result: AuditSites, differ: Sequence[Any], *, drive: bool
) -> set[tuple[str, str, tuple[str, ...]]]:  # fmt: skip
    """Return the rows that still differ, as node, article and key; note as unexamined what stays undecided."""
    tables: dict[str, set[str]] = {each: set() for each in result.subscribers}
    for row in differ:
        for node in [row["node"]] if row["node"] != rows.ARCHIVE else tables:
            tables.setdefault(node, set()).add(row["article"])
    confirmed: set[tuple[str, str, tuple[str, ...]]] = set()
    for node, names in tables.items():
        if not names:
            continue
        try:
            verdicts = await _validated(result, node, sorted(names), drive=drive)
        except (TwopcError, psycopg.Error) as error:
            result.unexamined.append(
                f"rows of {node} differ and could not be looked at again: {error}"
            )
            continue
        for each in verdicts:
            confirmed |= {(node, each.article, difference.key) for difference in each.differences}
            if each.more:
                result.unexamined.append(
                    f"{each.more:,} further rows of {each.article} at {node} differ and are not named"
                )
            if each.undecided:
                result.unexamined.append(
                    f"{len(each.undecided)} rows of {each.article} at {node} were changed whenever they were looked at"
                )
    return confirmed


async def _validated(
    result: AuditSites, node: str, tables: Sequence[str], *, drive: bool
) -> list[ArticleVerdict]:
    """Validate a Subscriber's tables against the Publisher's, with transactions in progress taken into account."""
    ends = validation.ValidationEnds(
        publisher=result.publisher, subscriber=node, publisher_dsn=result.nodes[result.publisher],
        distribution_dsn=result.distribution_dsn, subscriber_dsn=result.nodes[node],
    )  # fmt: skip
    if not drive:
        return await validation.validate(ends, tables=tables)
    there = (result.publisher, result.distribution, *result.subscribers)
    nodes = {name: dsn for name, dsn in result.nodes.items() if name in there}
    async with await attach(nodes) as topology:
        return await validation.validate(ends, tables=tables, advance=lambda: topology.sync(node))


def _confirmed(
    spark: SparkSession, frames: Frames, differ: DataFrame, confirmed: set[tuple[str, str, tuple[str, ...]]]
) -> DataFrame:  # fmt: skip
    """Return the differences that persist; those from the fold only for rows that have not changed since."""
    keys = shapes.frame(
        spark,
        [(node, article, list(key)) for node, article, key in sorted(confirmed)],
        shapes.shape("node string, article string, key array<string>"),
    )
    of_nodes = differ.where(F.col("node") != rows.ARCHIVE).join(
        F.broadcast(keys), on=["node", "article", "key"], how="left_semi"
    )
    of_fold = differ.where(F.col("node") == rows.ARCHIVE).join(
        frames.later, on=["article_id", "key"], how="left_anti"
    )
    return of_nodes.select(*differ.columns).unionByName(of_fold.select(*differ.columns))


def _unreadable(
    gathered: AuditInput, result: AuditSites, frames: Frames, names: Names
) -> DataFrame:
    """Return findings for commands that do not fit their article's shape; note other unreadable ones as unexamined."""
    wrong = gathered.unreadable
    others = wrong.where("problem <> 'shape'").groupBy("problem", "article_id").agg(
        F.count("*").alias("times"), F.min(lsn(F.col("seqno"))).alias("first")
    )  # fmt: skip
    for row in sorted(others.collect(), key=lambda row: int(row["article_id"])):
        lines = (
            f"routine {row['article_id']} was called {row['times']} times from {row['first']} on and is in no list of routines"
            if row["problem"] == "call"
            else f"article {row['article_id']} is in {row['times']} commands from {row['first']} on and in no list of articles"
            if row["problem"] == "article"
            else f"article {row['article_id']} travels as SQL statements ({row['times']} commands)"
        )
        result.unexamined.append(f"{lines}: its rows are not examined")
    unfit = wrong.where("problem = 'shape'").join(
        F.broadcast(newest_articles(frames.articles)), on="article_id", how="left"
    )
    return findings(
        unfit.select("article", F.lit(None).cast("array<string>").alias("key"), "seqno", "command_id"),
        "versions", names, node=F.lit(names.publisher), seqno=F.col("seqno"),
        detail=F.concat(
            F.lit("command "), F.col("command_id"), F.lit(" of "), lsn(F.col("seqno")),
            F.lit(" does not fit its article's columns"),
        ),
    )  # fmt: skip


def _skipped(gathered: AuditInput, names: Names) -> DataFrame:
    """Return findings for commands that an agent skipped because of an error that its profile lists."""
    skipped = gathered.skipped().select(
        F.lit(None).cast("string").alias("article"), F.lit(None).cast("array<string>").alias("key"),
        "subscriber", "seqno", "error", "message",
    )  # fmt: skip
    return findings(
        skipped, "delivered", names, node=F.col("subscriber"), seqno=F.col("seqno"),
        detail=F.concat(F.lit("skipped ("), F.coalesce("error", F.lit("?")), F.lit("): "), F.coalesce("message", F.lit(""))),
    )  # fmt: skip
