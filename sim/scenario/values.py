"""What is played: words that parser, orders, runner, judge and stages share.

A `Scenario` is what a file says; a `Case` is one thing to be played of it. Values only: nothing here
reads a file, opens a connection or judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from twopc.errors import ScenarioError
from twopc.sim.scenario.model import Order, OrderItem, Scenario
from twopc.sim.scenario.twins import Twin

if TYPE_CHECKING:
    from twopc.sim.replay.loads import LoadTransaction

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One combination of a matrix; without a matrix the empty one."""

    values: tuple[tuple[str, str], ...] = ()
    """Dotted key and value, in the file's order."""

    @property
    def label(self) -> str:
        """``serializable, lazy``; empty for the empty cell."""
        return ", ".join(value for _, value in self.values)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultStrike:
    """A fault's arrival at its point."""

    fault: str
    """Its id."""
    point: str
    no_effect: str = ""
    """What it was to act on and was not there; empty: it has acted."""

    @property
    def data(self) -> dict[str, str]:
        """As a history keeps it, in a record of the kind ``fault``."""
        result = {"id": self.fault, "at": self.point}
        return {**result, "no_effect": self.no_effect} if self.no_effect else result


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One order, of one cell, as it is played once."""

    name: str
    """Unique within the run: `every order #17 [serializable] (2)`; the history's `order`."""
    group: str
    """Its order's name with the cell's label: what is selected, counted and shown as one line."""
    scenario: Scenario
    """Of its cell: the matrix' values are put in."""
    order: Order
    """As the file has it, expectations included."""
    at: Path
    """Where that order, or the twin, stands in the file."""
    items: tuple[OrderItem, ...]
    cell: Cell = Cell()
    number: int = 0
    """Of a generated order its rank among all, from 1, whatever was reduced; 0: it is listed."""
    twin: Twin | None = None
    repeat: int = 1
    seed: int = 0

    @property
    def observed(self) -> Scenario:
        """Its scenario, whose tables have the columns that are there from its beginning to its end."""
        return self.scenario.without_dropped(self.items)

    @property
    def off(self) -> frozenset[str]:
        """The protections that are switched off."""
        return frozenset() if self.twin is None else self.twin.off

    @property
    def faults(self) -> frozenset[str]:
        """The ids of the faults that it arms, at its beginning or on its way, during a load too."""
        on_its_way = {item.fault for item in self.items if item.fault is not None}
        if self.scenario.workload is not None:
            during = self.scenario.workload.during
            on_its_way |= {each.fault for each in during if each.fault is not None}
        return frozenset((*self.order.faults, *on_its_way))

    @property
    def is_generated(self) -> bool:
        """An item of a session that is blocked makes it infeasible, and is no mistake."""
        return self.number > 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseCounts:
    """What has become of a generated group so far."""

    orders: int
    """That fulfil the constraints."""
    run: int = 0
    infeasible: int = 0
    """Of `orders`: those in which a blocked session would have to go on."""
    behaviours: int = 0
    left_out: int = 0
    """Neither run nor equivalent to one that was: by limit or sample."""
    limit: str = ""
    """Why, in words: `limit 200`, `sample 500 seed 7`."""

    @property
    def feasible(self) -> int:
        """That could be played as written."""
        return self.orders - self.infeasible


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a theatre can do; what a scenario needs beyond it is refused by name before anything is played."""

    name: str
    """``postgres`` or ``model``."""
    protections: frozenset[str] = frozenset()
    why_on: Mapping[str, str] = field(default_factory=dict)
    """Why it cannot switch some of the others off, by name."""
    faults: frozenset[str] = frozenset()
    """First words of `do` that it performs; empty: none."""
    points: frozenset[str] = frozenset()
    faults_at: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Of those that it does not perform at each of its points, where it does."""
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why it does not perform some, by first words."""
    workloads: bool = False
    outages: bool = False
    plain_sessions: bool = False
    procedures: bool = False
    """It publishes the execution of routines, and has Subscribers that only read."""
    merges: bool = False
    """It plays merge replication."""
    is_virtual: bool = False
    """Its clock is not the world's."""
    settings: frozenset[str] | None = None
    """The settings of PostgreSQL that it has; None: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What of the scenarios shall be played."""

    orders: tuple[str, ...] = ()
    """Groups' or cases' names (`every order #17`); none: all. `all`, `sample:N` change generated groups."""
    courses: str = ""
    """`all` or `sample:N`: how generated groups are played where `orders` names one of them."""
    expression: str = ""
    """As pytest's -k, over `scenario::case`."""
    tags: tuple[str, ...] = ()
    twins: bool = True
    seed: int | None = None
    repeat: int = 1
    until_fail: bool = False
    jobs: int = 1
    step_timeout_ms: int | None = None
    recording: Sequence[LoadTransaction] | None = field(default=None, repr=False)
    """What a load plays instead of the transactions that it would draw."""


class NotPlayableError(ScenarioError):
    """The file is right, but the stage cannot do what it needs; names the key and what it takes."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(message)
        self.path = path


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseLesson:
    """What playing one generated case taught about others."""

    infeasible_at: int | None = None
    """Place of the first item whose session was blocked; None: it could be played as written."""
    blocked: Mapping[int, frozenset[str]] = field(default_factory=dict)
    """After so many items, the sessions that were provably blocked."""
    behaviour: str = ""
    """`twopc.sim.report.behaviour.fingerprint`; empty if infeasible."""
    facts: Mapping[str, Any] = field(default_factory=dict)
