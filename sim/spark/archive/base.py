"""Bases: published tables as of one snapshot of the Publisher, from which commands are folded."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from twopc.lsn import lsn_value
from twopc.sim.spark import source
from twopc.sim.spark.archive import Archive, files
from twopc.sim.spark.archive.manifest import BaseTable
from twopc.sim.spark.errors import PipelineError
from twopc.sim.spark.source.facts import connected, value_of
from twopc.sim.spark.source.options import PublishedTable


def missing(archive: Archive) -> list[Mapping[str, Any]]:
    """Return the newest shape of every article that has no base in that shape."""
    newest = {each["article_id"]: each for each in archive.manifest.articles}
    have = {(each.article_id, each.shape) for each in archive.manifest.base}
    return [each for key, each in sorted(newest.items()) if (key, each["shape"]) not in have]


def take_base(
    archive: Archive,
    spark: SparkSession,
    *,
    publisher_dsn: str,
    partitions: int = 1,
) -> Archive:
    """Read the tables without a base at the Publisher, all in one snapshot; only the archive's `writer` may.

    Args:
        partitions: number of tasks that read a table.

    Raises:
        PipelineError: the Publisher cannot be reached, or a table's shape differs from its article's.
    """
    requested = missing(archive)
    if not requested:
        return archive
    staging = archive.folder / "staging" / files.fresh_id()
    with connected(publisher_dsn, "the Publisher") as connection:
        seqno = lsn_value(value_of(connection, "select pg_current_wal_lsn()::text"))
        with connection.transaction():
            connection.execute("set transaction isolation level repeatable read read only")
            exported = value_of(connection, "select pg_export_snapshot()")
            snapshot = value_of(connection, "select pg_current_snapshot()::text")
            taken = []
            for article in requested:
                rows = source.read(
                    spark,
                    "rows",
                    dsn=publisher_dsn,
                    article=PublishedTable.of(article).text(),
                    snapshot=exported,
                    partitions=str(partitions),
                )
                where = staging / str(article["article_id"])
                taken.append(_taken(archive, article, rows, snapshot, seqno, where))
    shutil.rmtree(staging, ignore_errors=True)
    return archive.replaced(archive.manifest.next(base=(*archive.manifest.base, *taken)))


def _taken(
    archive: Archive,
    article: Mapping[str, Any],
    rows: DataFrame,
    snapshot: str,
    seqno: int,
    staging: Path,
) -> BaseTable:
    """Write the rows of one table, which are those of a snapshot, and move their files into the archive."""
    rows = rows.select(
        "article_id",
        "key",
        "values",
        F.lit(article["shape"]).alias("shape"),
        F.lit(snapshot).alias("snapshot"),
        F.lit(seqno).cast("bigint").alias("seqno"),
    )
    rows.write.mode("overwrite").parquet(files.spark_path(staging))
    below = f"data/base/{article['article_id']}-{article['shape']}"
    moved = files.move(files.written(staging), archive.folder, below)
    return BaseTable(
        article_id=article["article_id"],
        shape=article["shape"],
        snapshot=snapshot,
        seqno=seqno,
        rows=sum(each.rows for each in moved),
        files=tuple(moved),
    )


def same_publisher(archive: Archive, system: str) -> None:
    """Check that the Publisher is the one from which the archive was made.

    Raises:
        PipelineError: it is another server.
    """
    known = archive.manifest.publisher
    if known.system and known.system != system:
        raise PipelineError(
            f"{archive.name} is of {known.name} (system {known.system}); this is {known.name} (system "
            f"{system}): another server, or one that was restored"
        )
