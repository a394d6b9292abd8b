"""Options that several commands share; those of a run as one record, with the resulting settings.

A setting comes from a flag, the environment, a file, or its default.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from twopc.sim.cli.completion import order_names, stage_names
from twopc.sim.cli.connection_strings import checked_server, parse_nodes
from twopc.sim.settings import RunSettings, load

Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH", help="Scenario files or folders; - reads standard input."),
]
File = Annotated[
    Path, typer.Argument(metavar="FILE", help="A scenario file; - reads standard input.")
]
OrderName = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="Select this order, or 'all' or 'sample:N' of the generated orders.",
        autocompletion=order_names,
    ),
]
OrderNames = Annotated[
    list[str] | None,
    typer.Option(
        "--order",
        metavar="NAME",
        help="Run this order; repeatable. 'all' or 'sample:N' selects among generated orders.",
        autocompletion=order_names,
    ),
]
Expression = Annotated[
    str,
    typer.Option(
        "-k", metavar="EXPR", help="Select orders whose 'scenario::order' matches, as in pytest."
    ),
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="TAG", help="Select scenarios with this tag.")
]
Twins = Annotated[bool, typer.Option("--twins/--no-twins", help="Also run twins, which must fail.")]
Pg = Annotated[
    str | None,
    typer.Option(
        metavar="WHICH",
        help="Server: embedded, a directory with PostgreSQL's programs, or the URL of a running server.",
        callback=checked_server,
    ),
]
Servers = Annotated[
    str | None,
    typer.Option(
        metavar="one|each", help="Number of embedded servers: one for all nodes, or one for each."
    ),
]
Progress = Annotated[
    Literal["auto", "plain", "json"],
    typer.Option(help="auto: a panel on a terminal; plain: lines; json: one event per line."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceOptions:
    """Options that select the stage of scenarios."""

    on: Annotated[
        str | None,
        typer.Option(
            "--on",
            metavar="STAGE",
            help="Stage: postgres, model (in virtual time, without a server), or both.",
            autocompletion=stage_names,
        ),
    ] = None
    pg: Pg = None
    servers: Servers = None
    dsn: Annotated[
        list[str] | None,
        typer.Option("--dsn", metavar="NODE=DSN", help="An existing database for a node."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of a run: selection, stage and output.

    Raises:
        SettingError: a setting has an invalid value.
        typer.BadParameter: an option is no ``NODE=DSN``.
    """

    paths: Paths
    order: OrderNames = None
    k: Expression = ""
    tag: Tags = None
    twins: Twins = True
    place: PlaceOptions = PlaceOptions()
    seed: Annotated[
        str | None, typer.Option(metavar="N", help="Seed of the random number generator.")
    ] = None
    repeat: Annotated[
        str | None,
        typer.Option(metavar="N", help="Run each order N times; all outcomes must be equal."),
    ] = None
    until_fail: Annotated[
        bool, typer.Option("--until-fail", help="Repeat until a run fails, at most 1000 times.")
    ] = False
    jobs: Annotated[
        str | None,
        typer.Option("-j", "--jobs", metavar="N", help="Number of orders run in parallel."),
    ] = None
    timeout: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Time limit of a step, as 500ms or 30s."),
    ] = None
    accept: Annotated[
        bool, typer.Option("--accept", help="Write the outcomes into the file as expectations.")
    ] = False
    keep: Annotated[
        bool, typer.Option("--keep", help="Keep the databases for inspection until Ctrl-C.")
    ] = False
    out: Annotated[
        str | None, typer.Option(metavar="DIR", help="Folder for runs. Default: .twopc/runs.")
    ] = None
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write JUnit XML to this file.")
    ] = None
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the HTML page of one scenario to this file."),
    ] = None
    progress: Progress = "auto"
    timeline: Annotated[
        bool | None, typer.Option(help="Show the timeline. Default for a single file.")
    ] = None
    fault: Annotated[list[str] | None, typer.Option("--fault", hidden=True)] = None
    crash_matrix: Annotated[
        bool,
        typer.Option(
            "--crash-matrix",
            help="Instead, inject a fault at every point that each order reaches, and check the outcomes.",
        ),
    ] = False
    cell: Annotated[
        str,
        typer.Option(
            "--cell",
            metavar="TEXT",
            help="With --crash-matrix, select cells whose name contains this text.",
        ),
    ] = ""
    commit: Annotated[
        str,
        typer.Option(
            "--commit",
            metavar="VARIANT|all",
            help="With --crash-matrix, variants of the commit protocol.",
        ),
    ] = ""
    csv: Annotated[
        Path | None,
        typer.Option(
            "--csv", metavar="FILE", help="Write the cells of --crash-matrix to this file."
        ),
    ] = None

    settings: RunSettings = dataclasses.field(init=False)
    """The effective settings, with the options above first."""
    nodes: Mapping[str, str] = dataclasses.field(init=False)
    """Connection strings of existing databases, by node."""

    def __post_init__(self) -> None:
        place = self.place
        chosen = settings(
            on=place.on, pg=place.pg, servers=place.servers, seed=self.seed, repeat=self.repeat,
            jobs=self.jobs, timeout=self.timeout, out=self.out,
        )  # fmt: skip
        object.__setattr__(self, "settings", chosen)
        object.__setattr__(self, "nodes", parse_nodes(place.dsn or (), "--dsn"))


def settings(**flags: Any) -> RunSettings:
    """Return the effective settings, with the flags first.

    Raises:
        SettingError: a setting has an invalid value.
    """
    return load(flags, environment=os.environ, start=Path.cwd())


def seeds(text: str) -> range:
    """Parse seeds such as ``1..100``, or a single one.

    Raises:
        typer.BadParameter: the text is neither.
    """
    first, dots, last = text.partition("..")
    try:
        return range(int(first), int(last if dots else first) + 1)
    except ValueError:
        raise typer.BadParameter("write them as 1..100, or one", param_hint="--seeds") from None
