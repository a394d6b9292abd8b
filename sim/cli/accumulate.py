"""``twopc accumulate``: append what was distributed to an archive, once or for as long as it goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

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
    from sim.spark.archive import Archive

_Segment = Annotated[
    int, typer.Option(min=1, metavar="N", help="About so many commands are appended at once.")
]

_Upto = Annotated[
    str | None, typer.Option(metavar="SEQNO", help="Up to here, as 0/1770488; all there is.")
]

_Base = Annotated[
    bool, typer.Option("--base/--no-base", help="Copy published tables that have no base yet.")
]


def accumulate(
    archive: ArchivePath,
    dsn: Annotated[
        str, typer.Option(metavar="DSN", help="Of the distribution database, its administrator's.")
    ],
    publisher: Annotated[
        str, typer.Option(metavar="NAME", help="Which Publisher, if the database has several.")
    ] = "",
    publisher_dsn: Annotated[
        str,
        typer.Option(
            metavar="DSN", help="Of the Publisher: for bases and global transactions' ids."
        ),
    ] = "",
    history: Annotated[
        list[Path] | None,
        typer.Option(metavar="PATH", help="Runs to add: a history.jsonl, or folders of them."),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on, until Ctrl-C or for as long as --for says.")
    ] = False,
    every: Annotated[
        str, typer.Option(metavar="DURATION", help="How often --follow looks.")
    ] = "1s",
    for_: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="So long --follow goes on.")
    ] = None,
    segment: _Segment = 1_000_000,
    upto: _Upto = None,
    base: _Base = True,
    start: Annotated[
        Literal["here", "oldest"], typer.Option(help="Where a new archive begins.")
    ] = "oldest",
    master: Master = None,
    conf: Conf = None,
    python: ExecutorPython = None,
    package: Package = None,
    as_json: Json = False,
) -> None:
    """Append to an archive what its distribution database has behind the archive's position.

    Every transaction is appended once, whatever ends this program and however often it is repeated. The
    archive is a folder; it is made if it is not there.
    """
    options = spark_options(master, conf, python, package)
    from sim.spark.archive import load
    from sim.spark.session import is_local

    times = _seconds(every, "--every"), None if for_ is None else _seconds(for_, "--for")
    if follow:
        _refuse_connect(options.where)
    wanted = load.Wanted(
        dsn=dsn,
        publisher=publisher,
        publisher_dsn=publisher_dsn,
        segment=segment,
        upto=None if upto is None else seqno(upto, "--upto"),
        base=base,
        start=start,
        partitions=load.cores() if is_local(options.where) else 1 << 16,
    )
    _append(
        archive,
        wanted,
        options,
        every=times if follow else None,
        history=history or (),
        as_json=as_json,
    )


def _refuse_connect(master: str) -> None:
    if master.startswith("sc://"):
        raise typer.BadParameter(
            "a stream's batches would be handled at the server of Spark Connect: leave out --follow, or "
            "name the cluster's own master",
            param_hint="--follow",
        )


def _append(
    archive: Path,
    wanted: Any,
    options: Any,
    *,
    every: tuple[float, float | None] | None,
    history: Sequence[Path],
    as_json: bool,
) -> None:
    """Once, or each so many seconds and for so long."""
    from sim.spark.archive import load, writer
    from sim.spark.archive.histories import add_history

    note = _Notes(as_json)
    with writer(load.opened(archive, wanted)) as held, begun(options, quiet=as_json) as spark:
        began = held
        if every is not None:
            held = load.follow(held, spark, wanted, note, every_s=every[0], for_s=every[1])
        else:
            held = load.accumulate(held, spark, wanted, note)
        for path in history:
            for run in add_history(held, spark, path):
                held = run.archive
                note.say(run.text)
    note.end(began, held)


class _Notes:
    """Says what is done, as it is done, or all of it at the end."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json
        self.started = self.last = time.monotonic()

    def __call__(self, before: Archive, after: Archive, what: str) -> None:
        from sim.spark.archive.load import told

        now = time.monotonic()
        self.say(f"{told(before, after, what)} · {now - self.last:.1f} s")
        self.last = now

    def say(self, text: str) -> None:
        """A line, unless there will be a document."""
        if not self.as_json:
            print(text, flush=True)

    def end(self, before: Archive, after: Archive) -> None:
        """That nothing was new, or the document."""
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
    """``1s``, ``500ms``, ``2m``."""
    from sim.settings import duration_ms

    try:
        return duration_ms(text) / 1000
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=hint) from error
