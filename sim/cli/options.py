"""Options that several commands have, and the settings behind them: a flag, the environment, a file or a default."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from sim.cli.completion import order_names

if TYPE_CHECKING:
    from sim.settings import Settings

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
On = Annotated[
    str | None,
    typer.Option(
        "--on",
        metavar="STAGE",
        help="Where: postgres, model (in virtual time, no server), or both.",
    ),
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
Dsns = Annotated[
    list[str] | None,
    typer.Option("--dsn", metavar="NODE=DSN", help="A node's database that is there already."),
]
Seed = Annotated[str | None, typer.Option(metavar="N", help="Of all chance.")]
Jobs = Annotated[
    str | None, typer.Option("-j", "--jobs", metavar="N", help="So many orders at once.")
]
Timeout = Annotated[
    str | None,
    typer.Option(metavar="DURATION", help="How long a step may take, as 500ms or 30s."),
]
Out = Annotated[
    str | None, typer.Option(metavar="DIR", help="Where runs are written (.twopc/runs).")
]

Repeat = Annotated[
    str | None, typer.Option(metavar="N", help="Play each order so often; all must go alike.")
]
UntilFail = Annotated[
    bool, typer.Option("--until-fail", help="Repeat until one fails, 1000 times at most.")
]
Accept = Annotated[bool, typer.Option("--accept", help="Let the file expect what has happened.")]
Keep = Annotated[bool, typer.Option("--keep", help="Keep the databases for a look, until Ctrl-C.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")]
Junit = Annotated[Path | None, typer.Option(metavar="FILE", help="Write JUnit XML there.")]
Html = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the page of one scenario there.")
]
Progress = Annotated[
    Literal["auto", "plain", "json"],
    typer.Option(help="A panel on a terminal; lines; or an event a line for tools."),
]
Timeline = Annotated[
    bool | None, typer.Option(help="Show what happened when; on for a single file.")
]
Faults = Annotated[list[str] | None, typer.Option("--fault", hidden=True)]
CrashMatrix = Annotated[
    bool,
    typer.Option(
        "--crash-matrix", help="Instead: faults at every point that each order comes by, judged."
    ),
]
CellName = Annotated[
    str,
    typer.Option("--cell", metavar="TEXT", help="Of the matrix, cells whose name contains this."),
]
Commit = Annotated[
    str,
    typer.Option(
        "--commit", metavar="VARIANT|all", help="Of the matrix, in these variants of commit."
    ),
]
Csv = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Write the matrix' cells there.")
]


def settings(**flags: Any) -> Settings:
    """The settings that hold here, the flags first.

    Raises:
        SettingError: one has a value that it cannot have.
    """
    from sim.settings import load

    return load(flags, environment=os.environ, start=Path.cwd())


def dsns(given: Sequence[str] | None) -> dict[str, str]:
    """``NODE=DSN`` options as a mapping."""
    found: dict[str, str] = {}
    for each in given or ():
        node, equals, dsn = each.partition("=")
        if not equals or not node or not dsn:
            raise typer.BadParameter("write NODE=DSN", param_hint="--dsn")
        found[node] = dsn
    return found
