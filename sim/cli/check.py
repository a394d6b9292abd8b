"""``twopc check``: check scenario files; starts nothing unless a server is to check them too."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twopc.sim.cli.exits import PASS, USAGE
from twopc.sim.cli.options import Paths, Pg, settings

if TYPE_CHECKING:
    from twopc.sim.scenario.check import LoadedScenario
    from twopc.sim.scenario.text import Document


def check(
    paths: Paths,
    strict: Annotated[bool, typer.Option(help="Treat warnings as errors.")] = False,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also have a server parse every statement.")
    ] = False,
    on: Annotated[
        str | None,
        typer.Option(metavar="STAGE", help="model: also report what the model does not support."),
    ] = None,
    pg: Pg = None,
) -> None:
    """Check scenario files without running them; report every error with line and column."""
    from twopc.errors import ScenarioError
    from twopc.sim.cli.files import scenario_files
    from twopc.sim.scenario.check import examine

    chosen = settings(pg=pg, on=on)
    code = PASS
    read: list[tuple[Path, Document, LoadedScenario | None]] = []
    for path in scenario_files(paths):
        try:
            read.append((path, *examine(path)))
        except ScenarioError as error:
            print(error, file=sys.stderr)
            code = USAGE
    if chosen.on != "postgres":
        from twopc.sim.scenario.model_check import check_model

        for _, document, one in read:
            if one is not None and not document.errors:
                check_model(one)
    if connect:
        whole = [one for _, document, one in read if one is not None and not document.errors]
        import asyncio  # only needed to ask a server

        asyncio.run(_ask(whole, chosen.pg))
    for path, document, _ in read:
        if document.problems:
            print(document.report(), file=sys.stderr)
        if document.errors or (strict and document.problems):
            code = USAGE
        else:
            print(f"{path}: ok")
    raise typer.Exit(code)


async def _ask(loaded: Sequence[LoadedScenario], pg: str) -> None:
    """Add to each document the errors that a server reports."""
    from twopc.sim.scenario.connect import check_statements
    from twopc.sim.scenario.postgres_theatre import PostgresTheatre

    async with PostgresTheatre(pg=pg, rewinds=False) as theatre:
        for each in loaded:
            await check_statements(each, theatre)
