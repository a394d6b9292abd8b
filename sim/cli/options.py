"""Options that several commands have; those of a run as one record, and the settings behind them.

A setting is a flag, or the environment's, or a file's, or a default.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from twopc.sim.cli.completion import order_names, stage_names
from twopc.sim.settings import RunSettings, load

Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH", help="Scenario files, or folders of them; - reads one."),
]
File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A scenario file; - reads standard input.")
]
OrderName = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Only the order of this name; or 'all' or 'sample:N' of those that are generated.",
        autocompletion=order_names,
    ),
]
OrderNames = Annotated[
    list[str] | None,
    typer.Option(
        "--order",
        metavar="NAME",
        help="Only the order of this name, again for more; or 'all' or 'sample:N' of those that are generated.",
        autocompletion=order_names,
    ),
]
Expression = Annotated[
    str,
    typer.Option(
        "-k", metavar="EXPR", help="Only orders whose 'scenario::order' matches, as in pytest."
    ),
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Only scenarios with this tag.")
]
Twins = Annotated[
    bool, typer.Option("--twins/--no-twins", help="Play twins too: orders that must fail.")
]
Pg = Annotated[
    str | None,
    typer.Option(
        metavar="WHICH",
        help="embedded, a directory of PostgreSQL's programs, or the URL of a server.",
    ),
]
Servers = Annotated[
    str | None,
    typer.Option(metavar="one|each", help="One embedded server, or one for each node."),
]
Progress = Annotated[
    Literal["auto", "plain", "json"],
    typer.Option(help="A panel on a terminal; lines; or an event a line for tools."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    """Where scenarios are played."""

    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="STAGE",
            help="Where: postgres, model (in virtual time, no server), or both.",
            autocompletion=stage_names,
        ),
    ] = None
    pg: Pg = None
    servers: Servers = None
    dsn: Annotated[
        list[str] | None,
        typer.Option("--dsn", metavar="NODE=DSN", help="A node's database that is there already."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """What is played, where, and how it is reported.

    Raises:
        SettingError: a setting has a value that it cannot have.
        typer.BadParameter: what is no ``NODE=DSN``.
    """

    paths: Paths
    order: OrderNames = None
    k: Expression = ""
    tag: Tags = None
    twins: Twins = True
    place: PlaceOptions = PlaceOptions()
    seed: Annotated[str | None, typer.Option(metavar="N", help="Of all chance.")] = None
    repeat: Annotated[
        str | None, typer.Option(metavar="N", help="Play each order so often; all must go alike.")
    ] = None
    until_fail: Annotated[
        bool, typer.Option("--until-fail", help="Repeat until one fails, 1000 times at most.")
    ] = False
    jobs: Annotated[
        str | None, typer.Option("-j", "--jobs", metavar="N", help="So many orders at once.")
    ] = None
    timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="How long a step may take, as 500ms or 30s."),
    ] = None
    accept: Annotated[
        bool, typer.Option("--accept", help="Let the file expect what has happened.")
    ] = False
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the databases for a look, until Ctrl-C.")
    ] = False
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Where runs are written (.twopc/runs).")
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML there.")] = (
        None
    )
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the page of one scenario there.")
    ] = None
    progress: Progress = "auto"
    timeline: Annotated[
        bool | None, typer.Option(help="Show what happened when; on for a single file.")
    ] = None
    fault: Annotated[list[str] | None, typer.Option("--fault", hidden=True)] = None
    crash_matrix: Annotated[
        bool,
        typer.Option(
            "--crash-matrix",
            help="Instead: faults at every point that each order comes by, judged.",
        ),
    ] = False
    cell: Annotated[
        str,
        typer.Option(
            "--cell", metavar="TEXT", help="Of the matrix, cells whose name contains this."
        ),
    ] = ""
    commit: Annotated[
        str,
        typer.Option(
            "--commit", metavar="VARIANT|all", help="Of the matrix, in these variants of commit."
        ),
    ] = ""
    csv: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write the matrix' cells there.")
    ] = None

    settings: RunSettings = dataclasses.field(init=False)
    """What holds, the options above first."""
    nodes: Mapping[str, str] = dataclasses.field(init=False)
    """Connection strings of databases that are there already."""

    def __post_init__(self) -> None:
        place = self.place
        chosen = settings(
            on=place.on, pg=place.pg, servers=place.servers, seed=self.seed, repeat=self.repeat,
            jobs=self.jobs, timeout=self.timeout, out=self.out,
        )  # fmt: skip
        object.__setattr__(self, "settings", chosen)
        object.__setattr__(self, "nodes", _nodes(place.dsn or ()))


def settings(**flags: Any) -> RunSettings:
    """The settings that hold here, the flags first.

    Raises:
        SettingError: one has a value that it cannot have.
    """
    return load(flags, environment=os.environ, start=Path.cwd())


def seeds(text: str) -> range:
    """Of ``1..100``, or of one.

    Raises:
        typer.BadParameter: it is neither.
    """
    first, dots, last = text.partition("..")
    try:
        return range(int(first), int(last if dots else first) + 1)
    except ValueError:
        raise typer.BadParameter("write them as 1..100, or one", param_hint="--seeds") from None


def _nodes(given: Sequence[str]) -> dict[str, str]:
    """``NODE=DSN`` options as a mapping."""
    nodes: dict[str, str] = {}
    for each in given:
        node, equals, dsn = each.partition("=")
        if not equals or not node or not dsn:
            raise typer.BadParameter("write NODE=DSN", param_hint="--dsn")
        nodes[node] = dsn
    return nodes
