"""``twopc run``: play scenario files and check what they claim."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sim.cli.options import (
    Accept,
    AsJson,
    CellName,
    Commit,
    CrashMatrix,
    Csv,
    Dsns,
    Expression,
    Faults,
    Html,
    Jobs,
    Junit,
    Keep,
    On,
    OrderName,
    Out,
    Paths,
    Pg,
    Progress,
    Repeat,
    Seed,
    Servers,
    Tags,
    Timeline,
    Timeout,
    Twins,
    UntilFail,
    dsns,
    settings,
)

if TYPE_CHECKING:
    from sim.cli.playing import Options
    from sim.scenario.check import Loaded

_NO_FAULTS = "faults are performed by no stage so far; a file may describe them, and 'twopc check' reads them"


def run(
    paths: Paths,
    order: OrderName = "",
    k: Expression = "",
    tag: Tags = None,
    twins: Twins = True,
    on: On = None,
    pg: Pg = None,
    servers: Servers = None,
    dsn: Dsns = None,
    seed: Seed = None,
    repeat: Repeat = None,
    until_fail: UntilFail = False,
    jobs: Jobs = None,
    timeout: Timeout = None,
    accept: Accept = False,
    keep: Keep = False,
    out: Out = None,
    as_json: AsJson = False,
    junit: Junit = None,
    html: Html = None,
    progress: Progress = "auto",
    timeline: Timeline = None,
    fault: Faults = None,
    crash_matrix: CrashMatrix = False,
    cell: CellName = "",
    commit: Commit = "",
    csv: Csv = None,
) -> None:
    """Play scenarios and check what they claim."""
    from sim.cli.accept import refuse_to_accept
    from sim.cli.files import load_all, scenario_files
    from sim.cli.playing import Options, play, selection
    from sim.scenario.selecting import selector
    from sim.scenario.theatres import BOTH, played

    _refuse(fault, {} if crash_matrix else {"--cell": cell, "--commit": commit, "--csv": csv})
    chosen = settings(
        pg=pg, servers=servers, seed=seed, repeat=repeat, jobs=jobs, timeout=timeout, out=out, on=on
    )
    files = scenario_files(paths)
    if accept:
        refuse_to_accept(files, os.environ)
    if html is not None and len(files) > 1:
        raise typer.BadParameter("it is the page of one scenario", param_hint="--html")
    if k:
        selector(k)  # what is wrong with it is said before anything else
    options = Options(
        settings=chosen,
        selection=selection(chosen, order=order, k=k, tags=tag, twins=twins, until_fail=until_fail),
        on=chosen.on,
        dsns=dsns(dsn),
        accept=accept, keep=keep, as_json=as_json, progress=progress, junit=junit, html=html,
        timeline=len(files) == 1 if timeline is None else timeline,
    )  # fmt: skip
    loaded = load_all(files)
    for each in loaded:
        if each.document.problems:
            print(each.document.report(), file=sys.stderr)
    if crash_matrix:
        raise typer.Exit(_matrix(loaded, options, cell, commit, csv, jobs))
    if chosen.on == BOTH:
        from sim.cli.both import play_both

        raise typer.Exit(play_both(loaded, options))
    raise typer.Exit(played(chosen.on, play(loaded, options)))


def _refuse(fault: Sequence[str] | None, of_matrix: Mapping[str, object]) -> None:
    """Say which options mean nothing here."""
    if fault:
        raise typer.BadParameter(_NO_FAULTS, param_hint="--fault")
    for name, given in of_matrix.items():
        if given:
            raise typer.BadParameter("it goes with --crash-matrix", param_hint=name)


def _matrix(
    loaded: Sequence[Loaded], options: Options, cell: str, commit: str, csv: Path | None,
    jobs: str | None,
) -> int:  # fmt: skip
    """Every fault at every point that a clean run comes by; returns the exit code."""
    from sim.cli.crash_matrix import Wanted, play_matrix, variants, workers
    from sim.scenario.theatres import TheatreOptions

    chosen = options.settings
    place = TheatreOptions(
        pg=chosen.pg, servers=chosen.servers, dsns=options.dsns, seed=chosen.seed
    )
    wanted = Wanted(
        on=chosen.on, options=place, selection=options.selection, cell=cell, csv=csv,
        commits=variants(commit), html=options.html, workers=workers(jobs, chosen.jobs),
    )  # fmt: skip
    return play_matrix(loaded, wanted)
