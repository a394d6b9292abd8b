"""Values shared by parser, orders, runner, judge and stages.

A `Scenario` is the content of a file; a `Case` is one order of it that is played once. The classes here hold values
only: they read no file, open no connection and judge nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from twopc.errors import ScenarioError
from twopc.sim.scenario.model import Order, OrderItem, Scenario
from twopc.sim.scenario.text import Path
from twopc.sim.scenario.twins import Twin

if TYPE_CHECKING:
    from twopc.sim.replay.loads import LoadTransaction


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination of a matrix's values; without a matrix, the empty one."""

    values: tuple[tuple[str, str], ...] = ()
    """Dotted keys and their values, in the file's order."""

    @property
    def label(self) -> str:
        """The values separated by commas, such as ``serializable, lazy``; empty for the empty cell."""
        return ", ".join(value for _, value in self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultStrike:
    """A strike of a fault at its point."""

    fault: str
    """Id of the fault."""
    point: str
    no_effect: str = ""
    """What the fault should have affected and did not find; empty if it had an effect."""

    @property
    def data(self) -> dict[str, str]:
        """The strike in the form of a history's record of kind ``fault``."""
        result = {"id": self.fault, "at": self.point}
        return {**result, "no_effect": self.no_effect} if self.no_effect else result


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One order in one cell, as played once."""

    name: str
    """Unique within the run: `every order #17 [serializable] (2)`; the `order` of the history."""
    group: str
    """Name of the order with the cell's label: the unit of selection, counting and reporting."""
    scenario: Scenario
    """The scenario of the cell, with the matrix's values."""
    order: Order
    """The order as written in the file, with its expectations."""
    at: Path
    """Place in the file of the order, or of the twin."""
    items: tuple[OrderItem, ...]
    cell: Cell = Cell()
    number: int = 0
    """Rank of a generated order among all orders, from 1, regardless of reduction; 0 for a listed order."""
    twin: Twin | None = None
    repeat: int = 1
    seed: int = 0

    @property
    def observed(self) -> Scenario:
        """The scenario without columns that do not exist during the whole case."""
        return self.scenario.without_dropped(self.items)

    @property
    def off(self) -> frozenset[str]:
        """Names of the protections that are switched off."""
        return frozenset() if self.twin is None else self.twin.off

    @property
    def faults(self) -> frozenset[str]:
        """Ids of the faults that the case arms, at its beginning or later, or during a load."""
        on_its_way = {item.fault for item in self.items if item.fault is not None}
        if self.scenario.workload is not None:
            during = self.scenario.workload.during
            on_its_way |= {each.fault for each in during if each.fault is not None}
        return frozenset((*self.order.faults, *on_its_way))

    @property
    def is_generated(self) -> bool:
        """Whether the order is generated: a blocked session then makes it infeasible, which is not an error."""
        return self.number > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseCounts:
    """Numbers of the orders of a generated group so far."""

    orders: int
    """Number of orders that fulfil the constraints."""
    run: int = 0
    infeasible: int = 0
    """Number of those orders in which a blocked session would have to continue."""
    behaviours: int = 0
    left_out: int = 0
    """Number of orders neither run nor equivalent to one that was run, because of a limit or a sample."""
    limit: str = ""
    """The limit or sample in words: `limit 200`, `sample 500 seed 7`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """Capabilities of a theatre. If a scenario needs others, it is refused by name before it is played."""

    name: str
    """Name of the theatre: ``postgres`` or ``model``."""
    protections: frozenset[str] = frozenset()
    why_on: Mapping[str, str] = field(default_factory=dict)
    """Reasons why some other protections cannot be switched off, by name."""
    faults_at: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Points at which each fault is supported, by the first word of its `do`."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Reasons why some faults are not supported, by first words."""
    is_virtual: bool = False
    """Whether it uses virtual time."""
    settings: frozenset[str] | None = None
    """The supported settings of PostgreSQL; None: all."""

    @property
    def points(self) -> frozenset[str]:
        """Points at which any fault is supported."""
        return frozenset().union(*self.faults_at.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which orders of the scenarios are played, and how."""

    orders: tuple[str, ...] = ()
    """Names of groups or cases (`every order #17`); empty: all. `all` and `sample:N` apply to generated groups."""
    courses: str = ""
    """`all` or `sample:N`: how generated groups named in `orders` are played."""
    expression: str = ""
    """An expression as of pytest's -k, over `scenario::case`."""
    tags: tuple[str, ...] = ()
    twins: bool = True
    seed: int | None = None
    repeat: int = 1
    until_fail: bool = False
    jobs: int = 1
    step_timeout_ms: int | None = None
    recording: Sequence[LoadTransaction] | None = field(default=None, repr=False)
    """Transactions that a load replays instead of drawing its own."""


class NotPlayableError(ScenarioError):
    """The file is valid, but the theatre lacks a capability that it needs; names the key and the capability."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseLesson:
    """What the result of one generated case implies for other cases."""

    infeasible_at: int | None = None
    """Index of the first item whose session was blocked; None if the case could be played as written."""
    blocked: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """Sessions that were provably blocked, by number of played items."""
    behaviour: str = ""
    """Fingerprint of the behaviour, see `twopc.sim.report.behaviour.fingerprint`; empty if infeasible."""
