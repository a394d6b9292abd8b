"""Reads the input of an audit: the archive, the distribution database and live tables, while these are in use.

The order of reading makes the audit sound. Rows and witnesses are read first, then the log's end: so the command of
every change that was seen is among those examined. Rows that differ between two places are validated again by
`twopc.sim.validation`, which takes transactions in progress into account.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from twopc.lsn import lsn_text
from twopc.names import PREFIX
from twopc.sim.spark import shapes
from twopc.sim.spark.archive import Archive
from twopc.sim.spark.archive.files import spark_path
from twopc.sim.spark.audit import witness
from twopc.sim.spark.audit.frames import ROWS_AT, VERSIONS, WATCHED, Frames, changes
from twopc.sim.spark.decode import decoded
from twopc.sim.spark.errors import ArchiveError, PipelineError
from twopc.sim.spark.fold import state_of
from twopc.sim.spark.routines import (
    routine_calls,
    routine_name,
    silent,
    takers,
    without_calls,
    written_by,
)
from twopc.sim.spark.session import translated
from twopc.sim.spark.source import live_rows, read
from twopc.sim.spark.source.facts import Facts, connected, facts

_KIND = """
select to_regclass('msrepl.sysarticles') is not null, to_regclass('msrepl.coordinator_epoch') is not null
"""
_PREPARED = """
select count(*) from pg_prepared_xacts
where database = current_database() and starts_with(gid, %(prefix)s) and prepared < now() - interval '10 s'
"""
_SKIPPED = """
select exists (
    select from msrepl.msdistribution_history where publisher_database_id = %(publisher)s and event = 'skipped')
"""


@dataclass(slots=True, kw_only=True)
class AuditSites:
    """The nodes of an audit, and what cannot be examined."""

    publisher: str
    nodes: Mapping[str, str] = field(repr=False)
    """Administrators' connection strings, by node."""
    distribution: str
    """The node with the distribution database."""
    subscribers: list[str]
    """The Subscribers that can be reached."""
    unexamined: list[str] = field(default_factory=list)

    @property
    def distribution_dsn(self) -> str:
        """Connection string of the distribution database."""
        return self.nodes[self.distribution]

    def lost(self, node: str, error: Exception) -> None:
        """Note that a node can no longer be reached and is not examined; drop it from the Subscribers."""
        at = datetime.now(UTC).strftime("%H:%M:%S")
        text = str(error).strip().splitlines()
        self.unexamined.append(
            f"{node} cannot be reached since {at} ({text[-1] if text else error}): atomic, rows, echo, delivered and "
            "order are not examined there"
        )
        if node in self.subscribers:
            self.subscribers.remove(node)


def sites(nodes: Mapping[str, str], archive: Archive) -> tuple[AuditSites, Facts]:
    """Determine the role of each node. A Subscriber may be missing; Publisher and distribution database may not.

    Raises:
        PipelineError: one of those two is missing, or they do not belong to this archive.
    """
    publishers, logs, failed = list[str](), list[str](), dict[str, Exception]()
    for name, dsn in nodes.items():
        try:
            with psycopg.connect(dsn, autocommit=True, connect_timeout=5) as connection:
                row = connection.execute(_KIND).fetchone()
        except psycopg.Error as error:
            failed[name] = error
            continue
        assert row is not None
        publishers += [name] if row[0] else []
        logs += [name] if row[1] else []
    if len(publishers) != 1 or not logs:
        what = "the Publisher" if len(publishers) != 1 else "the distribution database"
        why = "".join(f"; {name}: {error}" for name, error in failed.items()).strip()
        raise PipelineError(
            f"{what} must be among the nodes given, and be there: --node NAME=DSN{why}"
        )
    known = facts(nodes[logs[0]])
    _of_this_archive(archive, known)
    result = AuditSites(
        publisher=publishers[0], nodes=nodes, distribution=logs[0],
        subscribers=sorted({row["subscriber"] for row in known.subscriptions if row["status"] == 2}),
    )  # fmt: skip
    for name in [*result.subscribers]:
        if name in failed:
            result.lost(name, failed[name])
        elif name not in nodes:
            result.subscribers.remove(name)
            result.unexamined.append(f"{name} is not among the nodes given: it is not examined")
    return result, known


