"""Append a segment, whole or not at all, and never a sequence number twice."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from math import ceil
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from twopc.drivers.points import Points
from twopc.lsn import lsn_text
from twopc.sim.spark import shapes
from twopc.sim.spark.archive import Archive, files, now
from twopc.sim.spark.archive.manifest import DECODED, TABLES, File, Segment
from twopc.sim.spark.decode import decoded, has_row
from twopc.sim.spark.errors import ArchiveError
from twopc.sim.spark.source.facts import Facts

points = Points(os.environ)
"""Where a test lets this process end; armed by ``TWOPC_ARM``."""

_KEYS = {
    "commands": ("seqno", "command_id"),
    "transactions": ("seqno",),
    DECODED: ("seqno", "command_id"),
}
#: A union of hundreds of reads takes Spark minutes to plan: more files than these are read as groups of neighbours.
_READS_MAX = 64


def reach(name: str) -> None:
    """Run what is armed there."""
    if points.armed:
        asyncio.run(points.reach(name))


def append(
    archive: Archive,
    commands: DataFrame,
    transactions: Callable[[int], DataFrame],
    *,
    facts: Callable[[], Facts],
    upto: int | None = None,
    ordered: bool = False,
) -> Archive:
    """Add what lies behind the archive's position; only its `writer` may.

    Args:
        commands: of `shapes.COMMANDS`; what is at or before the position is left out. Read once.
        transactions: the transactions up to the end of the range, of `shapes.TRANSACTIONS`.
        facts: asked when everything is written: articles may have changed until then, and something may
            have been removed that was not read yet.
        upto: the end of the range, which both have completely; None: the last of the commands.
        ordered: partitions of either frame are disjoint ranges of sequence numbers, rising.

    Returns:
        The archive with one more segment; itself if there is nothing behind its position.

    Raises:
        ArchiveError: the commands are not those of the transactions, or the archive has changed since it was
            opened. Nothing was added.
        GapError: some were removed meanwhile. Nothing was added.
    """
    archive.is_newest()
    position = archive.manifest.position
    if upto is not None and upto <= position:
        return archive
    reach("archive.before_write")
    staging = archive.folder / "staging" / files.fresh_id()
    cut = commands.where(f"seqno > {position}")
    if upto is not None:
        cut = cut.where(f"seqno <= {upto}")
    write(cut, staging / "commands", "commands", ordered=ordered)
    if upto is None:
        result = files.written(staging / "commands")
        upto = max([files.looked_at(p, p.name, key="seqno").last for p in result], default=position)
        if upto <= position:
            shutil.rmtree(staging, ignore_errors=True)
            return archive
    of_them = transactions(upto).where(f"seqno > {position} and seqno <= {upto}")
    write(of_them, staging / "transactions", "transactions", ordered=ordered)
    there = facts()
    there.holds(after=position, upto=upto, where=archive.name)
    write_decoded(archive.manifest.knows(there).articles, commands.sparkSession, staging)
    return add(archive, staging, upto=upto, facts=there)


def write(frame: DataFrame, target: Path, table: str, *, ordered: bool) -> None:
    """Let Spark write a frame, each file a range of sequence numbers, sorted."""
    keys = _KEYS[table]
    if not ordered:
        frame = frame.repartitionByRange(*keys[:1])
    sorted_ = frame.sortWithinPartitions(*keys)
    sorted_.write.mode("overwrite").parquet(files.spark_path(target))


def write_decoded(
    articles: Sequence[Mapping[str, Any]], spark: SparkSession, staging: Path
) -> None:
    """Let Spark decode the commands of a staging folder, so that each file written has the range of one that is read."""
    target = staging / DECODED
    target.mkdir()
    paths = files.written(staging / "commands")
    if not paths:
        return
    size = ceil(len(paths) / _READS_MAX)
    parts = [
        files.read(spark, paths[at : at + size], shapes.COMMANDS)
        for at in range(0, len(paths), size)
    ]
    result = decoded(reduce(DataFrame.unionByName, parts), articles)
    result.write.mode("overwrite").parquet(files.spark_path(target))


def add(archive: Archive, staging: Path, *, upto: int, facts: Facts) -> Archive:
    """Make a segment of what is written in a staging folder: the half of `append` without Spark."""
    archive.is_newest()
    first = archive.manifest.position + 1
    tables = [table for table in (*TABLES, DECODED) if (staging / table).is_dir()]
    results = {table: files.written(staging / table) for table in tables}
    counted = _counted(archive.name, results, first, upto)
    check_decoded(archive.name, results)
    reach("archive.written")
    below = f"{first:016X}-{upto:016X}"
    moved = {
        table: tuple(files.move(paths, archive.folder, f"data/{table}/{below}", key="seqno"))
        for table, paths in results.items()
    }
    reach("archive.moved")
    segment = Segment(
        first=first,
        last=upto,
        transactions=counted["transactions"],
        commands=counted["commands"],
        at=now(),
        how="append",
        files=moved,
        decoded=counted.get(DECODED, 0),
    )
    manifest = archive.manifest.knows(facts)
    manifest = manifest.next(segments=(*manifest.segments, segment))
    # what is read back is checked as any manifest is: a fault here must not become the truth
    text = manifest.text()
    type(manifest).parse(text, f"{archive.name}, with the new segment")
    files.replace_manifest(archive.folder, text)
    reach("archive.manifest_written")
    files.commit_manifest(archive.folder)
    reach("archive.manifest_replaced")
    shutil.rmtree(staging, ignore_errors=True)
    return Archive(archive.folder, manifest)


def _counted(name: str, result: dict[str, list[Path]], first: int, upto: int) -> dict[str, int]:
    """How many rows there are, if they belong together."""
    looked = {t: [files.looked_at(p, p.name, key="seqno") for p in ps] for t, ps in result.items()}
    counts = {table: sum(each.rows for each in every) for table, every in looked.items()}
    requested = 0
    for path in result["transactions"]:
        total = pc.sum(pq.read_table(path, columns=["commands"])["commands"]).as_py()
        requested += int(total or 0)
    if requested != counts["commands"]:
        raise ArchiveError(
            f"{name}: {lsn_text(first)} to {lsn_text(upto)} has {counts['commands']} commands, and its "
            f"{counts['transactions']} transactions say {requested}: nothing was added; was the distribution "
            "database changed by hand?"
        )
    for table in TABLES:
        _apart(name, table, looked[table])
    return counts


def check_decoded(name: str, result: Mapping[str, Sequence[Path]]) -> None:
    """Nothing, if each command that can be decoded was, once: whoever reads what is decoded looks at no text.

    Args:
        result: by table the files that were written.

    Raises:
        ArchiveError: there are more or fewer.
    """
    if DECODED not in result:
        return
    requested = 0
    for path in result["commands"]:
        read = pq.read_table(path, columns=["article_id", "type"])
        requested += int(has_row(read["article_id"].to_numpy(), read["type"].to_numpy()).sum())
    count = sum(pq.read_metadata(path).num_rows for path in result[DECODED])
    if count != requested:
        raise ArchiveError(
            f"{name}: {requested} commands were to be decoded, and {count} are: nothing was written; was the archive "
            "changed by hand?"
        )


def _apart(name: str, table: str, every: list[File]) -> None:
    every = sorted(every, key=lambda each: each.first)
    for one, other in itertools.pairwise(every):
        if other.first <= one.last:
            raise ArchiveError(
                f"{name}: {lsn_text(other.first)} is in two files of {table}: nothing was added"
            )
