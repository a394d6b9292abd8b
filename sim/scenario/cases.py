"""Selection of what is played of a scenario: its orders, each in its cells, and its twins.

This module depends on files and names, not on how cases are played.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields

from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.model import Order, OrderItem, Scenario
from twopc.sim.scenario.ordering import Courses, RankedCourse, courses
from twopc.sim.scenario.selection import selector
from twopc.sim.scenario.text import Path
from twopc.sim.scenario.twins import Twin
from twopc.sim.scenario.values import Case, Cell, Selection

#: The default selection.
EVERYTHING = Selection()
_HOW = re.compile(r"all|sample:[1-9]\d*")
_REPEAT = re.compile(r" \(\d+\)$")
#: The order of a file that has a workload instead of orders.
LOAD = Order(name="load")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseSource:
    """One order of the file in one cell, before its courses are selected."""

    title: str
    """Name of the order or of the twin, without the cell."""
    scenario: Scenario
    """The scenario of the cell."""
    cell: Cell
    order: Order
    at: Path
    """Place in the file of the order or the twin."""
    twin: Twin | None = None

    @property
    def name(self) -> str:
        """Name for selection and reports: ``alice first [serializable]``."""
        return self.title + _in_brackets(self.cell)

    def rank(self, requested: str) -> int | None:
        """Return the rank in a name of a generated order's course, such as ``every order #17 [serializable]``; None
        if it is not one.
        """
        cell = re.escape(_in_brackets(self.cell))
        match = re.fullmatch(rf"{re.escape(self.title)} #([1-9]\d*)(?:{cell})?", requested)
        return int(match[1]) if match and self.order.generate is not None else None

    def group(self, requested: Courses) -> CaseGroup:
        """Return the group with the selected courses."""
        own = {each.name: getattr(self, each.name) for each in fields(self)}
        return CaseGroup(**own, courses=requested)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseGroup(CaseSource):
    """The cases of one order of the file in one cell: a single one, or many generated ones."""

    courses: Courses

    def case(
        self, rank: int, items: tuple[OrderItem, ...], *, repeat: int = 1, seed: int = 0
    ) -> Case:
        """Return the case of one course, to be played once."""
        number = 0 if self.order.generate is None else rank
        title = f"{self.title} #{number}" if number else self.title
        repeated = f" ({repeat})" if repeat > 1 else ""
        return Case(
            name=f"{title}{_in_brackets(self.cell)}{repeated}",
            group=self.name,
            scenario=self.scenario,
            order=self.order,
            at=self.at,
            items=items,
            cell=self.cell,
            number=number,
            twin=self.twin,
            repeat=repeat,
            seed=seed,
        )


def groups(loaded: LoadedScenario, selection: Selection = EVERYTHING) -> list[CaseGroup]:
    """Return the groups to be played, in the file's order: each order in each of its cells, then the twins; or the
    load.

    Raises:
        ScenarioError: the selection's expression is not valid.
    """
    scenario = loaded.scenario
    if selection.tags and not set(selection.tags) & set(scenario.tags):
        return []
    fits = selector(selection.expression) if selection.expression else lambda _: True
    sources = [*order_sources(loaded), *(_twins(loaded) if selection.twins else ())]
    names, how = [_REPEAT.sub("", each) for each in selection.orders], selection.courses
    for name in names:
        if _HOW.fullmatch(name) and all(name not in (s.title, s.name) for s in sources):
            names.remove(name)
            how = name
            break
    seed = selection.seed if selection.seed is not None else scenario.seed or 0
    results = []
    for source in sources:
        if not fits(f"{scenario.name}::{source.name}"):
            continue
        if not names or source.title in names or source.name in names:
            every = courses(source.scenario, source.order, seed=seed, how=how)
            results.append(source.group(every))
            continue
        for rank in filter(None, map(source.rank, names)):
            try:
                results.append(source.group(RankedCourse(source.scenario, source.order, rank)))
            except IndexError:
                continue  # the order has fewer courses
    return results


def order_sources(loaded: LoadedScenario) -> Iterator[CaseSource]:
    """Yield each order in each cell, or the load in each cell."""
    if loaded.scenario.workload is not None:
        for cell, scenario in loaded.cells:
            made = filled(scenario)
            yield CaseSource(
                title=LOAD.name, scenario=made, cell=cell, order=LOAD, at=("workload",)
            )
    for place, order in enumerate(loaded.scenario.orders):
        for cell, scenario in loaded.cells:
            yield CaseSource(
                title=order.name,
                scenario=scenario,
                cell=cell,
                order=scenario.orders[place],
                at=("orders", place),
            )


def _twins(loaded: LoadedScenario) -> Iterator[CaseSource]:
    """Yield each twin, in the first cell."""
    known: set[str] = set()
    root = loaded.document.root
    several = root is not None and isinstance(root.get("twin"), list)
    cell, scenario = loaded.cells[0]
    for place, twin in enumerate(scenario.twins):
        order = next((each for each in scenario.orders if twin.order in ("", each.name)), LOAD)
        title = f"twin of {order.name}: {' and '.join(sorted(twin.off))} off"
        if title in known:
            title += f", {twin.must_fail}"
        known.add(title)
        yield CaseSource(
            title=title,
            scenario=filled(scenario),
            cell=cell,
            order=order,
            at=("twin", place) if several else ("twin",),
            twin=twin,
        )


def _in_brackets(cell: Cell) -> str:
    return f" [{cell.label}]" if cell.label else ""


def filled(scenario: Scenario) -> Scenario:
    """Return the scenario with a row for each key of its load, if it has one, from 1 to `count`.

    Rows of the file are kept. The others have the values of the last of them, or only defaults if there is none.
    """
    keys = scenario.workload.keys_of if scenario.workload is not None else None
    if keys is None:
        return scenario
    table = scenario.tables[keys.table]
    (column,) = table.key_columns
    there = {str(row.get(column)) for row in table.rows}
    like = table.rows[-1] if table.rows else {}
    made = tuple(
        {**like, column: str(key)} for key in range(1, keys.count + 1) if str(key) not in there
    )
    full = table.model_copy(update={"rows": (*table.rows, *made)})
    return scenario.model_copy(update={"tables": {**scenario.tables, keys.table: full}})
