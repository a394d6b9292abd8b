"""``twopc diff``: where two runs differ."""

from __future__ import annotations

from typing import Annotated

import typer

from twopc.sim.cli.completion import run_names
from twopc.sim.cli.exits import PASS, SAFETY

_HELP = "Directory of a run, its history.jsonl, or the name of a scenario, which stands for its latest run."


def diff(
    one: Annotated[str, typer.Argument(metavar="RUN1", help=_HELP, autocompletion=run_names)],
    other: Annotated[
        str, typer.Argument(metavar="RUN2", help="The other run.", autocompletion=run_names)
    ],
    order: Annotated[str, typer.Option(help="Show only this order.")] = "",
    side: Annotated[
        bool,
        typer.Option(
            "--side-by-side/--first", help="Show whole orders, or their first difference."
        ),
    ] = False,
) -> None:
    """Compare two runs and show the first difference of each order. Exit code 1 if there is one.

    Times, identifiers and row versions are not compared.
    """
    from twopc.sim.cli.report import chosen, find
    from twopc.sim.report import terminal
    from twopc.sim.report.diff import differences, side_by_side
    from twopc.sim.report.history import by_order, read

    left, right = (chosen(read(find(run)), order) for run in (one, other))
    result = differences(left, right)
    out = terminal.console()
    own, others = dict(by_order(left)), dict(by_order(right))
    for difference in result:
        name = difference.order
        if name not in own or name not in others:
            out.print(f"{name}\n  only in {one if name in own else other}", markup=False)
        elif side:
            text = side_by_side(own[name], others[name], width=out.width)
            out.print(f"{name}\n{text}", markup=False, end="", soft_wrap=True)
        else:
            out.print(difference.text(), markup=False, soft_wrap=True)
    orders = len({**own, **others})
    same = orders - len(result)
    out.print(f"{same} of {orders} orders went the same way", style="green" if not result else "")
    raise typer.Exit(SAFETY if result else PASS)
