"""``twopc accumulate``: append distributed transactions to an archive, once or continuously."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from twopc.sim.cli.command import command
from twopc.sim.cli.connection_strings import checked_dsn
from twopc.sim.cli.spark_options import (
    ArchivePath,
    Json,
    SparkFlags,
    begun,
    seqno,
)

if TYPE_CHECKING:
    from twopc.sim.spark.archive import Archive
    from twopc.sim.spark.archive.load import LoadRequest
    from twopc.sim.spark.session import SparkOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class AccumulateOptions:
    """Options of ``twopc accumulate``."""

    archive: ArchivePath
    dsn: Annotated[
        str,
        typer.Option(
            metavar="DSN",
            help="DSN of the distribution database, as administrator.",
            callback=checked_dsn,
        ),
    ]
    publisher: Annotated[
        str, typer.Option(metavar="NAME", help="The Publisher, if the database has several.")
    ] = ""
    publisher_dsn: Annotated[
        str,
        typer.Option(
            metavar="DSN",
            help="DSN of the Publisher: for bases and ids of global transactions.",
            callback=checked_dsn,
        ),
    ] = ""
    history: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="PATH", help="Runs to add: a history.jsonl, or folders that contain some."
        ),
    ] = None
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue until Ctrl-C, or for the time of --for.")
    ] = False
    every: Annotated[str, typer.Option(metavar="DURATION", help="Interval of --follow.")] = "1s"
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="Duration of --follow.")
    ] = None
    segment: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Approximate number of commands appended at once."),
    ] = 1_000_000
    upto: Annotated[
        str | None,
        typer.Option(
            metavar="SEQNO",
            help="Last sequence number, as 0/1770488. Default: the last one stored.",
        ),
    ] = None
    base: Annotated[
        bool, typer.Option("--base/--no-base", help="Copy published tables that have no base.")
    ] = True
    start: Annotated[
        Literal["here", "oldest"], typer.Option(help="Where a new archive starts.")
    ] = "oldest"
    spark: SparkFlags
    as_json: Json = False


@command
def accumulate(options: AccumulateOptions) -> None:
    """Append to an archive the transactions of the distribution database after the archive's position.

    Every transaction is appended exactly once, even if the program is killed and repeated. The archive is a
    folder; it is created if it does not exist.
    """
    spark = options.spark.options()
    from twopc.sim.spark.archive import load
    from twopc.sim.spark.session import is_local

    every_s = _seconds(options.every, "--every")
    for_s = None if options.for_ is None else _seconds(options.for_, "--for")
    if options.follow:
        _refuse_connect(spark.where)
    requested = load.LoadRequest(
        dsn=options.dsn,
        publisher=options.publisher,
        publisher_dsn=options.publisher_dsn,
        segment=options.segment,
        upto=None if options.upto is None else seqno(options.upto, "--upto"),
        base=options.base,
        start=options.start,
        partitions=load.cores() if is_local(spark.where) else 1 << 16,
    )
    _append(options, requested, spark, every_s=every_s, for_s=for_s)


def _refuse_connect(master: str) -> None:
    if master.startswith("sc://"):
        raise typer.BadParameter(
            "a stream's batches would be handled at the server of Spark Connect: leave out --follow, or "
            "name the cluster's own master",
            param_hint="--follow",
        )


def _append(
    options: AccumulateOptions,
    requested: LoadRequest,
    spark: SparkOptions,
    *,
    every_s: float,
    for_s: float | None,
) -> None:
    """Append once, or at an interval for the given duration."""
    from twopc.sim.spark.archive import load, writer
    from twopc.sim.spark.archive.histories import add_history

    note = _Notes(options.as_json)
    with (
        writer(load.opened(options.archive, requested)) as held,
        begun(spark, quiet=options.as_json) as session,
    ):
        began = held
        if options.follow:
            held = load.follow(held, session, requested, note, every_s=every_s, for_s=for_s)
        else:
            held = load.accumulate(held, session, requested, note)
        for path in options.history or ():
            for run in add_history(held, session, path):
                held = run.archive
                note.say(run.text)
    note.end(began, held)


class _Notes:
    """Output of the command: a line per step, or one JSON document at the end."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.started = self.last = time.monotonic()

    def __call__(self, before: Archive, after: Archive, what: str) -> None:
        from twopc.sim.spark.archive.load import progress_line

        now = time.monotonic()
        self.say(f"{progress_line(before, after, what)} · {now - self.last:.1f} s")
        self.last = now

    def say(self, text: str) -> None:
        """Print a line, unless the output is JSON."""
        if not self.as_json:
            print(text, flush=True)

    def end(self, before: Archive, after: Archive) -> None:
        """Print the JSON document, or that there was nothing new."""
        from twopc.lsn import lsn_text

        was, is_ = before.manifest, after.manifest
        if not self.as_json:
            if was.position == is_.position:
                print(f"nothing new after {lsn_text(is_.position)}")
            return
        counts: dict[str, Any] = {
            "transactions": is_.transactions - was.transactions,
            "commands": is_.commands - was.commands,
            "segments": len(is_.segments) - len(was.segments),
            "histories": len(is_.histories) - len(was.histories),
        }
        print(
            json.dumps(
                {
                    "command": "accumulate",
                    "archive": str(after.folder),
                    "range": {"after": was.position, "upto": is_.position},
                    "counts": counts,
                    "seconds": round(time.monotonic() - self.started, 3),
                }
            )
        )


def _seconds(text: str, hint: str) -> float:
    """Parse a duration such as ``1s``, ``500ms`` or ``2m``."""
    from twopc.sim.settings import duration_ms

    try:
        return duration_ms(text) / 1000
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from error
