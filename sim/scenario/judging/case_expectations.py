"""Expectations of a case, collected from its file, order, cell and twin; the most specific one applies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twopc.sim.scenario import matrix
from twopc.sim.scenario.expectations import (
    EVERYWHERE,
    Count,
    Expect,
    Lapse,
    NodeRows,
    NoRows,
    Outcome,
    StepExpect,
    Sum,
)
from twopc.sim.scenario.merge_parts import MergeConflictExpect
from twopc.sim.scenario.model import Order, Scenario
from twopc.sim.scenario.procedures import Commands
from twopc.sim.scenario.text import Path
from twopc.sim.scenario.values import Case, Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """An `expect` of the file and its place."""

    at: Path
    expect: Expect


def _layers(at: Path, expect: Expect, cell: Cell) -> Iterator[Layer]:
    """Yield `expect` and then its entries for the cell, from the most general to the most specific."""
    yield Layer(at=at, expect=expect)
    for key in sorted(expect.cells, key=lambda each: each.count(",")):
        if matrix.fits(key, cell):
            yield Layer(at=(*at, "cells", key), expect=expect.cells[key])


class CaseExpectations:
    """Expectations of a case. For the steps and rows of a twin, only the twin's own expectations count."""

    def __init__(self, case: Case) -> None:
        self.case = case
        scenario, order = case.scenario, case.order
        is_load = scenario.workload is not None
        self.order_at: Path = ("workload",) if is_load else ("orders", place_of(scenario, order))
        common = [
            *_layers(("expect",), scenario.expect, case.cell),
            *_layers((*self.order_at, "expect"), order.expect, case.cell),
        ]
        own = common
        if case.twin is not None:
            own = [*_layers((*case.at, "expect"), case.twin.expect, case.cell)]
            common = [*common, *own]
        self._common = common
        """Layers for invariants, and for all checks of a case that is not a twin; the most specific last."""
        self._own = own

    def item(self, place: int) -> Path:
        """Return the place in the file of the order's item number `place`."""
        if self.case.is_generated:
            return (*self.order_at, "generate")
        return (*self.order_at, "steps", place)

    @property
    def head(self) -> Path:
        """Place in the file of the order or twin itself, for failures without an expectation."""
        of_order = self.case.twin is None and self.case.scenario.workload is None
        return (*self.order_at, "name") if of_order else self.case.at

    def step(self, name: str, *, of_order: bool = False) -> tuple[Path, StepExpect] | None:
        """Return the expectation of a step and its place; None if there is none.

        Args:
            name: name of the step.
            of_order: whether to use the order's expectation even if a twin is played.
        """
        for layer in reversed(self._common if of_order else self._own):
            if name in layer.expect.steps:
                return (*layer.at, "steps", name), layer.expect.steps[name]
        return None

    @property
    def anything_goes(self) -> bool:
        """Whether steps without an expectation may have any outcome."""
        text = _nearest(self._own, "otherwise")
        return text is not None and text[1] == "any"

    def allows(self, lapse: Lapse) -> bool:
        """Return whether the file allows a lapse that otherwise fails an order."""
        text = _nearest(self._common, "allow")
        return text is not None and lapse in text[1]

    def sessions(self) -> Mapping[str, tuple[Path, Outcome]]:
        """Return the expected outcomes of sessions."""
        return _by_name(self._own, "sessions")

    def committed(self) -> tuple[Path, Count] | None:
        """Return how many sessions must commit; None if that is not specified."""
        return _nearest(self._own, "committed")

    def rejected(self) -> Mapping[str, tuple[Path, Count]]:
        """Return how many steps must be rejected, by kind."""
        return _by_name(self._own, "rejected")

    def tables(self) -> Mapping[str, Mapping[str, tuple[Path, NodeRows]]]:
        """Return the expected rows of tables by node; an expectation for one node replaces the one for all nodes."""
        results: dict[str, dict[str, tuple[Path, NodeRows]]] = {}
        for layer in self._own:
            for table, nodes in layer.expect.tables.items():
                at = (*layer.at, "tables", table)
                if EVERYWHERE in nodes:
                    everywhere = nodes[EVERYWHERE]
                    results[table] = {
                        node: ((*at, EVERYWHERE), everywhere)
                        for node in self.case.scenario.topology.nodes
                        if node != everywhere.same_as
                    }
                for node, rows in nodes.items():
                    if node != EVERYWHERE:
                        results.setdefault(table, {})[node] = ((*at, node), rows)
        return results

    def invariant(self, name: str) -> tuple[Path, Any]:
        """Return the place and the value of an invariant's expectation; the value is None if there is none."""
        return _nearest(self._common, name) or (self.head, None)

    def commands(self) -> Mapping[str, tuple[Path, Commands]]:
        """Return the numbers of calls and rows that each Subscriber's agent must apply; for each Subscriber, the
        most specific ones.

        A twin may apply other numbers, unless `commands` is the check that must fail.
        """
        twin = self.case.twin
        must_fail = twin is not None and twin.must_fail == "commands"
        return _by_name(self._common if must_fail else self._own, "commands")

    def conflicts(self) -> tuple[Path, Sequence[MergeConflictExpect]] | None:
        """Return the complete list of expected merge conflicts; None if none is specified."""
        return _nearest(self._own, "conflicts")

    def diverged(self) -> tuple[Path, Mapping[str, Sequence[str]]] | None:
        """Return the tables that must differ at the end, by node; None if none are specified."""
        for layer in reversed(self._common):
            if layer.expect.diverged:
                return (*layer.at, "diverged"), layer.expect.diverged
            if layer.expect.converged is not None:
                return None
        return None

    def sums(self) -> Sequence[tuple[Path, Sum]]:
        """Return the expected sums of columns; for each column, the most specific one."""
        results: dict[tuple[Any, ...], tuple[Path, Sum]] = {}
        for layer in self._common:
            for place, each in enumerate(layer.expect.sum):
                key = (each.table, each.column, each.node)
                results[key] = ((*layer.at, "sum", *_place(layer.expect.sum, place)), each)
        return list(results.values())

    def queries(self) -> Sequence[tuple[Path, NoRows]]:
        """Return the queries that must return no rows."""
        return [
            ((*layer.at, "sql", *_place(layer.expect.sql, place)), each)
            for layer in self._common
            for place, each in enumerate(layer.expect.sql)
        ]


def _nearest(layers: Sequence[Layer], key: str) -> tuple[Path, Any] | None:
    """Return the place and the value of the most specific expectation under a key of `Expect`."""
    for layer in reversed(layers):
        value = getattr(layer.expect, key)
        if value is not None:
            return (*layer.at, key), value
    return None


def _by_name(layers: Sequence[Layer], key: str) -> dict[str, tuple[Path, Any]]:
    """Return the places and values of the expectations under a key that holds a mapping, the most specific for each
    name.
    """
    return {
        name: ((*layer.at, key, name), value)
        for layer in layers
        for name, value in getattr(layer.expect, key).items()
    }


def _place(values: Sequence[object], place: int) -> Path:
    """Return the index within a list of several values; a single value may stand in the file without a list."""
    return (place,) if len(values) > 1 else ()


def place_of(scenario: Scenario, order: Order) -> int:
    """Return the index of an order among the file's orders, found by name: `order` may have additional faults."""
    return next(place for place, each in enumerate(scenario.orders) if each.name == order.name)
