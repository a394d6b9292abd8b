"""``twopc lessons``: the list of lessons, and how to begin one."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def lessons(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the lessons: number, title, minutes, and what each teaches."""
    from twopc.sim.explore.lessons.source import lessons as every_lesson

    every = every_lesson()
    if as_json:
        listing = [
            {
                "number": each.number,
                "title": each.title,
                "minutes": each.minutes,
                "teaches": each.teaches,
                "questions": len(each.questions),
            }
            for each in every
        ]
        print(json.dumps(listing, indent=2, ensure_ascii=False))
        return
    from rich.table import Table

    from twopc.sim.report import terminal

    out = terminal.console()
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for each in every:
        minutes = f"{each.minutes} min"
        table.add_row(str(each.number), each.title, minutes, each.teaches)
    out.print(table)
    out.print(
        f"{len(every)} lessons; `twopc explore --lesson 1` opens the first in the browser",
        style="dim",
    )
