"""A whole run in each of its forms, all of them from the history alone.

Documents are functions from records to text. What is for a terminal is drawn on a console, which knows its
width and whether it has colours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from sim.report import terminal
from sim.report.diagram import diagram
from sim.report.history import Record
from sim.report.html import page
from sim.report.junit import junit
from sim.report.mermaid import markdown
from sim.report.played import Played, played
from sim.report.timeline import STYLES, draw, timeline
from sim.report.verdict import Verdict, verdict

if TYPE_CHECKING:
    from rich.console import Console


def as_json(records: Sequence[Record]) -> str:
    """The verdict, as in ``verdict.json``."""
    return json.dumps(verdict(records), indent=2, ensure_ascii=False) + "\n"


def as_mermaid(records: Sequence[Record]) -> str:
    """Markdown with a sequence diagram for each order."""
    return markdown(list(played(records)))


#: What can be written to a file, by its name.
DOCUMENTS: Mapping[str, Callable[[Sequence[Record]], str]] = {
    "html": page,
    "mermaid": as_mermaid,
    "junit": junit,
    "json": as_json,
}


def show(records: Sequence[Record], console: Console) -> None:
    """What ``twopc run`` prints, with every timeline."""
    told = verdict(records)
    every = list(played(records))
    header = every[0].header if every else {}
    nodes = every[0].nodes if every else ("",)
    terminal.head(console, told["file"], header.get("about", ""), nodes)
    for order in every:
        _show_order(order, console)
    counts = told["counts"]
    terminal.total(
        console,
        passed=counts["passed"],
        failed=counts["failed"],
        elapsed_s=(records[-1].t_us - records[0].t_us) / 1e6,
        invariants=" ".join(told["invariants"]),
    )


def _show_order(order: Played, console: Console) -> None:
    told = order.verdict
    _order_line(told, console)
    file = order.header.get("file", "")
    for failure in told["failures"]:
        where = f"{file}:{failure['line']}:{failure['column']}" if "line" in failure else file
        terminal.failure(console, where, failure.get("excerpt", ()), failure["message"])
    terminal.remark(console, order.about)
    draw(timeline(order.records), console)
    if told["failures"] and told["repro"]:
        terminal.again(console, told["repro"])


def _order_line(told: Verdict, console: Console) -> None:
    terminal.order_line(
        console,
        told["name"],
        passed=told["verdict"] == "pass",
        unknown=told["verdict"] == "unknown",
        notes="; ".join(told["notes"]),
        elapsed_us=int(told["elapsed_ms"] * 1000),
    )


def show_diagrams(records: Sequence[Record], console: Console) -> None:
    """Each order as a sequence diagram."""
    from rich.text import Text

    for order in played(records):
        _order_line(order.verdict, console)
        for line in diagram(order, console.width):
            console.print(Text(line.text, style=STYLES[line.style]), soft_wrap=True)
        console.print()
