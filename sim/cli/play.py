"""Plays the files of a command line in turn, on one theatre, with a directory for each run."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import typer

from twopc.errors import ScenarioError
from twopc.signals import stop_event
from twopc.sim.cli.exits import NOTHING, PASS, USAGE, worst
from twopc.sim.cli.progress_lines import ticking
from twopc.sim.cli.show_run import Show, broken
from twopc.sim.report import terminal
from twopc.sim.report.forms import total
from twopc.sim.report.groups import groups as groups_of
from twopc.sim.report.history import History, HistoryRecord
from twopc.sim.report.run_files import RunFiles
from twopc.sim.scenario.cases import groups
from twopc.sim.scenario.run import run
from twopc.sim.scenario.theatres import THEATRES, TheatreOptions, theatre
from twopc.sim.scenario.values import Selection

if TYPE_CHECKING:
    from rich.console import Console

    from twopc.server.early_start import ServerAhead
    from twopc.sim.cli.options import RunOptions
    from twopc.sim.scenario.check import LoadedScenario
    from twopc.sim.scenario.stage import Theatre


def nothing_text(tags: Sequence[str] | None, expression: str | None) -> str:
    """Describe a selection by ``--tag`` and ``-k`` that fits no order of any scenario."""
    tagged = f" of a scenario with --tag {' or '.join(tags)}" if tags else ""
    return f"there is no order{tagged}" + (f" that matches -k {expression!r}" if expression else "")


def selection_of(options: RunOptions) -> Selection:
    """Return what is to be played."""
    settings = options.settings
    return Selection(
        orders=tuple(options.order or ()),
        courses=settings.orders,
        expression=options.k,
        tags=tuple(options.tag or ()),
        twins=options.twins,
        seed=settings.seed,
        repeat=settings.repeat,
        until_fail=options.until_fail,
        jobs=settings.jobs,
        step_timeout_ms=settings.timeout_ms,
    )


def place_of(options: RunOptions, ahead: ServerAhead | None = None) -> TheatreOptions:
    """Return the options of the stage."""
    return TheatreOptions(
        pg=options.settings.pg,
        servers=options.settings.servers,
        dsns=options.nodes,
        keep=options.keep,
        seed=options.settings.seed,
        ahead=ahead,
    )


async def play(
    loaded: Sequence[LoadedScenario],
    options: RunOptions,
    *,
    records: dict[str, Sequence[HistoryRecord]] | None = None,
    ahead: ServerAhead | None = None,
) -> int:
    """Play the files and report the results. Return the exit code.

    Args:
        ahead: the server on which the files are played, if it is being started already.
        records: receives the history of each file that could be played.
    """

    if options.timeline is None:
        options = dataclasses.replace(options, timeline=len(loaded) == 1)
    selection = selection_of(options)
    for name in selection.orders:
        one_name = dataclasses.replace(selection, orders=(name,))
        if not any(groups(each, one_name) for each in loaded):
            print(
                f"nothing selected: no order has the name {name!r}, or it does not match",
                file=sys.stderr,
            )
            return NOTHING
    chosen = [each for each in loaded if groups(each, selection)]
    if not chosen:
        print(f"nothing selected: {nothing_text(options.tag, options.k)}", file=sys.stderr)
        return NOTHING
    console = terminal.console(
        sys.stderr if options.as_json or options.progress == "json" else None
    )
    codes: list[int] = []
    runs: list[Sequence[HistoryRecord]] = []
    try:
        async with theatre_of(options, ahead) as stages:
            for each in chosen:
                try:
                    code, _ = await one(each, stages, options, console, runs)
                    codes.append(code)
                    if records is not None:
                        records[each.document.path] = runs[-1]
                except ScenarioError as error:  # the other files can still be played
                    print(error, file=sys.stderr)
                    codes.append(USAGE)
            if stages.kept:
                await _keep(stages.kept)
    finally:  # also if the run fails
        write_all(runs, junit=options.junit, html=options.html)
    return worst(codes)


def theatre_of(options: RunOptions, ahead: ServerAhead | None = None) -> Theatre:
    """Return the theatre of the selected stage.

    Raises:
        typer.BadParameter: there is no such stage.
        ConfigurationError: the stage is not available.
    """
    on = options.settings.on
    if on not in THEATRES:
        raise typer.BadParameter(
            f"there is no stage '{on}'; there is {', '.join(THEATRES)}", param_hint="--on"
        )
    return theatre(on, place_of(options, ahead))


async def _keep(kept: Sequence[tuple[str, str, str]]) -> None:
    """Print where the databases are, and keep them until a signal arrives."""
    for order, node, dsn in kept:
        print(f'{order}: {node}: psql "{dsn}"', file=sys.stderr)
    enough = stop_event()
    print("kept until Ctrl-C", file=sys.stderr)  # last: Ctrl-C may follow
    await enough.wait()


async def one(
    loaded: LoadedScenario,
    stages: Theatre,
    options: RunOptions,
    console: Console,
    runs: list[Sequence[HistoryRecord]] | None = None,
) -> tuple[int, Path]:
    """Play one file and report the result. Return the exit code, and the directory of the run's files.

    Args:
        runs: receives the history as soon as the run begins.
    """
    scenario, selection = loaded.scenario, selection_of(options)
    terminal.head(
        console,
        loaded.document.path,
        scenario.about if options.timeline else "",
        scenario.topology.nodes,
        selection.seed if selection.seed is not None else scenario.seed,
    )
    began = time.perf_counter()
    seed = _seed(loaded, options)
    with RunFiles.create(scenario.name, Path(options.settings.out), seed=seed) as files:
        environment = _environment(options, seed)
        files.write_environment(environment)
        history = History(files.history)
        if runs is not None:
            runs.append(history.records)
        show = Show(
            loaded, console, history, files,
            timeline=bool(options.timeline), as_json=options.progress == "json",
        )  # fmt: skip
        try:
            async with ticking(
                history, show, console,
                scenario=scenario, panel=options.progress == "auto" and console.is_terminal,
            ):  # fmt: skip
                await run(
                    loaded, stages, history,
                    selection=selection, listener=show.case, groups=show.group,
                )  # fmt: skip
        except (Exception, asyncio.CancelledError) as error:
            files.write_verdict(broken(loaded, error))
            raise
        finally:
            _of_loads(history.records, files, environment, console)
        text = files.finish(history.records, html=options.html is not None)
    total(history.records, groups_of(history.records), console, time.perf_counter() - began)
    if options.as_json:
        print(json.dumps({**text, "directory": str(files.directory)}, ensure_ascii=False))
    if options.progress == "json":
        from twopc.sim.report import progress

        print(
            progress.as_json(
                "run", verdict=text["verdict"], scenario=scenario.name, directory=files.directory
            ),
            flush=True,
        )
    code = int(text["exit_code"])
    if options.accept and (show.failures or show.unsaid):
        from twopc.sim.cli.accept import accept

        done = accept(loaded, [*show.failures, *show.unsaid], console)
        code = PASS if done else code or USAGE
    return code, files.directory


def _seed(loaded: LoadedScenario, options: RunOptions) -> int:
    """Return the seed of the options, else that of the file."""
    scenario = loaded.scenario
    of_load = scenario.workload.seed if scenario.workload is not None else None
    lines = (options.settings.seed, of_load, scenario.seed)
    return next((seed for seed in lines if seed is not None), 0)


def _of_loads(
    records: Sequence[HistoryRecord],
    files: RunFiles,
    environment: Mapping[str, Any],
    console: Console,
) -> None:
    """Write what only loads have: all drawn parameters, and plots."""
    drew = {each.order: each.data for each in records if each.kind == "drew"}
    if drew:
        from twopc.sim.workload.plots import (
            NO_PLOTS,
            is_drawable,
            write_plots,
        )  # most files have no load

        files.write_environment({**environment, "drew": drew})
        if is_drawable():
            write_plots(records, files.directory)
        else:
            terminal.remark(console, f"– {NO_PLOTS}")


def _environment(options: RunOptions, seed: int) -> dict[str, Any]:
    """Return what a repetition needs: versions, settings, the seed. No address, as it may hold a password."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    def version_of(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return ""

    settings = dataclasses.asdict(options.settings)
    if "://" in options.settings.pg or "=" in options.settings.pg:
        settings["pg"] = "URL"
    return {
        "versions": {
            "twopc": version_of("twopc"),
            "psycopg": version_of("psycopg"),
            "python": platform.python_version(),
        },
        "platform": platform.platform(),
        "on": options.settings.on,
        "seed": seed,
        "settings": settings,
        "selection": dataclasses.asdict(selection_of(options)),
        "nodes_given": sorted(options.nodes),
    }


_TOTALS = ("tests", "failures", "errors")


def junit_of(runs: Sequence[Sequence[HistoryRecord]]) -> str:
    """Return the test suites of several runs as one document."""
    from twopc.sim.report.junit import junit

    roots = [ElementTree.fromstring(junit(records)) for records in runs]
    if len(roots) == 1:
        return junit(runs[0])
    merged = ElementTree.Element("testsuites")
    for name in _TOTALS:
        merged.set(name, str(sum(int(root.get(name, 0)) for root in roots)))
    merged.set("time", f"{sum(float(root.get('time', 0)) for root in roots):.3f}")
    for root in roots:
        merged.extend(root)
    ElementTree.indent(merged)
    text = ElementTree.tostring(merged, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def write_all(
    runs: Sequence[Sequence[HistoryRecord]], *, junit: Path | None, html: Path | None
) -> None:
    """Write the requested files.

    Raises:
        ConfigurationError: a file cannot be written.
    """
    from twopc.sim.cli.report import write

    runs = [records for records in runs if records]
    if not runs:
        return
    if junit is not None:
        write(junit, junit_of(runs))
    if html is not None:
        from twopc.sim.report.html import page

        write(html, page(runs[0]))
