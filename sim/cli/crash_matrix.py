"""``twopc run --crash-matrix``: faults at every point that a scenario reaches, each played and judged."""

from __future__ import annotations

import dataclasses
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from twopc.protocol.variants import VARIANTS
from twopc.sim.cli.exits import NOTHING, PASS, SAFETY, worst
from twopc.sim.cli.play import place_of, selection_of
from twopc.sim.faults.matrix import (
    Derive,
    MatrixCell,
    MatrixResult,
    MatrixSetup,
    cases,
    left_out,
    needs_a_server_each,
    serve,
)
from twopc.sim.faults.matrix_page import Square, figures, write_csv, write_page
from twopc.sim.faults.matrix_pool import ProcessPool
from twopc.sim.scenario.theatres import BOTH

if TYPE_CHECKING:
    from twopc.sim.cli.options import RunOptions
    from twopc.sim.scenario.check import LoadedScenario

_SAY_EVERY = 50


def play_matrix(loaded: Sequence[LoadedScenario], options: RunOptions) -> int:
    """Play the matrix of each file. Return the exit code, which is 1 if a cell is broken."""
    commits = _variants(options.commit)
    if options.settings.on == BOTH:
        raise typer.BadParameter("a matrix is played on one stage", param_hint="--on")
    if options.csv is not None and len(loaded) > 1:
        raise typer.BadParameter("it is the table of one scenario", param_hint="--csv")
    return worst([_play(each, options, commits) for each in loaded])


def _variants(name: str) -> tuple[str, ...]:
    """Return the variants of two-phase commit that a name selects: ``all``, one, or if empty those of the file.

    Raises:
        BadParameter: there is no variant with that name.
    """
    if name in ("", "all"):
        return tuple(VARIANTS) if name else ()
    if name not in VARIANTS:
        raise typer.BadParameter(f"there is {', '.join(VARIANTS)}; or all", param_hint="--commit")
    return (name,)


def _workers(options: RunOptions) -> int:
    """Return the requested number of processes, else the number of cores."""
    jobs = options.settings.jobs
    return jobs if options.jobs or jobs > 1 else os.cpu_count() or 1


def _play(loaded: LoadedScenario, options: RunOptions, commits: tuple[str, ...]) -> int:
    path, on, workers = loaded.document.path, options.settings.on, _workers(options)
    began = time.monotonic()
    setup = MatrixSetup(
        path=path, on=on, options=dataclasses.replace(place_of(options), keep=False),
        selection=selection_of(options), commits=commits,
    )  # fmt: skip
    squares: list[Square] = []
    unsettled = 0
    with ProcessPool(serve, setup, workers) as pool:
        cells = _derived(loaded, setup, pool, options.cell)
        places = {str(cell): place for place, cell in enumerate(cells)}
        try:
            for _, result in pool.results(cells):
                unsettled += result.unsettled
                squares.append(_square(path, result, on))
                if len(squares) % _SAY_EVERY == 0:
                    took = time.monotonic() - began
                    print(f"{len(squares)} of {len(cells)} cells, {took:.0f} s", file=sys.stderr)
        except KeyboardInterrupt:
            print("interrupted: what was played is reported", file=sys.stderr)
    seconds = time.monotonic() - began
    squares.sort(key=lambda square: places[square.name])
    print(f"{path}: {figures(squares, seconds)}, {workers} at once")
    _say_left_out(loaded, setup)
    if unsettled:
        text = "time" if unsettled == 1 else "times"
        print(
            f"{unsettled} {text} a branch could not be settled at once, which its recovery did later",
            file=sys.stderr,
        )
    if options.csv is not None:
        write_csv(options.csv, squares)
    if options.html is not None:
        title = f"{loaded.scenario.name}: the crash matrix"
        write_page(options.html, title=title, squares=squares, seconds=seconds)
    if not squares:
        return NOTHING
    return SAFETY if any(square.state == "broken" for square in squares) else PASS


def _derived(
    loaded: LoadedScenario, setup: MatrixSetup, pool: ProcessPool, part: str
) -> list[MatrixCell]:
    """Return every cell whose name contains `part`; cells that need a server each are last, so that others share
    one.
    """
    orders = [case.name for case in cases(loaded, setup.selection, setup.commits)]
    derived = {job.order: cells for job, cells in pool.results(Derive(name) for name in orders)}
    every = [cell for name in orders for cell in derived[name] if part in str(cell)]
    return sorted(every, key=lambda cell: needs_a_server_each(cell, loaded.scenario))


def _say_left_out(loaded: LoadedScenario, setup: MatrixSetup) -> None:
    """Print the number of orders that a variant does not allow, and the reasons."""
    why = Counter(left_out(loaded, setup.selection, setup.commits).values())
    for reason, count in why.items():
        orders = "1 order" if count == 1 else f"{count} orders"
        print(f"  {orders} left out: {reason}")


def _square(path: str, result: MatrixResult, on: str) -> Square:
    """Return a cell's square for the page; print a broken cell at once, with the command that repeats it."""
    cell = result.cell
    where = "" if on == "postgres" else f" --on {on}"
    variant = f" --commit {cell.commit}" if cell.commit else ""
    command = f"twopc run {shlex.quote(path)} --crash-matrix{where}{variant} --cell {shlex.quote(str(cell))}"
    state = "broken" if result.broken else "ok" if result.struck else "empty"
    if result.broken:
        print("\n".join([f"✗ {cell}", *(f"    {what}" for what in result.broken)]))
        print(f"    again: {command}")
    repeated = f" #{cell.nth}" if cell.nth > 1 else ""
    return Square(
        row=f"{cell.order}: {cell.do}",
        column=cell.point + repeated,
        name=str(cell),
        state=state,
        outcome=result.outcomes,
        seconds=result.seconds,
        broken=result.broken,
        command=command,
    )