def _of_this_archive(archive: Archive, known: Facts) -> None:
    own, other = archive.manifest.publisher, known.publisher
    if (own.name, own.distribution) != (other.name, other.distribution):
        raise ArchiveError(
            f"{archive.name} is of {own.name} (distribution database {own.distribution}); this is {other.name} "
            f"({other.distribution}): another database, or one that was restored"
        )
    known.holds(after=archive.manifest.position, upto=archive.manifest.position, where=archive.name)


class AuditInput:
    """The data of an audit, part of which is read again as the log grows.

    Args:
        work: a folder that driver and executors share, for rows while they are examined.
        until: results that several checks share are kept until this stack is closed.
    """

    def __init__(self, spark: SparkSession, archive: Archive, audited: AuditSites, known: Facts, work: Path, until: ExitStack) -> None:  # fmt: skip
        self._until = until
        self._spark = spark
        self._archive = archive
        self._sites = audited
        self._work = work
        self._number = known.publisher.number
        newest = {row["article_id"]: row for row in known.articles}
        self._subscribed = {
            (row["subscriber"], row["article_id"]) for row in known.subscriptions if row["status"] == 2
        }  # fmt: skip
        subscribed = {number for _, number in self._subscribed}
        self._articles = {number: newest[number] for number in sorted(subscribed & set(newest))}
        self.untold: dict[int, str] = {}
        """By article that calls have changed without their rows being stored: a text about the first call."""
        self.own_versions = frozenset[tuple[str, int]]()
        self._decoded: DataFrame | None = None
        self._state: DataFrame | None = None
        numbers = {row["article_id"] for row in known.routines}
        self._takes = {pair for pair in self._subscribed if pair[1] in numbers}
        self._rows = self._read_rows()
        self._witnessed, self._watched = self._read_witnesses(known)
        self._note_prepared()

    def frames(self) -> Frames:
        """Return the tables of the audit, with everything in the log at present."""
        spark, archive = self._spark, self._archive
        now = facts(self._sites.distribution_dsn)
        position = archive.manifest.position
        routines = {
            **{e["article_id"]: e for e in archive.manifest.routines},
            **{e["article_id"]: e for e in now.routines},
        }
        tail = self._tail("commands", position, now.read_to)
        of_tail = self._tail("transactions", position, now.read_to)
        known = _together(archive.manifest.articles, now.articles)
        articles = shapes.frame(spark, known, shapes.ARTICLES)
        subscriptions = shapes.frame(spark, [dict(row) for row in now.subscriptions], shapes.SUBSCRIPTIONS)  # fmt: skip
        based = sorted({each.article_id for each in archive.manifest.base} & set(self._articles))
        if self._decoded is None or self._state is None:
            commands = self._rows_of(archive.decoded(spark), routines)
            text = changes(commands, archive.transactions(spark), subscriptions)
            self._decoded = kept(text, self._work / "told")
            self._state = state_of(archive, spark, until=self._until, left_out=self.untold)
        text, behind = self._decoded, self._decoded.where(F.lit(False))
        if now.read_to > position:
            path = self._work / f"behind-{len(list(self._work.glob('behind-*')))}"
            commands = self._rows_of(decoded(tail, known), routines)
            behind = kept(changes(commands, of_tail, subscriptions), path)
            text = text.unionByName(behind)
        called = self._called(archive.commands(spark), tail, routines)
        self.own_versions = self._own_versions(now, routines)
        self.unreadable = text.where("problem <> ''")
        both = behind.select("article_id", F.explode(F.array("key", "new_key")).alias("key"))
        return Frames(
            changes=text.where("problem = ''").drop("problem"),
            state=self._state,
            articles=articles,
            subscriptions=subscriptions,
            later=both.where("key is not null").distinct(),
            known=self._versions(),
            rows_at=self._rows,
            witnessed=shapes.frame(spark, self._witnessed, shapes.WITNESSED),
            watched=shapes.frame(spark, self._watched, WATCHED),
            read=tuple(self._sites.subscribers),
            folded=tuple(each for each in based if each not in self.untold),
            called=called,
            routines=shapes.frame(spark, [dict(row) for row in routines.values()], shapes.ROUTINES),
            takers=takers(now.subscriptions, routines.values()),
            own_versions=self.own_versions,
            untold=frozenset(self.untold),
        )

    def _rows_of(self, commands: DataFrame, routines: Mapping[int, Any]) -> DataFrame:
        """Return the commands without calls, which have checks of their own; calls stay if no routine is known."""
        return without_calls(commands) if routines else commands

    def _called(
        self, commands: DataFrame, tail: DataFrame, routines: Mapping[int, Mapping[str, Any]]
    ) -> DataFrame:
        """Return `ROUTINE_CALLS`; note articles that calls after the archive's end may have changed in `untold`."""
        if not routines:
            return shapes.frame(self._spark, [], shapes.ROUTINE_CALLS)
        behind = routine_calls(tail)
        for row in (
            silent(behind).groupBy("article_id").agg(F.min("seqno").alias("first")).collect()
        ):
            number = int(row["article_id"])
            for article in written_by(routines.get(number), self._articles.values()):
                self.untold.setdefault(
                    article,
                    f"{self._articles[article]['source_object']}: {routine_name(routines.get(number), number)} was called "
                    f"by transaction {lsn_text(row['first'])}, and what it changed is not among the commands",
                )
        every = routine_calls(commands).unionByName(behind)
        return kept(every, self._work / f"calls-{len(list(self._work.glob('calls-*')))}")

    def _own_versions(
        self, now: Facts, routines: Mapping[int, Mapping[str, Any]]
    ) -> frozenset[tuple[str, int]]:
        """Return Subscriber and article of the tables whose row versions calls make."""
        return frozenset(
            (row["subscriber"], article)
            for row in now.subscriptions
            if row["status"] == 2 and row["article_id"] in routines
            for article in written_by(routines[row["article_id"]], self._articles.values())
        )

    def not_folded(self) -> list[str]:
        """Return the articles of which the archive has no base."""
        based = {each.article_id for each in self._archive.manifest.base}
        return [
            row["source_object"] for number, row in self._articles.items() if number not in based
        ]

    def versions_of_their_own(self) -> dict[str, list[str]]:
        """Return, by Subscriber, the tables whose row versions are not compared there."""
        results: dict[str, list[str]] = {}
        for name, article in sorted(self.own_versions):
            if name in self._sites.subscribers and (name, article) in self._subscribed:
                results.setdefault(name, []).append(self._articles[article]["source_object"])
        return results

    def skipped(self) -> DataFrame:
        """See the module's `skipped`."""
        return skipped(self._spark, self._sites.distribution_dsn, self._number)

    def watched(self) -> set[str]:
        """Return the Subscribers with a witness."""
        return {str(row[0]) for row in self._watched}

    def unwatched_calls(self) -> list[str]:
        """Return the Subscribers that have a witness, but none for some routine whose calls they receive."""
        seen = {(row[0], row[1]) for row in self._watched}
        taken = {pair for pair in self._takes if pair[0] in self.watched()}
        return sorted({name for name, _ in taken - seen})

    def _tail(self, table: str, after: int, upto: int) -> DataFrame:
        """Return the part of a table of the log that is not in the archive yet."""
        if upto <= after:
            return shapes.frame(self._spark, [], getattr(shapes, table.upper()))
        return read(
            self._spark, table, dsn=self._sites.distribution_dsn, after=str(after), upto=str(upto)
        )

    def _versions(self) -> DataFrame:
        """Return the versions of the bases' rows, taken from the place that each shape gives the version."""
        rows = self._archive.base(self._spark)
        shape_of = self._archive.articles(self._spark).select("article_id", "shape", "version")
        return (
            rows.join(F.broadcast(shape_of), on=["article_id", "shape"], how="inner")
            .select("article_id", F.get("values", F.col("version")).alias("version"))
            .where("version is not null")
            .select(*VERSIONS.names)
        )

    def _read_rows(self) -> DataFrame:
        """Return `ROWS_AT`; omit a node that is lost while it is read, and note it as unexamined."""
        paths = [
            *self._kept(self._sites.publisher, None),
            *(path for each in [*self._sites.subscribers] for path in self._kept(each, each)),
        ]
        if not paths:
            return shapes.frame(self._spark, [], ROWS_AT)
        texts = [spark_path(path, read=True) for path in paths]
        return self._spark.read.schema(ROWS_AT).parquet(*texts)

    def _kept(self, node: str, subscriber: str | None) -> Iterator[Path]:
        """Copy a node's rows to files, so that later steps do not depend on the node."""
        path = self._work / f"rows-{len(list(self._work.glob('rows-*')))}"
        articles = [
            row
            for number, row in self._articles.items()
            if subscriber is None or (subscriber, number) in self._subscribed
        ]
        if not articles:
            return
        dsn, is_publisher = self._sites.nodes[node], subscriber is None
        try:
            with translated():
                live = live_rows(self._spark, dsn, articles, is_publisher=is_publisher)
                live.select(F.lit(node).alias("node"), *live.columns).write.parquet(
                    spark_path(path)
                )
        except PipelineError as error:
            if is_publisher:
                raise
            self._sites.lost(node, error)
            return
        yield path

    def _read_witnesses(self, known: Facts) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        seen, watched = list[tuple[Any, ...]](), list[tuple[Any, ...]]()
        for each in [*self._sites.subscribers]:
            try:
                here, of = witness.read(each, self._sites.nodes[each], known)
            except PipelineError as error:
                self._sites.lost(each, error)
                continue
            seen += here
            watched += of
        return seen, watched

    def _note_prepared(self) -> None:
        """Note transactions that have been prepared for a while: whether they end atomically is not known yet."""
        for name in (self._sites.publisher, *self._sites.subscribers):
            with contextlib.suppress(PipelineError), connected(self._sites.nodes[name], name) as connection:  # fmt: skip
                row = connection.execute(_PREPARED, {"prefix": PREFIX}).fetchone()
                if row is not None and row[0]:
                    self._sites.unexamined.append(
                        f"{row[0]} transactions have been prepared at {name} for more than 10 s: how they end is not "
                        "known yet (twopc indoubt lists them)"
                    )


def skipped(spark: SparkSession, dsn: str, publisher: int) -> DataFrame:
    """Return the `AGENT_HISTORY` of skipped commands; Spark reads the table only if there are any.

    Args:
        publisher: its number in the distribution database.
    """
    with connected(dsn, "the distribution database") as connection:
        row = connection.execute(_SKIPPED, {"publisher": publisher}).fetchone()
    if row is None or not row[0]:
        return shapes.frame(spark, [], shapes.AGENT_HISTORY)
    return read(spark, "agent_history", dsn=dsn).where("event = 'skipped'")


def kept(frame: DataFrame, path: Path) -> DataFrame:
    """Write a frame to a file, and return a frame that reads the file."""
    frame.write.parquet(spark_path(path))
    return frame.sparkSession.read.schema(frame.schema).parquet(spark_path(path, read=True))


def _together(
    known: Sequence[Mapping[str, Any]], live: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the `shapes.ARTICLES` of the archive and of the distribution database, each shape once."""
    return list({(row["article_id"], row["shape"]): row for row in (*live, *known)}.values())
