"""What an order of the explorer is made of: an order that the file lists, in one cell of the file's matrix.

Orders with the same steps may differ in what they arm and in their isolation; so an order is known by what it plays,
and not by its steps alone. Values in, values out: nothing here plays or reads files.
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
    """A switch, a fault or an order cannot be so in this scenario."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OrderBase:
    """An order, and the scenario of its cell."""

    name: str
    """As `twopc run` shows it: ``alice first [serializable]``."""
    order: Order
    scenario: Scenario
    cell: Cell
    place: int | None
    """Which order of the file it is; None: it is none."""

    @property
    def is_generated(self) -> bool:
        """It stands for many."""
        return self.order.generate is not None

    @property
    def first(self) -> Sequence[OrderItem]:
        """Its entries; of a generated one those of the first that it stands for."""
        if not self.is_generated:
            return self.order.steps
        course = courses(self.scenario, self.order, seed=self.scenario.seed or 0).next()
        return () if course is None else course[1]

    @property
    def levels(self) -> dict[str, str]:
        """The isolation level at each node at which sessions work."""
        sessions = self.scenario.sessions.values()
        nodes = [node for one in sessions for node in (one.node, *one.also)]
        return {node: self.scenario.level(self.order, node) for node in nodes}

    def plays_as(self, other: OrderBase) -> bool:
        """Whether the same steps would come to the same in both."""
        return (
            self.cell == other.cell
            and sorted(self.order.faults) == sorted(other.order.faults)
            and self.levels == other.levels
        )


def bases(loaded: LoadedScenario) -> Iterator[OrderBase]:
    """The listed orders, each in each cell, in the file's order."""
    for each in order_sources(loaded):
        yield OrderBase(
            name=each.name,
            order=each.order,
            scenario=each.scenario,
            cell=each.cell,
            place=int(each.at[1]),
        )


def base_of(loaded: LoadedScenario, name: str) -> OrderBase:
    """The listed order of that name; without a name one that arms nothing, in the first cell.

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
    """An order of these steps that is made of another: with its cell, its faults and its isolation.

    One that the file lists is that one, with what the file expects of it.
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
    """The name, or one like it that no order of the file has."""
    names = {each.name for each in loaded.scenario.orders}
    return next(
        each for n in range(1, 1_000) if (each := name if n == 1 else f"{name} {n}") not in names
    )
