"""``twopc explain``: the events of a run, in sentences."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twopc.sim.cli.completion import run_names

if TYPE_CHECKING:
    from rich.console import Console

    from twopc.sim.report.history import HistoryRecord


def explain(
    run: Annotated[
        str,
        typer.Argument(
            metavar="RUN|FILE",
            help="A run's directory, its history.jsonl, a scenario's name: then its latest run; "
            "or a scenario file: then it is played first.",
            autocompletion=run_names,
        ),
    ],
    order: Annotated[str, typer.Option(help="Show only this order.")] = "",
    out: Annotated[
        Path | None,
        typer.Option("-o", metavar="FILE", help="Write to this file instead of standard output."),
    ] = None,
) -> None:
    """Explain a run in sentences: who waited for whom, what was refused, and why."""
    from twopc.sim.cli.report import chosen, find, write
    from twopc.sim.report import terminal
    from twopc.sim.report.history import read

    history = _played(Path(run)) if _is_scenario(Path(run)) else find(run)
    records = chosen(read(history), order)
    if out is not None:
        write(out, "\n".join(_lines(records)) + "\n")
        return
    _print(records, terminal.console())


def _is_scenario(path: Path) -> bool:
    return path.is_file() and path.suffix in (".yaml", ".yml", ".spec")


def _played(path: Path) -> Path:
    """Play a scenario for this command, without its output; return the history."""
    import dataclasses
    import io

    from twopc.sim.cli.options import PlaceOptions, RunOptions
    from twopc.sim.cli.play import one, theatre_of
    from twopc.sim.report.terminal import console
    from twopc.sim.scenario.check import load
    from twopc.sim.scenario.theatres import BOTH, played

    options = RunOptions(paths=[path], timeline=False)
    if options.settings.on == BOTH:  # one stage is enough
        options = dataclasses.replace(options, place=PlaceOptions(on="postgres"))
    loaded = load(path)

    async def go() -> Path:
        async with theatre_of(options) as stages:
            _, directory = await one(loaded, stages, options, console(io.StringIO()))
            return directory

    return played(options.settings.on, go()) / "history.jsonl"


def _lines(records: Sequence[HistoryRecord]) -> list[str]:
    """Return one sentence per line; of generated orders, only one of each behaviour."""
    from twopc.sim.report.groups import groups
    from twopc.sim.report.story import story

    lines: list[str] = []
    for group in groups(records):
        for order in group.drawn:
            texts = [f"  {sentence}" for sentence in story(order.fold)]
            lines += [*([""] if lines else []), order.name, *texts]
    return lines


def _print(records: Sequence[HistoryRecord], out: Console) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    data = records[0].data or {}
    out.print(Text(str(data.get("scenario", "")), style="bold"))
    if data.get("about"):
        out.print(Padding(Text(str(data["about"]), style="dim"), (0, 0, 0, 2)))
    for line in _lines(records):
        if line.startswith("  "):
            sentence = Table.grid(padding=(0, 1))
            sentence.add_row("   ·", Text(line[2:]))
            out.print(sentence)
        else:
            out.print(Text(f"  {line}" if line else "", style="bold"))
