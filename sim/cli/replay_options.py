"""Options of ``twopc replay``; each help text names the kind of replay that the option is for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from twopc.sim.cli.options import Pg, Servers
from twopc.sim.cli.spark_options import Json, SparkFlags, seqno
from twopc.sim.replay.lanes import Sync


class Onto(StrEnum):
    """Target of a replay."""

    rows = "rows"
    postgres = "postgres"
    model = "model"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """Options of ``twopc replay``."""

    what: Annotated[
        Path,
        typer.Argument(
            metavar="ARCHIVE|LOG",
            help="An archive's folder; or a run's, or its history.jsonl, to say its statements once more.",
        ),
    ]
    onto: Annotated[
        Onto | None,
        typer.Option(
            help="rows: tables as of a point; postgres: transactions, executed again; model: a load, simulated again. Runs: postgres or model. Default for runs: postgres."
        ),
    ] = None
    at: Annotated[
        str,
        typer.Option(
            metavar="SEQNO|TIME|end",
            help="Rows: the point, as sequence number or time with time zone.",
        ),
    ] = "end"
    articles: Annotated[
        list[str] | None,
        typer.Option("--article", metavar="TABLE", help="Rows: a table. Repeatable. Default: all."),
    ] = None
    against: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=DSN", help="Rows: a node to compare with. Repeatable."),
    ] = None
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node",
            metavar="NAME=DSN",
            help="Postgres: a node of the target, the distribution database among them.",
        ),
    ] = None
    order: Annotated[
        Sync, typer.Option("--sync", help="Postgres and runs: which transactions keep their order.")
    ] = Sync.rows
    speed: Annotated[
        str | None,
        typer.Option(
            metavar="2x|max",
            help="Times the recorded pace; postgres, a log: max, as fast as can be; model: 1x.",
        ),
    ] = None
    window: Annotated[
        int, typer.Option(metavar="N", min=1, help="Postgres: transactions in flight.")
    ] = 2000
    after: Annotated[
        str | None,
        typer.Option(
            metavar="SEQNO", help="Postgres: first position, exclusive. Default: that of the bases."
        ),
    ] = None
    upto: Annotated[
        str | None,
        typer.Option(metavar="SEQNO", help="Postgres: last position. Default: the archive's end."),
    ] = None
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--map", metavar="OLD=NAME", help="Postgres: a node in place of a recorded one."
        ),
    ] = None
    resume: Annotated[
        str, typer.Option(metavar="ID", help="Postgres: continue an interrupted replay.")
    ] = ""
    force: Annotated[
        bool, typer.Option("--force", help="Postgres: allow the recorded topology as target.")
    ] = False
    coordinator: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Postgres: the target's coordinator, if it has several."),
    ] = None
    run: Annotated[
        str, typer.Option(metavar="RUN", help="Model: the run. Default: the only one.")
    ] = ""
    scenario: Annotated[
        Path | None,
        typer.Option(
            "--scenario", metavar="FILE", help="Model and runs: the scenario file, if it has moved."
        ),
    ] = None
    case: Annotated[
        str,
        typer.Option(
            "--order",
            metavar="NAME",
            help="Model: the load, if a run has several. Runs: the order.",
        ),
    ] = ""
    subscribers: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, max=99, help="Model: number of Subscribers; 0: as recorded."
        ),
    ] = 0
    sync_every: Annotated[
        str | None, typer.Option(metavar="1s", help="Model: interval of delivery.")
    ] = None
    timing: Annotated[
        list[str] | None,
        typer.Option("--timing", metavar='LINK="constant 5ms"', help="Model: a delay. Repeatable."),
    ] = None
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Model: a value, as for `sweep`. Repeatable."
        ),
    ] = None
    seeds: Annotated[
        str,
        typer.Option(metavar="A..B", help="Model: seeds, one trial each. Default: as recorded."),
    ] = ""
    tasks: Annotated[
        bool, typer.Option("--spark", help="Runs: use Spark tasks, one order each.")
    ] = False
    pg: Pg = None
    servers: Servers = None
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for differences, and for rows if given. Default: .twopc/replays/….",
        ),
    ] = None
    limit: Annotated[
        int,
        typer.Option(
            "--max-divergences", metavar="N", min=0, help="Maximum number of differences shown."
        ),
    ] = 100
    spark: SparkFlags
    as_json: Json = False

    @property
    def moment(self) -> int | datetime | None:
        """Position or time of a replay as rows; None: the archive's end.

        Raises:
            typer.BadParameter: the text is invalid.
        """
        if self.at == "end":
            return None
        if "/" in self.at or self.at.isdecimal():
            return seqno(self.at, "--at")
        try:
            moment = datetime.fromisoformat(self.at)
        except ValueError:
            raise typer.BadParameter(
                "write a sequence number as 0/1770488, a time as 2026-11-22T22:00:00Z, or end",
                param_hint="--at",
            ) from None
        if moment.tzinfo is None:
            raise typer.BadParameter(
                f"say the time zone: {self.at}Z, or {self.at}+01:00", param_hint="--at"
            )
        return moment

    @property
    def pace(self) -> float | None:
        """Multiple of the recorded pace; None: not given, or as fast as possible.

        Raises:
            typer.BadParameter: the text is invalid.
        """
        if self.speed in (None, "max"):
            return None
        try:
            factor = float(self.speed.removesuffix("x"))
        except ValueError:
            factor = 0.0
        if not 0 < factor < float("inf"):
            raise typer.BadParameter(
                f"write a factor as 2x, or max, not {self.speed!r}", param_hint="--speed"
            )
        return factor

    @property
    def settings(self) -> list[tuple[str, str]]:
        """Dotted keys and values for the model, as in a sweep.

        Raises:
            typer.BadParameter: an option is no ``NAME=VALUE``.
        """
        pairs = [] if self.sync_every is None else [("workload.sync", self.sync_every)]
        for given, hint, root in ((self.timing, "--timing", "timing."), (self.sets, "--set", "")):
            for each in given or ():
                key, equals, value = each.partition("=")
                if not key.strip() or not equals:
                    raise typer.BadParameter(f"write NAME=VALUE, not {each!r}", param_hint=hint)
                pairs.append((root + key.strip(), value.strip()))
        return pairs
