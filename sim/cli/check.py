"""``twopc check``: is a scenario file right? Starts nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from sim.cli.exits import PASS, USAGE


def check(
    paths: Annotated[list[Path], typer.Argument(help="Scenario files, or folders of them.")],
    strict: Annotated[bool, typer.Option(help="Warnings fail as well.")] = False,
) -> None:
    """Read scenario files and say everything that is wrong with them, with line and column."""
    from sim.cli.files import scenario_files
    from sim.scenario.check import examine
    from twopc.errors import ScenarioError

    code = PASS
    for path in scenario_files(paths):
        try:
            document, _ = examine(path)
        except ScenarioError as error:
            print(error, file=sys.stderr)
            code = USAGE
            continue
        if document.problems:
            print(document.report(), file=sys.stderr)
        if document.errors or (strict and document.problems):
            code = USAGE
        else:
            print(f"{path}: ok")
    raise typer.Exit(code)
