"""Histories of runs in an archive: each added once, as Parquet."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from twopc.sim.spark import source
from twopc.sim.spark.archive import Archive, files
from twopc.sim.spark.archive.manifest import RecordedHistory
from twopc.sim.spark.errors import ArchiveError
from twopc.sim.spark.source import histories


@dataclass(frozen=True, slots=True)
class AddedHistory:
    """The result of adding one history."""

    archive: Archive
    """The archive with the history."""
    text: str


def add_history(archive: Archive, spark: SparkSession, path: Path) -> Iterator[AddedHistory]:
    """Add the history of every run at `path`; only the archive's `writer` may.

    Args:
        path: a history.jsonl, or a folder of runs.

    Raises:
        ArchiveError: the archive has another history of a run with the same name.
        PipelineError: there is no history, or one that this program cannot read.
    """
    for file in histories.files(str(path)):
        histories.check(file)
        run, sha256 = histories.run_of(file), files.digest(file)
        known = {each.run: each for each in archive.manifest.histories}
        if run in known:
            if known[run].sha256 != sha256:
                raise ArchiveError(
                    f"{archive.name} has a run {run!r} already, and {file} is another"
                )
            yield AddedHistory(archive, f"history {run}: it is there already")
            continue
        archive = _added(archive, spark, file, run, sha256)
        recorded = archive.manifest.histories[-1]
        yield AddedHistory(archive, f"history {run}: {recorded.records:,} records")


def _added(archive: Archive, spark: SparkSession, file: Path, run: str, sha256: str) -> Archive:
    staging = archive.folder / "staging" / files.fresh_id()
    frame = source.read(spark, "history", path=str(file))
    frame.sortWithinPartitions("seq").write.parquet(files.spark_path(staging))
    below = f"data/history/{sha256[:16]}"
    moved = files.move(files.written(staging), archive.folder, below, key="seq")
    shutil.rmtree(staging, ignore_errors=True)
    recorded = RecordedHistory(
        run=run, files=tuple(moved), records=sum(each.rows for each in moved), sha256=sha256
    )
    manifest = archive.manifest
    return archive.replaced(manifest.next(histories=(*manifest.histories, recorded)))
