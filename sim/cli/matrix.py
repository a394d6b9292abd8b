"""``twopc matrix``: table of how conflicts are refused at each isolation level, from live runs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from twopc.sim.cli.exits import NOTHING

if TYPE_CHECKING:
    from twopc.sim.report.history import HistoryRecord
    from twopc.sim.scenario.check import LoadedScenario
    from twopc.sim.scenario.model import Scenario
    from twopc.sim.scenario.stage import Theatre

LEVELS = ("read committed", "repeatable read", "serializable")
BEGIN, END = "<!-- twopc matrix -->", "<!-- /twopc matrix -->"
#: Mark before an outcome: the session had waited for another.
WAITED = "⧗"


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixRow:
    """An order of a scenario and its outcome at each level."""

    loaded: LoadedScenario
    order: str
    outcomes: tuple[str, ...]


def matrix(
    paths: Annotated[list[Path], typer.Argument(help="Scenario files, or folders of them.")],
    tag: Annotated[str, typer.Option(help="Select scenarios with this tag.")] = "conflict",
    k: Annotated[
        str, typer.Option("-k", metavar="EXPR", help="Select scenarios whose name matches.")
    ] = "",
    into: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=f"Write the table between {BEGIN} and {END} of this file."
        ),
    ] = None,
) -> None:
    """Run the listed orders of scenarios at every isolation level and print a table of outcomes.

    A cell gives the kind of the refusal, or ok if every change was accepted. Expectations are not checked.
    """
    from twopc.sim.cli.files import scenario_files
    from twopc.sim.scenario.check import load
    from twopc.sim.scenario.selection import selector

    matches = selector(k) if k else lambda _: True
    loaded = [load(path) for path in scenario_files(paths)]
    chosen = [
        each
        for each in loaded
        if (not tag or tag in each.scenario.tags)
        and matches(each.scenario.name)
        and any(order.generate is None for order in each.scenario.orders)
    ]
    if not chosen:
        from twopc.sim.cli.play import nothing_text

        text = nothing_text([tag] if tag else None, k)
        print(f"nothing selected: {text}; `twopc list` shows tags", file=sys.stderr)
        raise typer.Exit(NOTHING)
    folder = into.parent if into is not None else Path()
    text = table(asyncio.run(_played(chosen)), folder)
    if into is None:
        print(text, end="")
    else:
        into.write_text(inserted(into.read_text(encoding="utf-8"), text), encoding="utf-8")


async def _played(chosen: Sequence[LoadedScenario]) -> list[MatrixRow]:
    from twopc.sim.scenario.postgres_theatre import PostgresTheatre

    async with PostgresTheatre() as theatre:
        return [row for each in chosen for row in await rows(each, theatre)]


async def rows(loaded: LoadedScenario, theatre: Theatre) -> list[MatrixRow]:
    """Return a scenario's outcomes at each of `LEVELS`, for listed orders without a level of their own."""
    scenario = loaded.scenario
    return [
        MatrixRow(
            loaded=loaded,
            order=order.name,
            outcomes=tuple([await _outcome(scenario, place, level, theatre) for level in LEVELS]),
        )
        for place, order in enumerate(scenario.orders)
        if order.generate is None and not order.isolation
    ]


async def _outcome(scenario: Scenario, place: int, level: str, theatre: Theatre) -> str:
    from twopc.sim.report.history import History
    from twopc.sim.scenario.parts import EVERY_NODE
    from twopc.sim.scenario.runner import play_case
    from twopc.sim.scenario.values import Case

    order = scenario.orders[place]
    topology = scenario.topology.model_copy(update={"isolation": {EVERY_NODE: level}})
    name = f"{order.name} [{level}]"
    case = Case(
        name=name,
        group=name,
        scenario=scenario.model_copy(update={"topology": topology}),
        order=order,
        at=("orders", place),
        items=order.steps,
    )
    history = History().of(name)
    async with theatre.stage(case) as stage:
        await play_case(case, stage, history)
    return outcome(history.records)


def outcome(records: Sequence[HistoryRecord]) -> str:
    """Return the kind of the first refusal, or ``ok``, marked if the session had waited."""
    waited = {record.step for record in records if record.kind == "blocked" and record.session}
    for record in records:
        if record.kind in ("rejected", "error") and record.session:
            kind = str((record.conflict or {}).get("kind") or record.sqlstate)
            return f"{WAITED} {kind}" if record.step in waited else kind
        if record.kind in ("stuck", "timed_out"):
            return "no end"
    return f"{WAITED} ok" if waited else "ok"


def table(rows: Sequence[MatrixRow], folder: Path = Path()) -> str:
    """Return the outcomes as Markdown, each scenario with a link relative to `folder`."""
    lines = [
        f"| conflict | order | {' | '.join(LEVELS)} |",
        f"|---|---|{'---|' * len(LEVELS)}",
    ]
    before = ""
    for row in rows:
        path = row.loaded.document.path
        link = Path(os.path.relpath(path, folder)).as_posix()
        first = f"[{row.loaded.scenario.name}]({link})" if path != before else ""
        lines.append(f"| {first} | {row.order} | {' | '.join(map(_code, row.outcomes))} |")
        before = path
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    sign, _, kind = text.rpartition(" ")
    return f"{sign} `{kind}`".strip() if text != "no end" else text


def inserted(page: str, text: str) -> str:
    """Return the page with `text` between the marks.

    Raises:
        ScenarioError: the page does not have both marks, in this order.
    """
    from twopc.errors import ScenarioError

    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ScenarioError(f"the file needs a line {BEGIN} and below it a line {END}")
    return f"{before}{BEGIN}\n{text}{END}{after}"
