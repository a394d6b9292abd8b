"""Option ``--on both``: play the same files on real servers and on the model, and report where the results differ."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from twopc.sim.cli.exits import SAFETY, worst
from twopc.sim.cli.options import RunOptions
from twopc.sim.cli.play import play
from twopc.sim.report import terminal
from twopc.sim.report.groups import groups
from twopc.sim.report.history import HistoryRecord, by_order
from twopc.sim.report.timeline import draw, timeline
from twopc.sim.scenario.agree import Disagreement, compare, free
from twopc.sim.scenario.theatres import played

if TYPE_CHECKING:
    from rich.console import Console

    from twopc.sim.scenario.check import LoadedScenario

#: Stages in the order of their use, and their names in messages.
STAGES = {"postgres": "PostgreSQL", "model": "the model"}


def play_both(loaded: Sequence[LoadedScenario], options: RunOptions) -> int:
    """Play the files on both stages and compare the results. Return the exit code, which is 1 if they differ."""
    for given, name in ((options.accept, "--accept"), (options.keep, "--keep")):
        if given:
            raise typer.BadParameter("it is said of one stage, not of both", param_hint=name)
    out = terminal.console(sys.stderr if options.as_json or options.progress == "json" else None)
    codes: list[int] = []
    results: list[dict[str, Sequence[HistoryRecord]]] = []
    for on, name in STAGES.items():
        out.print(f"on {name}", style="bold")
        first = on == next(iter(STAGES))
        one = dataclasses.replace(
            options, place=dataclasses.replace(options.place, on=on), timeline=False,
            junit=options.junit if first else None, html=options.html if first else None,
        )  # fmt: skip
        results.append({})
        codes.append(played(on, play(loaded, one, records=results[-1])))
    differences = 0
    for each in loaded:
        path = each.document.path
        if each.scenario.workload is not None:
            out.print(f"{path}: no two loads go the same way, and these are not compared")
        elif all(path in records for records in results):
            differences += _compare(path, results[0][path], results[1][path], out)
    return worst([*codes, SAFETY] if differences else codes)


def _compare(
    path: str, one: Sequence[HistoryRecord], other: Sequence[HistoryRecord], out: Console
) -> int:
    """Print the orders of a file in which the two stages differ; return their number."""
    one, other = comparable(one, other)
    of_order: dict[str, list[Disagreement]] = {}
    for difference in compare(one, other):
        of_order.setdefault(difference.order, []).append(difference)
    orders = len({*dict(by_order(one)), *dict(by_order(other))})
    agreed = f"{path}: the model agrees in {orders - len(of_order)} of {orders} orders"
    out.print(agreed, style="" if of_order else "green", highlight=False, soft_wrap=True)
    for name, text in free(one, other).items():
        terminal.remark(out, f"– {name}: PostgreSQL may choose either, and chose otherwise: {text}")
    for name, differences in of_order.items():
        first = differences[0]
        words = first.text(*STAGES.values())
        out.print(f"✗ {name}: {words}", markup=False, style="bold red", soft_wrap=True)
        for more in differences[1:]:
            out.print(f"    {more.text(*STAGES.values())}", markup=False, soft_wrap=True)
        for records, where in ((one, STAGES["postgres"]), (other, STAGES["model"])):
            for group in groups(records):
                for order in group.orders:
                    if order.name == name:
                        terminal.remark(out, f"on {where}:")
                        draw(timeline(order.fold), out)
    return len(of_order)


def comparable(
    one: Sequence[HistoryRecord], other: Sequence[HistoryRecord]
) -> tuple[Sequence[HistoryRecord], Sequence[HistoryRecord]]:
    """Return both histories without the twins that one of the stages cannot play."""
    left_out = {
        str((record.data or {}).get("group"))
        for record in (*one, *other)
        if record.kind == "twin_skipped"
    }
    if not left_out:
        return one, other
    names = {
        name
        for records in (one, other)
        for name, of in by_order(records)
        if any((each.data or {}).get("group") in left_out for each in of if each.kind == "order")
    }
    kept = tuple([each for each in records if each.order not in names] for records in (one, other))
    return kept[0], kept[1]
