"""``twopc list`` and ``twopc show``: scenarios and their contents, without playing them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twopc.sim.cli.exits import NOTHING
from twopc.sim.cli.options import Expression, File, OrderName, Paths, Tags, Twins, settings

if TYPE_CHECKING:
    from rich.console import Console

    from twopc.sim.scenario.cases import CaseGroup
    from twopc.sim.scenario.check import LoadedScenario
    from twopc.sim.scenario.workload import Workload

#: Number of generated orders that `show --orders` prints by default.
_SHOWN = 200


def list_(
    paths: Paths,
    k: Expression = "",
    tag: Tags = None,
    twins: Twins = True,
    orders: Annotated[bool, typer.Option("--orders", help="List every order.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List scenarios: their names, orders, tags and files."""
    from twopc.sim.cli.files import load_all
    from twopc.sim.report import terminal
    from twopc.sim.scenario.cases import groups
    from twopc.sim.scenario.values import Selection

    selection = Selection(expression=k, tags=tuple(tag or ()), twins=twins)
    results = [(each, of) for each in load_all(paths) if (of := groups(each, selection))]
    if as_json:
        print(
            json.dumps([_listing(each, of) for each, of in results], indent=2, ensure_ascii=False)
        )
    else:
        _table(results, terminal.console(), orders=orders)
    if not results:
        raise typer.Exit(NOTHING)


def _listing(loaded: LoadedScenario, groups: Sequence[CaseGroup]) -> dict[str, Any]:
    return {
        "scenario": loaded.scenario.name,
        "file": loaded.document.path,
        "tags": list(loaded.scenario.tags),
        "about": " ".join(loaded.scenario.about.split()),
        "orders": [
            {"name": each.name, "twin": each.twin is not None, "orders": each.courses.counts.orders}
            for each in groups
        ],
    }


def _table(
    result: Sequence[tuple[LoadedScenario, Sequence[CaseGroup]]], out: Console, *, orders: bool
) -> None:
    """Return one line per scenario, in columns as wide as their contents; nothing is cut off."""
    from rich.text import Text

    rows = [
        (
            loaded.scenario.name,
            _orders_and_twins(groups),
            ", ".join(loaded.scenario.tags),
            loaded.document.path,
        )
        for loaded, groups in result
    ]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(3)]
    for row, (_, groups) in zip(rows, result, strict=True):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        line = Text.assemble((cells[0], "bold"), "  ", cells[1], "  ", (cells[2], "dim"))
        out.print(line.append(f"  {row[3]}", style="dim"), soft_wrap=True)
        for each in groups if orders else ():
            out.print(Text(f"  {each.name}{_how_many(each)}"), soft_wrap=True)
    every = [each for _, groups in result for each in groups]
    out.print(f"{_counted(len(result), 'scenario')}, {_orders_and_twins(every)}", style="dim")


def _orders_and_twins(groups: Sequence[CaseGroup]) -> str:
    twins = sum(each.twin is not None for each in groups)
    orders = _counted(len(groups) - twins, "order")
    return orders + (f", {_counted(twins, 'twin')}" if twins else "")


def _how_many(group: CaseGroup) -> str:
    if group.order.generate is None:
        return ""
    return f"  ({group.courses.counts.orders:,} generated)"


def show(
    file: File,
    order: OrderName = "",
    orders: Annotated[
        bool,
        typer.Option("--orders", help="List the steps of every order, including generated ones."),
    ] = False,
) -> None:
    """Show the contents of a scenario file and what a run would require. Runs nothing."""
    from twopc.sim.cli.files import scenario_files
    from twopc.sim.report import terminal
    from twopc.sim.scenario.cases import groups
    from twopc.sim.scenario.check import load
    from twopc.sim.scenario.values import Selection

    loaded = load(scenario_files([file])[0])
    chosen = groups(loaded, Selection(orders=(order,) if order else ()))
    if not chosen:
        names = ", ".join(f"'{each.name}'" for each in groups(loaded))
        print(f"no order is called '{order}'; there is {names}", file=sys.stderr)
        raise typer.Exit(NOTHING)
    out = terminal.console()
    _head(loaded, out)
    _orders(loaded, chosen, out, orders=orders)


def _head(loaded: LoadedScenario, out: Console) -> None:
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    scenario = loaded.scenario
    out.print(
        Text.assemble((scenario.name, "bold"), (f"  {loaded.document.path}", "dim")), soft_wrap=True
    )
    if scenario.about:
        out.print(Padding(Text(" ".join(scenario.about.split())), (0, 0, 0, 2)))
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim")
    table.add_column()
    for name, lines in _facts(loaded):
        for at, line in enumerate(lines):
            table.add_row(f"  {name}" if at == 0 else "", Text(line))
    out.print(table)


