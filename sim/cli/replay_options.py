"""Options of ``twopc replay``: of each it says what it is played onto that it is for."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Onto(StrEnum):
    """What it is played onto."""

    rows = "rows"
    postgres = "postgres"
    model = "model"


class Order(StrEnum):
    """As `sim.spark.replay.windows.Sync`, which needs Spark to be there."""

    commit = "commit"
    rows = "rows"
    session = "session"
    off = "off"


What = Annotated[
    Path,
    typer.Argument(
        metavar="ARCHIVE|LOG",
        help="An archive's folder; or a run's, or its history.jsonl, to say its statements once more.",
    ),
]
OntoWhat = Annotated[
    Onto | None,
    typer.Option(
        help="rows: tables as they were at a point; postgres: transactions, done once more; model: a load, "
        "simulated again. A log: postgres, unless model is said."
    ),
]
Tasks = Annotated[bool, typer.Option("--spark", help="A log: by Spark's tasks, an order in each.")]
At = Annotated[
    str, typer.Option(metavar="SEQNO|TIME|end", help="Rows: as of then; a time has its time zone.")
]
Articles = Annotated[
    list[str] | None,
    typer.Option("--article", metavar="TABLE", help="Rows: this one; again for more. All of them."),
]
Against = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=DSN", help="Rows: a node to compare with."),
]
Nodes = Annotated[
    list[str] | None,
    typer.Option(
        "--node",
        metavar="NAME=DSN",
        help="Postgres: a node of the target, the distribution database among them.",
    ),
]
InOrder = Annotated[
    Order, typer.Option("--sync", help="Postgres, a log: which transactions keep their order.")
]
Speed = Annotated[
    str | None,
    typer.Option(
        metavar="2x|max",
        help="Times the recorded pace; postgres, a log: max, as fast as can be; model: 1x.",
    ),
]
Window = Annotated[
    int, typer.Option(metavar="N", min=1, help="Postgres: so many transactions at a time.")
]
After = Annotated[
    str | None, typer.Option(metavar="SEQNO", help="Postgres: behind this; behind the bases.")
]
Upto = Annotated[
    str | None, typer.Option(metavar="SEQNO", help="Postgres: up to here; the archive's end.")
]
Names = Annotated[
    list[str] | None,
    typer.Option("--map", metavar="OLD=NAME", help="Postgres: a node in a recorded one's place."),
]
Resume = Annotated[
    str, typer.Option(metavar="ID", help="Postgres: go on with a replay that was broken off.")
]
Force = Annotated[bool, typer.Option("--force", help="Postgres: onto the recorded one.")]
Coordinator = Annotated[
    str | None, typer.Option(metavar="NAME", help="Postgres: the target's, if it knows several.")
]
Run = Annotated[str, typer.Option(metavar="RUN", help="Model: whose load; the only one.")]
ScenarioFile = Annotated[
    Path | None,
    typer.Option("--scenario", metavar="FILE", help="Model, a log: if it is not where it was."),
]
CaseName = Annotated[
    str,
    typer.Option(
        "--order", metavar="NAME", help="Model: which load, if a run has several; a log: this one."
    ),
]
Subscribers = Annotated[
    int, typer.Option(metavar="N", min=0, max=99, help="Model: so many; 0: as recorded.")
]
SyncEvery = Annotated[
    str | None, typer.Option(metavar="1s", help="Model: how often agents deliver.")
]
Timings = Annotated[
    list[str] | None,
    typer.Option("--timing", metavar='LINK="constant 5ms"', help="Model: a delay; again for more."),
]
Sets = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Model: as `sweep` has it; again for more."),
]
Seeds = Annotated[
    str, typer.Option(metavar="A..B", help="Model: a trial with each; as it was recorded.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="Where divergences go, and rows if it is said (.twopc/replays/…)."
    ),
]
Limit = Annotated[int, typer.Option("--max-divergences", metavar="N", min=0, help="Show so many.")]
