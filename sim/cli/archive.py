"""``twopc archive``: show, release or compact an archive."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from twopc.sim.cli.command import command
from twopc.sim.cli.connection_strings import checked_dsn
from twopc.sim.cli.spark_options import (
    ArchivePath,
    Json,
    SparkFlags,
    begun,
)

archive = typer.Typer(
    help="Show, release or compact an archive.", no_args_is_help=True, rich_markup_mode=None
)


@archive.command("show")
def show(
    path: ArchivePath,
    segments: Annotated[bool, typer.Option("--segments", help="List each segment.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Verify the checksum of every file.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the contents of an archive. Needs neither Spark nor a server."""
    from twopc.sim.spark.java import require_extra

    require_extra()
    from twopc.sim.spark.archive import Archive
    from twopc.sim.spark.archive.show import document, lines

    result = Archive.open(path, verify=verify)
    with result.reading():
        if as_json:
            print(json.dumps(document(result), ensure_ascii=False))
            return
        for line in lines(result, segments=segments):
            print(line)
    if verify:
        print(f"  every file is what was written ({len(result.manifest.files())} read)")


@archive.command("release")
def release(
    path: ArchivePath,
    dsn: Annotated[
        str,
        typer.Option(
            metavar="DSN",
            help="DSN of the distribution database, as administrator.",
            callback=checked_dsn,
        ),
    ],
) -> None:
    """Release an archive, to which nothing more will be appended: clean-up waits for it no longer."""
    from twopc.sim.spark.java import require_extra

    require_extra()
    from twopc.sim.spark.archive import Archive
    from twopc.sim.spark.archive.registration import release as leave

    was_kept = leave(Archive.open(path), dsn)
    print("clean-up waits for it no longer" if was_kept else "clean-up did not wait for it")


@archive.command("compact")
@command
def compact(
    *,
    path: ArchivePath,
    segment: Annotated[
        int, typer.Option(min=1, metavar="N", help="Approximate number of commands in a segment.")
    ] = 5_000_000,
    spark: SparkFlags,
    as_json: Json = False,
) -> None:
    """Merge small segments into large ones without changing their contents."""
    options = spark.options()
    from twopc.sim.spark.archive import Archive, writer
    from twopc.sim.spark.archive.compact import compact as compacted
    from twopc.sim.spark.archive.compact import plan

    with writer(Archive.open(path)) as held:
        before = len(held.manifest.segments)
        if plan(held.manifest.segments, segment):
            with begun(options, quiet=as_json) as session:
                held = compacted(held, session, segment_commands=segment)
    after = len(held.manifest.segments)
    if as_json:
        counts = {"before": before, "after": after}
        print(json.dumps({"command": "compact", "archive": str(held.folder), "segments": counts}))
    elif before == after:
        print(f"nothing to compact: {before} segment{'' if before == 1 else 's'}")
    else:
        print(f"{before} segments are {after} now")
