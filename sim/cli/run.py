"""``twopc run``: play scenario files and check their expectations."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING

import typer

from twopc.sim.cli.command import command
from twopc.sim.cli.options import RunOptions

if TYPE_CHECKING:
    from twopc.server.early_start import ServerAhead
    from twopc.sim.scenario.check import LoadedScenario
    from twopc.sim.scenario.model import Scenario

_NO_FAULTS = "faults are performed by no stage so far; a file may describe them, and 'twopc check' reads them"


@command
def run(options: RunOptions) -> None:
    """Run scenarios and check their expectations."""
    from twopc.sim.cli.accept import refuse_to_accept
    from twopc.sim.cli.files import load_all, scenario_files
    from twopc.sim.scenario.selection import selector
    from twopc.sim.scenario.theatres import BOTH, played

    _refuse(options)
    files = scenario_files(options.paths)
    if options.accept:
        refuse_to_accept(files, os.environ)
    if options.html is not None and len(files) > 1:
        raise typer.BadParameter("it is the page of one scenario", param_hint="--html")
    if options.k:
        selector(options.k)  # so that an error in it is reported first
    loaded = load_all(files)
    for each in loaded:
        if each.document.problems:
            print(each.document.report(), file=sys.stderr)
    on = options.settings.on
    if options.crash_matrix:
        from twopc.sim.cli.crash_matrix import play_matrix

        raise typer.Exit(play_matrix(loaded, options))
    if on == BOTH:
        from twopc.sim.cli.comparison import play_both

        raise typer.Exit(play_both(loaded, options))
    with _ahead(loaded, options) as ahead:
        from twopc.sim.cli.play import play  # imported while the server starts

        code = played(on, play(loaded, options, ahead=ahead))
    raise typer.Exit(code)


def _ahead(
    loaded: Sequence[LoadedScenario], options: RunOptions
) -> AbstractContextManager[ServerAhead | None]:
    """Return a context that starts the shared server in advance, or does nothing if none will be started."""
    settings = options.settings
    starts = settings.on == "postgres" and settings.servers == "one" and not options.nodes
    if not starts or not any(_shares(each.scenario) for each in loaded):
        return nullcontext()
    from twopc.server.choice import choose, kind_of  # imports all modules that start servers
    from twopc.server.early_start import ServerAhead  # imports psycopg

    if kind_of(settings.pg) == "url":
        return nullcontext()
    return ServerAhead(partial(choose, settings.pg))


def _shares(scenario: Scenario) -> bool:
    """Return whether a scenario can be played on a shared server: it has no faults and no settings of its own."""
    return not scenario.topology.settings and not scenario.faults


def _refuse(options: RunOptions) -> None:
    """Raise `typer.BadParameter` for an option that has no meaning here."""
    if options.fault:
        raise typer.BadParameter(_NO_FAULTS, param_hint="--fault")
    if not options.crash_matrix:
        for name in ("cell", "commit", "csv"):
            if getattr(options, name):
                raise typer.BadParameter("it goes with --crash-matrix", param_hint=f"--{name}")
