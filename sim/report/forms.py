"""The output forms of a whole run, all of them computed from the history alone.

Documents are functions from records to text. Terminal output is drawn on a console, which knows its width and
whether it has colours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from twopc.sim.report import terminal
from twopc.sim.report.causes import because_of
from twopc.sim.report.diagram import diagram
from twopc.sim.report.diff import parted
from twopc.sim.report.event_records import header_of, is_load, select
from twopc.sim.report.events import TableLook
from twopc.sim.report.groups import ReportGroup, groups, skipped_twins
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.junit import junit
from twopc.sim.report.mermaid import markdown, mermaid
from twopc.sim.report.recorded_orders import PlayedOrder
from twopc.sim.report.timeline import draw, timeline
from twopc.sim.report.verdict import verdict, word

if TYPE_CHECKING:
    from rich.console import Console


def as_json(records: Sequence[HistoryRecord]) -> str:
    """Return the verdict, as in ``verdict.json``."""
    return json.dumps(verdict(records), indent=2, ensure_ascii=False) + "\n"


def as_mermaid(records: Sequence[HistoryRecord]) -> str:
    """Return Markdown with a sequence diagram for each order; of generated orders one of each behaviour."""
    return markdown(_without_loads(records))


def first_diagram(records: Sequence[HistoryRecord]) -> str:
    """Return the Mermaid diagram of the first order that did not pass, or else of the first; empty if none was
    played.
    """
    shown = _without_loads(records)
    failed = [order for order in shown if order.verdict["kind"]]
    return mermaid((failed or shown)[0]) if shown else ""


def _without_loads(records: Sequence[HistoryRecord]) -> list[PlayedOrder]:
    drawn = [order for group in groups(records) for order in group.drawn]
    return [order for order in drawn if not is_load(order.records)]


def final_states(records: Sequence[HistoryRecord]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the rows at the end, by node, order and table."""
    results: dict[str, dict[str, dict[str, Any]]] = {}
    for look in select(records, TableLook):
        if look.moment == "final":
            tables = results.setdefault(look.node, {}).setdefault(look.order, {})
            tables[look.table] = list(look.rows)
    return results


def as_html(records: Sequence[HistoryRecord]) -> str:
    """Return the run as one HTML page."""
    from twopc.sim.report.html import page  # most runs need no page, and the import takes time

    return page(records)


#: The documents that can be written to a file, by name.
DOCUMENTS: Mapping[str, Callable[[Sequence[HistoryRecord]], str]] = {
    "html": as_html,
    "mermaid": as_mermaid,
    "junit": junit,
    "json": as_json,
}


def show(records: Sequence[HistoryRecord], console: Console) -> None:
    """Print the output of ``twopc run`` with every timeline; of generated orders one of each behaviour."""
    report = verdict(records)
    every = groups(records)
    orders = [order for group in every for order in group.orders]
    header = orders[0].header if orders else {}
    nodes = orders[0].nodes if orders else ("",)
    terminal.head(console, report["file"], header.get("about", ""), nodes, header.get("seed"))
    for group in every:
        group_line(group, console)
        _show_group(group, console)
    total(records, every, console, (records[-1].t_us - records[0].t_us) / 1e6)


def total(
    records: Sequence[HistoryRecord],
    every: Sequence[ReportGroup],
    console: Console,
    elapsed_s: float,
) -> None:
    """Print the last lines of a run: twins that were not played, and how many orders passed."""
    for text in skipped_twins(records):
        terminal.remark(console, f"– {text}")
    words = [word(group.kind) for group in every]
    terminal.total(
        console,
        passed=words.count("pass"),
        failed=words.count("fail"),
        unknown=words.count("unknown"),
        elapsed_s=elapsed_s,
        invariants=" ".join(header_of(records).get("invariants", ())),
    )


def _show_group(group: ReportGroup, console: Console) -> None:
    """Print one order of each behaviour; of several failed ones the first in full and the others in short."""
    several = len(group.drawn) > 1
    terminal.remark(console, group.about if several else "")
    terminal.difference(console, parted(group))
    failed = group.also_failed
    for order in group.drawn:
        if order in failed:
            report = order.verdict
            message = (
                report["failures"][0]["message"] if report["failures"] else str(report["kind"])
            )
            terminal.also_failed(console, group.label(order), message, report["repro"] or "")
            continue
        if several:
            terminal.remark(console, f"{group.label(order)}:")
        _show_order(order, console, about="" if several else order.about)


def _show_order(order: PlayedOrder, console: Console, *, about: str) -> None:
    report = order.verdict
    for failure in report["failures"]:
        file = failure.get("file") or order.header.get("file", "")
        where = f"{file}:{failure['line']}:{failure['column']}" if "line" in failure else file
        terminal.failure(console, where, failure.get("excerpt", ()), failure["message"])
        terminal.failure_story(console, *because_of(order.fold, failure))
    terminal.remark(console, about)
    course(order, console)
    if report["failures"] and report["repro"]:
        terminal.print_repeat(console, report["repro"])


def course(order: PlayedOrder, console: Console) -> None:
    """Print the timeline of an order, or the figures of a load."""
    if is_load(order.records):
        from twopc.sim.report import load  # loads the histograms: most runs have no load

        terminal.table(console, load.lines(load.of(order.records)))
    else:
        draw(timeline(order.fold), console)


def group_line(group: ReportGroup, console: Console) -> None:
    """Print the line of a group."""
    kind = group.kind
    terminal.order_line(
        console,
        group.name,
        passed=not kind,
        unknown=word(kind) == "unknown",
        notes=group.text(),
        elapsed_us=int(group.elapsed_ms * 1000),
    )


def show_diagrams(records: Sequence[HistoryRecord], console: Console) -> None:
    """Print each order as a sequence diagram; of generated orders one of each behaviour."""
    for group in groups(records):
        group_line(group, console)
        for order in group.drawn:
            if len(group.drawn) > 1:
                terminal.remark(console, f"{group.label(order)}:")
            terminal.picture(console, diagram(order, console.width - 4))
            console.print()
