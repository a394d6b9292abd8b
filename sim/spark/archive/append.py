"""Appending of a segment, atomically, and never a sequence number twice."""

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
"""Points at which a test ends this process; armed by ``TWOPC_ARM``."""

_KEYS = {
    "commands": ("seqno", "command_id"),
    "transactions": ("seqno",),
    DECODED: ("seqno", "command_id"),
}
#: Spark plans a union of hundreds of reads for minutes: more files than this are read as groups of neighbours.
_READS_MAX = 64


def reach(name: str) -> None:
    """Run the actions that are armed at a point."""
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
    """Append the commands and transactions after the archive's position; only its `writer` may.

    Args:
        commands: of `shapes.COMMANDS`; those at or before the position are ignored. Read once.
        transactions: returns the transactions up to the end of the range, of `shapes.TRANSACTIONS`.
        facts: called after all data are written: articles may have changed meanwhile, and clean-up may
            have removed unread commands.
        upto: the end of the range, up to which both frames are complete; None: the last of the commands.
        ordered: whether the partitions of either frame are disjoint, ascending ranges of sequence numbers.

    Returns:
        The archive with one more segment; the same archive if there is nothing after its position.

    Raises:
        ArchiveError: the commands are not those of the transactions, or the archive has changed since it was
            opened. Nothing was added.
        GapError: some commands were removed meanwhile. Nothing was added.
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
    """Write a frame with Spark; each file is a sorted range of sequence numbers."""
    keys = _KEYS[table]
    if not ordered:
        frame = frame.repartitionByRange(*keys[:1])
    sorted_ = frame.sortWithinPartitions(*keys)
    sorted_.write.mode("overwrite").parquet(files.spark_path(target))


def write_decoded(
    articles: Sequence[Mapping[str, Any]], spark: SparkSession, staging: Path
) -> None:
    """Decode the commands of a staging folder with Spark; each file written has the range of one file read."""
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
    """Add the files of a staging folder as a segment: the part of `append` that does not need Spark."""
    archive.is_newest()
    first = archive.manifest.position + 1
    tables = [table for table in (*TABLES, DECODED) if (staging / table).is_dir()]
    results = {table: files.written(staging / table) for table in tables}
    counted = _counted(archive.name, results, first, upto)
    segment = segment_of(
        archive, results, first, upto, how="append", transactions=counted["transactions"], commands=counted["commands"]
    )  # fmt: skip
    manifest = archive.manifest.knows(facts)
    manifest = manifest.next(segments=(*manifest.segments, segment))
    # the new manifest is parsed, and so checked, before it becomes durable
    text = manifest.text()
    type(manifest).parse(text, f"{archive.name}, with the new segment")
    commit(archive.folder, text, staging)
    return Archive(archive.folder, manifest)


def segment_of(
    archive: Archive,
    results: Mapping[str, list[Path]],
    first: int,
    last: int,
    *,
    how: str,
    transactions: int,
    commands: int,
) -> Segment:
    """Move the files of a staging folder into the archive, and return the segment that consists of them.

    Args:
        results: the files, by table.
    """
    check_decoded(archive.name, results)
    reach("archive.written")
    below = f"{first:016X}-{last:016X}"
    moved = {
        table: tuple(files.move(paths, archive.folder, f"data/{table}/{below}", key="seqno"))
        for table, paths in results.items()
    }
    reach("archive.moved")
    return Segment(
        first=first,
        last=last,
        transactions=transactions,
        commands=commands,
        at=now(),
        how=how,
        files=moved,
        decoded=sum(each.rows for each in moved.get(DECODED, ())),
    )


def commit(folder: Path, text: str, staging: Path) -> None:
    """Make a manifest with a new segment durable, then remove the staging folder."""
    files.replace_manifest(folder, text)
    reach("archive.manifest_written")
    files.commit_manifest(folder)
    reach("archive.manifest_replaced")
    shutil.rmtree(staging, ignore_errors=True)


def _counted(name: str, result: dict[str, list[Path]], first: int, upto: int) -> dict[str, int]:
    """Return the number of rows of each table, after a check that commands and transactions belong together."""
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
    """Check that each decodable command was decoded exactly once: readers of decoded commands do not read the
    texts.

    Args:
        result: the files that were written, by table.

    Raises:
        ArchiveError: the numbers differ.
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