def _facts(loaded: LoadedScenario) -> Iterator[tuple[str, list[str]]]:
    scenario = loaded.scenario
    topology = scenario.topology
    others = ", ".join(topology.subscribers) or "none"
    yield "Publisher", [f"{topology.publisher}; Subscribers: {others}"]
    levels = [
        f"{'everywhere' if node == '*' else node} {level}"
        for node, level in topology.isolation.items()
    ]
    how = [*levels, f"{topology.shipping} shipping", topology.commit.replace("_", " ")]
    yield "how", ["; ".join(how)]
    if scenario.tables:
        yield (
            "tables",
            [
                f"{name} ({', '.join(f'{column} {kind}' for column, kind in table.columns.items())})"
                f", {_counted(len(table.rows), 'row')}"
                for name, table in scenario.tables.items()
            ],
        )
    yield (
        "sessions",
        [
            f"{name} at {' and '.join(session.nodes)}: {', '.join(step for step, _ in session.named_steps)}"
            for name, session in scenario.sessions.items()
        ],
    )
    if scenario.workload is not None:
        yield "load", [*_load(scenario.workload)]
        yield "bounds", [each.text for each in scenario.thresholds]
    if scenario.tags:
        yield "tags", [", ".join(scenario.tags)]
    if len(loaded.cells) > 1:
        yield "matrix", [f"{cell.label}" for cell, _ in loaded.cells]


def _load(workload: Workload) -> Iterator[str]:
    who = (
        f"{workload.clients} clients" if workload.rate is None else f"{workload.rate:g} per second"
    )
    length = (
        f"{workload.count} transactions"
        if workload.count is not None
        else f"{(workload.for_ms or 0) / 1000:g} s"
    )
    yield f"{who}, {length}"
    if workload.keys_of is not None:
        keys = workload.keys_of
        yield f"{keys.count} rows of {keys.table}, picked {keys.pick}"


def _orders(
    loaded: LoadedScenario, groups: Sequence[CaseGroup], out: Console, *, orders: bool
) -> None:
    from rich.text import Text

    took = _latest(loaded)
    width = max(len(group.name) for group in groups)
    out.print(Text("  orders", style="dim"))
    for group in groups:
        line = Text(f"    {group.name.ljust(width)}  ")
        line.append(_what(group), style="dim")
        if group.name in took:
            line.append(f"  {took[group.name]:.0f} ms", style="dim")
        out.print(line, soft_wrap=True)
        for course in _courses(group) if orders else ():
            out.print(Text(f"      {course}"), soft_wrap=True)
    known = [took[group.name] for group in groups if group.name in took]
    if known:
        lines = (
            f"the latest run from here played {len(known)} of these {len(groups)}, "
            f"{sum(known) / 1000:.1f} s of playing"
        )
        whole = _whole_ms(loaded)
        lines += f"; {whole / 1000:.1f} s with all that it takes to set up" if whole else ""
    else:
        lines = "it has not been run from this folder, so its duration is not known"
    out.print(Text(f"  cost  {lines}", style="dim"), soft_wrap=True)


def _what(group: CaseGroup) -> str:
    """Return the number of items or orders; for a twin, the expectation that must fail."""
    if group.twin is not None:
        return f"must fail: {group.twin.must_fail}"
    if group.order.generate is None:
        return _counted(len(group.order.steps), "item")
    generate = group.order.generate
    count = group.courses.counts.orders
    parts = [f"{count:,} orders"]
    parts += ["of those that cannot differ one is run"] if generate.reduce == "equivalent" else []
    if generate.limit is not None and generate.limit < count:
        parts.append(f"at most {generate.limit:,} are run")
    return "; ".join(parts)


def _courses(group: CaseGroup) -> Iterator[str]:
    """Yield the steps of each course; of generated courses only the first, with their rank."""
    from twopc.sim.cli.items import item_text

    shown = 0
    while (course := group.courses.next()) is not None:
        rank, items = course
        if shown == _SHOWN:
            yield "…"
            return
        shown += 1
        number = f"#{rank:<4} " if group.order.generate is not None else ""
        yield number + " ".join(item_text(item) for item in items)


def _whole_ms(loaded: LoadedScenario) -> float:
    """Return the duration of the scenario's latest run in this folder, from its history's last line; 0: unknown."""
    path = Path(settings().out) / loaded.scenario.name / "latest" / "history.jsonl"
    try:
        return float(json.loads(path.read_text(encoding="utf-8").splitlines()[-1])["t_us"]) / 1000
    except (OSError, ValueError, LookupError, TypeError):
        return 0.0


def _latest(loaded: LoadedScenario) -> dict[str, float]:
    """Return the duration of each group in the scenario's latest run in this folder, in milliseconds."""
    path = Path(settings().out) / loaded.scenario.name / "latest" / "verdict.json"
    try:
        text = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    took: dict[str, float] = {}
    for order in text.get("orders", ()):
        name = str(order.get("group") or order.get("name"))
        took[name] = took.get(name, 0.0) + float(order.get("elapsed_ms") or 0)
    return took


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
