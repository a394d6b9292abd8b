"""What is expected of a case: of the file, of its order, of its cell and of its twin, the nearest first."""

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
from twopc.sim.scenario.values import Case, Cell, Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One `expect` of the file and where it stands."""

    at: Path
    expect: Expect


def _layers(at: Path, expect: Expect, cell: Cell) -> Iterator[Layer]:
    """An `expect`, and after it what it says of the cell, the most general first."""
    yield Layer(at=at, expect=expect)
    for key in sorted(expect.cells, key=lambda each: each.count(",")):
        if matrix.fits(key, cell):
            yield Layer(at=(*at, "cells", key), expect=expect.cells[key])


class CaseExpectations:
    """What a case must come to. A twin's own expectations are all that is said of its steps and rows."""

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
        """For invariants, and for whatever is no twin; the nearest last."""
        self._own = own

    def item(self, place: int) -> Path:
        """Where the item of a place is asked for."""
        if self.case.is_generated:
            return (*self.order_at, "generate")
        return (*self.order_at, "steps", place)

    @property
    def head(self) -> Path:
        """Where it is said what is played, for what is expected nowhere."""
        of_order = self.case.twin is None and self.case.scenario.workload is None
        return (*self.order_at, "name") if of_order else self.case.at

    def step(self, name: str, *, of_order: bool = False) -> tuple[Path, StepExpect] | None:
        """What a step must come to, and where that is said.

        Args:
            name: the step's.
            of_order: what the order says of it, even where a twin is played.
        """
        for layer in reversed(self._common if of_order else self._own):
            if name in layer.expect.steps:
                return (*layer.at, "steps", name), layer.expect.steps[name]
        return None

    @property
    def anything_goes(self) -> bool:
        """Steps for which nothing is expected may end as they like."""
        for layer in reversed(self._own):
            if layer.expect.otherwise is not None:
                return layer.expect.otherwise == "any"
        return False

    def allows(self, lapse: Lapse) -> bool:
        """Whether this may be, which fails an order otherwise."""
        for layer in reversed(self._common):
            if layer.expect.allow is not None:
                return lapse in layer.expect.allow
        return False

    def sessions(self) -> Mapping[str, tuple[Path, Outcome]]:
        """How sessions must end."""
        return {
            name: ((*layer.at, "sessions", name), outcome)
            for layer in self._own
            for name, outcome in layer.expect.sessions.items()
        }

    def committed(self) -> tuple[Path, Count] | None:
        """How many sessions must commit."""
        for layer in reversed(self._own):
            if layer.expect.committed is not None:
                return (*layer.at, "committed"), layer.expect.committed
        return None

    def rejected(self) -> Mapping[str, tuple[Path, Count]]:
        """How many steps must be rejected, by kind."""
        return {
            kind: ((*layer.at, "rejected", kind), count)
            for layer in self._own
            for kind, count in layer.expect.rejected.items()
        }

    def tables(self) -> Mapping[str, Mapping[str, tuple[Path, NodeRows]]]:
        """What tables must hold at nodes: what is said of a node goes before what is said of all."""
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
        """What is said of an invariant, None if nothing is, and where."""
        for layer in reversed(self._common):
            value = getattr(layer.expect, name)
            if value is not None:
                return (*layer.at, name), value
        return self.head, None

    def commands(self) -> Mapping[str, tuple[Path, Commands]]:
        """How many calls and rows each Subscriber's agent must apply; of one Subscriber the nearest.

        A twin may well have others, unless it is these that must fail.
        """
        twin = self.case.twin
        must_fail = twin is not None and twin.must_fail == "commands"
        return {
            node: ((*layer.at, "commands", node), each)
            for layer in (self._common if must_fail else self._own)
            for node, each in layer.expect.commands.items()
        }

    def conflicts(self) -> tuple[Path, Sequence[MergeConflictExpect]] | None:
        """Exactly which conflicts must be recorded; None: nothing is said of it."""
        for layer in reversed(self._own):
            if layer.expect.conflicts is not None:
                return (*layer.at, "conflicts"), layer.expect.conflicts
        return None

    def diverged(self) -> tuple[Path, Mapping[str, Sequence[str]]] | None:
        """Which tables must differ in the end, where; None: nothing is said of it."""
        for layer in reversed(self._common):
            if layer.expect.diverged:
                return (*layer.at, "diverged"), layer.expect.diverged
            if layer.expect.converged is not None:
                return None
        return None

    def sums(self) -> Sequence[tuple[Path, Sum]]:
        """What columns must add up to; of one column the nearest."""
        results: dict[tuple[Any, ...], tuple[Path, Sum]] = {}
        for layer in self._common:
            for place, each in enumerate(layer.expect.sum):
                key = (each.table, each.column, each.node)
                results[key] = ((*layer.at, "sum", *_place(layer.expect.sum, place)), each)
        return list(results.values())

    def queries(self) -> Sequence[tuple[Path, NoRows]]:
        """What must return no rows."""
        return [
            ((*layer.at, "sql", *_place(layer.expect.sql, place)), each)
            for layer in self._common
            for place, each in enumerate(layer.expect.sql)
        ]


def _place(values: Sequence[object], place: int) -> Path:
    """Of several the place in their list; a single one may stand without."""
    return (place,) if len(values) > 1 else ()


def place_of(scenario: Scenario, order: Order) -> int:
    """Which of the file's orders it is: by its name, for it may have been given more faults."""
    return next(place for place, each in enumerate(scenario.orders) if each.name == order.name)
