"""Bases of the explorer's orders: an order that the file lists, in one cell of the file's matrix.

Orders with the same steps may differ in their armed faults and in their isolation; so an order is identified by
what it plays, and not by its steps alone. This module plays nothing and reads no files.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from twopc.errors import ScenarioError
from twopc.sim.scenario.cases import order_sources
from twopc.sim.scenario.check import LoadedScenario
from twopc.sim.scenario.model import Order, OrderItem, Scenario
from twopc.sim.scenario.ordering import courses
from twopc.sim.scenario.text import listed
from twopc.sim.scenario.values import Cell

#: The name of an order that the file does not have.
BY_HAND = "by hand"


class SwitchError(ScenarioError):
    """A switch, a fault or an order is not possible in this scenario."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OrderBase:
    """An order with the scenario of its cell."""

    name: str
    """Name as in `twopc run`: ``alice first [serializable]``."""
    order: Order
    scenario: Scenario
    cell: Cell
    place: int | None
    """Place of the order in the file; None: the file does not list it."""

    @property
    def is_generated(self) -> bool:
        """Whether the order stands for many generated ones."""
        return self.order.generate is not None

    @property
    def first(self) -> Sequence[OrderItem]:
        """Entries of the order; for a generated order those of its first course."""
        if not self.is_generated:
            return self.order.steps
        course = courses(self.scenario, self.order, seed=self.scenario.seed or 0).next()
        return () if course is None else course[1]

    @property
    def levels(self) -> dict[str, str]:
        """Isolation level at each node at which sessions work."""
        sessions = self.scenario.sessions.values()
        nodes = [node for one in sessions for node in (one.node, *one.also)]
        return {node: self.scenario.level(self.order, node) for node in nodes}

    def plays_as(self, other: OrderBase) -> bool:
        """Return whether the same steps have the same results in both orders."""
        return (
            self.cell == other.cell
            and sorted(self.order.faults) == sorted(other.order.faults)
            and self.levels == other.levels
        )


def bases(loaded: LoadedScenario) -> Iterator[OrderBase]:
    """Yield the listed orders, each in each cell, in the file's order."""
    for each in order_sources(loaded):
        yield OrderBase(
            name=each.name,
            order=each.order,
            scenario=each.scenario,
            cell=each.cell,
            place=int(each.at[1]),
        )


def base_of(loaded: LoadedScenario, name: str) -> OrderBase:
    """Return the listed order of that name; without a name a new one without faults, in the first cell.

    Raises:
        SwitchError: the file has no such order.
    """
    if name:
        known = {each.name: each for each in bases(loaded)}
        if name not in known:
            raise SwitchError(f"there is no order '{name}'; there is {listed([*known])}")
        return known[name]
    cell, scenario = loaded.cells[0]
    made = Order(name=new_name(loaded, BY_HAND))
    return OrderBase(name=made.name, order=made, scenario=scenario, cell=cell, place=None)


def of_steps(loaded: LoadedScenario, base: OrderBase, items: Sequence[OrderItem]) -> OrderBase:
    """Return an order of these steps with the cell, the faults and the isolation of `base`.

    If the file lists such an order, that order is returned, with the file's expectations.
    """
    steps = tuple(items)
    if base.place is not None and (*base.first,) == steps:
        if not base.is_generated:
            return base
        one = base.order.model_copy(update={"generate": None, "steps": steps})
        return dataclasses.replace(base, order=one)
    for each in bases(loaded):
        if not each.is_generated and each.order.steps == steps and each.plays_as(base):
            return each
    name = new_name(loaded, BY_HAND)
    made = Order(
        name=name, steps=steps, faults=base.order.faults, isolation=base.order.isolation
    )  # fmt: skip
    return dataclasses.replace(base, name=name, order=made, place=None)


def new_name(loaded: LoadedScenario, name: str) -> str:
    """Return the name, with a number if an order of the file has the same name."""
    names = {each.name for each in loaded.scenario.orders}
    return next(
        each for n in range(1, 1_000) if (each := name if n == 1 else f"{name} {n}") not in names
    )
