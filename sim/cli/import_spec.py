"""``twopc import spec`` and ``twopc export spec``: conversion from and to specs of PostgreSQL's isolationtester."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from twopc.sim.cli.exits import PASS, SAFETY
from twopc.sim.cli.options import Pg, settings

import_app = typer.Typer(help="Convert files of other tools to scenarios.", no_args_is_help=True)
export_app = typer.Typer(help="Convert a scenario for other tools.", no_args_is_help=True)

_Out = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="FILE", help="Write to this file instead of standard output."
    ),
]
_Force = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]


@import_app.callback()
def _importing() -> None:
    """Make a scenario of what other tools read."""


@export_app.callback()
def _exporting() -> None:
    """Make of a scenario what other tools read."""


@import_app.command("spec")
def import_spec(
    path: Annotated[Path, typer.Argument(help="A spec of PostgreSQL's isolationtester.")],
    out: _Out = None,
    force: _Force = False,
    expected: Annotated[
        Path | None,
        typer.Option(
            "--expected",
            metavar="FILE",
            help="Play it, and compare what isolationtester would have printed with its expected output; "
            "FILE_0.out to FILE_9.out beside FILE.out are alternatives.",
        ),
    ] = None,
    pg: Pg = None,
) -> None:
    """Convert a spec of PostgreSQL's isolationtester to a scenario file, or compare it with its expected output.

    Its sessions become plain ones at the Publisher, its permutations orders. Nothing is expected of a step
    then: `twopc run FILE --accept` fills in what happened. With --expected it exits with 1 if a permutation differs
    in any line: waits, notices, errors and values.
    """
    from twopc.sim.scenario.check import from_document
    from twopc.sim.scenario.spec import convert

    if expected is not None:
        if out is not None or force:
            raise typer.BadParameter("nothing is written", param_hint="--out, --force")
        raise typer.Exit(_compare(path, expected, settings(pg=pg).pg))
    document = from_document(convert.document(_read(path), str(path))).document
    warnings = document.report(severity="warning")
    if warnings:
        print(warnings, file=sys.stderr)
    _write(convert.as_file(document), out, force)


@export_app.command("spec")
def export_spec(
    path: Annotated[Path, typer.Argument(help="A scenario file.")],
    out: _Out = None,
    force: _Force = False,
) -> None:
    """Print a scenario as a spec of PostgreSQL's isolationtester.

    Its sessions must all be at the Publisher: isolationtester knows one database. What a scenario expects
    has no place in a spec, whose expected output is a file of its own.
    """
    from twopc.sim.scenario.check import load
    from twopc.sim.scenario.spec.export import spec

    _write(spec(load(path)), out, force)


def _compare(path: Path, expected: Path, pg: str) -> int:
    from twopc.server import choose
    from twopc.server.choice import kind_of
    from twopc.sim.scenario.spec.expected_output import agreement
    from twopc.sim.scenario.spec.play import SETTINGS, play

    text = _read(path)
    agreement(expected, [])  # checks the file before a server is started
    server = choose(pg, settings=None if kind_of(pg) == "url" else SETTINGS)
    try:
        result = agreement(expected, asyncio.run(play(text, str(path), server)))
    finally:
        server.stop()
    print(f"{path}: {result.agreeing} of {result.count} permutations as in {result.path}")
    for each in result.differences:
        print(each)
    return SAFETY if result.differences else PASS


def _read(path: Path) -> str:
    from twopc.errors import ScenarioError

    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ScenarioError(f"{path}: cannot read it: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: error: it is not UTF-8") from error


def _write(text: str, out: Path | None, force: bool) -> None:
    from twopc.errors import ScenarioError

    if out is None:
        print(text, end="")
        return
    if out.exists() and not force:
        raise ScenarioError(f"{out} is there already; --force writes over it")
    out.write_text(text, encoding="utf-8")
    print(f"{out}: written", file=sys.stderr)
