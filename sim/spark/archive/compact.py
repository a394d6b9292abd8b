"""Compaction of an archive: many small segments become few large ones."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from pyspark.sql import SparkSession

from twopc.sim.spark.archive import Archive, files, now
from twopc.sim.spark.archive.append import commit, reach, segment_of, write
from twopc.sim.spark.archive.manifest import DECODED, Segment
from twopc.sim.spark.errors import ArchiveError


def plan(segments: Sequence[Segment], commands: int) -> list[tuple[int, int]]:
    """Return the slices of neighbouring segments to merge, each of at most `commands` commands. Pure."""
    results: list[tuple[int, int]] = []
    begin, total = 0, 0
    for place, segment in enumerate(segments):
        if place > begin and total + segment.commands > commands:
            results.append((begin, place))
            begin, total = place, 0
        total += segment.commands
    results.append((begin, len(segments)))
    return [(one, other) for one, other in results if other - one > 1]


def compact(archive: Archive, spark: SparkSession, *, segment_commands: int = 5_000_000) -> Archive:
    """Rewrite neighbouring small segments as one; only the archive's `writer` may.

    The old files are removed once the new manifest is durable: a crash before that leaves the archive
    unchanged, and a crash after it leaves files that no manifest names.

    Raises:
        ArchiveError: a file has changed since it was written, or the rewritten files have another number of rows.
            The
            archive is unchanged.
    """
    while slices := plan(archive.manifest.segments, segment_commands):
        archive = _one(archive, spark, *slices[0])
    return archive


def _one(archive: Archive, spark: SparkSession, begin: int, end: int) -> Archive:
    archive.is_newest()
    manifest = archive.manifest
    old = manifest.segments[begin:end]
    first, last = old[0].first, old[-1].last
    reach("archive.before_write")
    staging = archive.folder / "staging" / files.fresh_id()
    frames = {
        "commands": archive.commands,
        "transactions": archive.transactions,
        DECODED: archive.decoded,
    }
    # rewritten files get new checksums, which would conceal earlier damage
    for file in itertools.chain(*(files_ for each in old for files_ in each.files.values())):
        archive.check(file, verify=True)
    for table, frame in frames.items():
        write(frame(spark, after=first - 1, upto=last), staging / table, table, ordered=False)
    results = {table: files.written(staging / table) for table in frames}
    segment = segment_of(
        archive,
        results,
        first,
        last,
        how="compact",
        transactions=sum(each.transactions for each in old),
        commands=sum(each.commands for each in old),
    )
    note = {"at": now(), "what": f"compacted {len(old)} segments to 1"}
    manifest = manifest.next(
        segments=(*manifest.segments[:begin], segment, *manifest.segments[end:]),
        notes=(*manifest.notes, note),
    )
    text = manifest.text()
    try:
        type(manifest).parse(text, archive.name)
    except ArchiveError as error:
        raise ArchiveError(f"{error}; nothing was compacted") from error
    commit(archive.folder, text, staging)
    files.sweep(archive.folder, {each.path for each in manifest.files()})
    return Archive(archive.folder, manifest)
