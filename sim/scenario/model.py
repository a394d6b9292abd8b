"""Models of a scenario file: one class for each kind of mapping, one field for each key.

The models check shapes only; `twopc.sim.scenario.meaning` checks whether names refer to something. Keys that are
refused are listed in `refused` with the reason, and are refused by name.
"""

# ruff: noqa: RUF012 -- pydantic copies the defaults of fields, and the other mappings are constants

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from twopc.sim.scenario.expectations import Expect, NoRows
from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.merge_parts import AddedColumn, ColumnChange, DroppedColumn, WidenedColumn
from twopc.sim.scenario.order_generation import Generate
from twopc.sim.scenario.parts import (
    EVERY_NODE,
    ONE_OR_MORE,
    Agent,
    Cell,
    DurationMs,
    Isolation,
    Name,
    Natural,
    NodeName,
    Part,
    Setting,
    Texts,
    Whole,
    WrittenForm,
    kind_of,
    pattern,
    refuse,
)
from twopc.sim.scenario.procedures import Procedure
from twopc.sim.scenario.steps import Session, Statements, Step
from twopc.sim.scenario.tables import ScenarioTable, Subscriber
from twopc.sim.scenario.text import Path
from twopc.sim.scenario.twins import Twin
from twopc.sim.scenario.workload import Replay, Threshold, Timing, Workload

__all__ = [
    "Generate",
    "Order",
    "OrderItem",
    "Scenario",
    "ScenarioTopology",
    "Session",
    "Step",
    "Timeouts",
    "Twin",
    "sync_name",
]

#: Kinds of items of an order, other than a step's name.
_ITEMS = (
    "rollback", "wait", "sync", "fault", "cut", "restore", "pause", "resume", "age", "backup", "restore_backup",
    "add_column", "drop_column", "widen_column",
)  # fmt: skip
_TWIN = "it stands under 'twin'"


class Timeouts(Part):
    """Time limits. None of them causes a pause."""

    what = "timeouts"
    blank = {}
    step_ms: DurationMs = Field(default=10_000, alias="step")
    """Time limit of a step. A step that exceeds it is cancelled, and the order has failed."""
    settle_ms: DurationMs = Field(default=10_000, alias="settle")
    """Time limit for finishing branches after the last step."""
    lock_ms: DurationMs = Field(default=5_000, alias="lock")
    """PostgreSQL's lock_timeout at all nodes."""


class ScenarioTopology(Part):
    """The nodes and their settings."""

    what = "a topology"
    refused = {"policy": "the Publisher's row always wins"}
    replication: Literal["updating", "merge"] = "updating"
    """`updating`: a Subscriber's changes are committed at the Publisher too, in two-phase commit. `merge`: each
    node commits changes by itself, and sessions of the Merge Agent propagate them.
    """
    publisher: NodeName
    """Name of the Publisher."""
    subscribers: tuple[NodeName, ...]
    """Names of the Subscribers."""
    republishers: dict[str, tuple[NodeName, ...]] = {}
    """In merge replication: Subscribers that publish, each with its own Subscribers."""
    snapshot: Literal["none", "before"] = "none"
    """In merge replication: with `before`, a snapshot in files is made before the first step. Subscribers are
    reinitialised from it.
    """
    isolation: Isolation = {}
    """Isolation level of all sessions, or by node."""
    timeouts: Timeouts = Timeouts()
    """Time limits. None of them causes a pause."""
    shipping: Literal["eager", "lazy"] = "eager"
    """Whether changes are sent to the Publisher with each statement, or at commit."""
    commit: Literal["presumed_abort", "presumed_commit", "presumed_nothing", "last_agent"] = (
        "presumed_abort"
    )
    """Variant of two-phase commit."""
    distribution: Literal["on request", "none"] = "on request"
    """Whether changes are delivered to other Subscribers at each `sync` and after the last step, or never."""
    settings: dict[str, Setting] = {}
    """PostgreSQL settings at every node. A scenario with settings gets its own servers."""

    @property
    def tree(self) -> dict[str, tuple[str, ...]]:
        """Subscribers of each node that publishes."""
        below = {name for each in self.republishers.values() for name in each}
        directly = tuple(name for name in self.subscribers if name not in below)
        return {self.publisher: directly, **self.republishers}

    @property
    def publishers(self) -> dict[str, str]:
        """Publisher of each Subscriber."""
        return {below: name for name, each in self.tree.items() for below in each}

    @property
    def nodes(self) -> tuple[str, ...]:
        """Names of all nodes, that of the Publisher first."""
        return (self.publisher, *self.subscribers)


_WAIT = re.compile(r"\S+ (?:blocked|done|notices (?P<notices>[1-9]\d*))")
_ITEMS_WRITTEN = (
    "{rollback: session}, {sync: node}, {wait: step blocked}, {fault: id}, {cut: node}, "
    "{restore: node}, {pause: agent node}, {resume: agent node}, {age: days}, {backup: node}, "
    "{restore backup: node}, {add column: {table: …, column: …, type: …}}, "
    "{drop column: {table: …, column: …}} and {widen column: {table: …, column: …, type: …}}"
)


class OrderItem(Part):
    """An entry of an order."""

    what = "an order's item"
    blank = {}
    hidden = frozenset({"step"})
    step: str | None = None
    rollback: str | None = None
    """Session whose open transaction is rolled back."""
    wait: Annotated[str, pattern(_WAIT.pattern.replace("?P<notices>", ""))] | None = None
    """``step blocked`` fails unless the step is blocked. ``step done`` and ``step notices 2`` wait for that
    condition.
    """
    sync: Texts | None = None
    """Subscribers to which all changes are delivered."""
    fault: str | None = None
    """Fault, by id, that is armed from here on."""
    cut: str | None = None
    """Node that is unreachable from here on."""
    restore: str | None = None
    """Node that becomes reachable again."""
    pause: Agent | None = None
    """Subscriber whose agent stops."""
    resume: Agent | None = None
    """Subscriber whose agent starts again."""
    age: Natural | None = None
    """Number of days by which the metadata of merging nodes is aged."""
    backup: str | None = None
    """Merging node that is backed up. The backup replaces the node's previous one."""
    restore_backup: str | None = Field(default=None, alias="restore backup")
    """Node that is restored from its backup."""
    add_column: AddedColumn | None = Field(default=None, alias="add column")
    """Column that is added to a table of the Publisher. Merge sessions propagate the change to Subscribers."""
    drop_column: DroppedColumn | None = Field(default=None, alias="drop column")
    """Column that is dropped from a table of the Publisher. Merge sessions propagate the change to Subscribers."""
    widen_column: WidenedColumn | None = Field(default=None, alias="widen column")
    """Column of a table of the Publisher that gets a wider type. Merge sessions propagate the change to
    Subscribers.
    """

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """Return the mapping for a step's name."""
        if isinstance(value, str):
            return {"step": value}
        raise refuse(
            f"an order's item is a step's name or one of {_ITEMS_WRITTEN}, not {kind_of(value)}"
        )

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """Return the schema of a step's name."""
        return ({"type": "string"},)

    @classmethod
    def rules(cls) -> dict[str, Any]:
        """Require exactly one key."""
        return {"minProperties": 1, "maxProperties": 1}

    @model_validator(mode="after")
    def _one_thing(self) -> OrderItem:
        if self.hole or self.holes:
            return self
        if sum(getattr(self, each) is not None for each in ("step", *_ITEMS)) != 1:
            raise refuse(f"an order's item is one of {_ITEMS_WRITTEN}")
        if self.wait is not None and not re.fullmatch(_WAIT, self.wait):
            raise refuse(
                "a wait is written {wait: step blocked}, {wait: step done} or "
                f"{{wait: step notices 2}}, not {{wait: {self.wait}}}"
            )
        return self

    @property
    def column_change(self) -> ColumnChange | None:
        """The change of a column, None if the item is another."""
        return self.add_column or self.drop_column or self.widen_column

    @property
    def waited(self) -> str:
        """Name of the step in `wait`."""
        return (self.wait or "").partition(" ")[0]

    @property
    def waits_for_end(self) -> bool:
        """Whether the item waits until the step has ended, instead of checking that it is blocked."""
        return (self.wait or "").endswith(" done")

    @property
    def waits_for_notices(self) -> int:
        """Number of notices that the step's session must have received; 0 if the item does not wait for notices."""
        match = re.fullmatch(_WAIT, self.wait or "")
        return int(match["notices"] or 0) if match is not None else 0


class Order(Part):
    """One order of steps, or all that fulfil a constraint, with the expected result."""

    what = "an order"
    blank = {"name": "", "steps": ()}
    name: str
    """Name of the order in reports and for `--order`."""
    about: str = ""
    """What the order demonstrates."""
    isolation: Isolation = {}
    """Isolation level of all sessions, or by node; otherwise that of the topology."""
    steps: tuple[OrderItem, ...] = ()
    """Items that are played one after the other. A blocked step does not delay those of other sessions."""
    generate: Generate | None = None
    """Many orders at once, instead of `steps`."""
    faults: tuple[str, ...] = ()
    """Faults that are armed from the beginning."""
    expect: Expect = Expect()
    """Expected result."""

    @classmethod
    def rules(cls) -> dict[str, Any]:
        """Require either `steps` or `generate`."""
        return {"oneOf": [{"required": ["steps"]}, {"required": ["generate"]}]}


class Scenario(Part):
    """A complete scenario file."""

    what = "a scenario"
    kept = frozenset({"tables", "procedures", "sessions", "faults", "transactions"})
    refused = {
        "invariants": "they stand under 'expect'",
        "protections": _TWIN,
        "must_fail": _TWIN,
    }
    twopc: Annotated[Literal["1"], WrittenForm(schema={"enum": [1, "1"]})]
    """Version of the format."""
    name: Name
    """Name of the scenario in reports and folders."""
    about: str = ""
    """What the scenario demonstrates, for readers who do not know conflicts."""
    tags: tuple[str, ...] = ()
    """Tags by which `--tag` selects scenarios."""
    include: Texts = ()
    """Files whose tables and transactions are added to those of this file."""
    extends: str | None = None
    """File on which this one is based. This file contains only the differences."""
    matrix: dict[str, tuple[Cell, ...]] = {}
    """Dotted key → its values. Each combination is a cell, in which every order is played."""
    seed: Whole | None = None
    """Seed of all random values."""
    topology: ScenarioTopology
    """The nodes and their settings."""
    setup: Texts = ()
    """SQL at the Publisher before each order, after the tables have been created."""
    teardown: Texts = ()
    """SQL at the Publisher after each order."""
    tables: dict[str, ScenarioTable] = {}
    """Published tables with their initial rows."""
    procedures: dict[str, Procedure] = {}
    """Routines whose execution is published, by name; overloaded ones by name and argument types."""
    subscribers: dict[str, Subscriber] = {}
    """Settings of single Subscribers."""
    sessions: dict[Name, Session] = {}
    """Sessions and their steps."""
    faults: tuple[Fault, ...] = ()
    """Faults at named protocol points, which orders can arm."""
    runner: Literal["twopc", "isolationtester"] = "twopc"
    """Rules by which orders are played. With `isolationtester`, those of PostgreSQL's isolationtester: an order
    waits for the session of its next step, only sessions of the file count as holders of locks, and `teardown` runs
    while transactions are still open.
    """
    orders: tuple[Order, ...] = ()
    """Orders in which the steps are played, with their expected results."""
    expect: Expect = Expect()
    """Expected result of every order that does not specify another."""
    twins: Annotated[tuple[Twin, ...], ONE_OR_MORE] = Field(default=(), alias="twin")
    """Orders that must fail in a named check when a protection is switched off."""
    transactions: dict[Name, Statements] = {}
    """Transactions of a workload's clients, by name."""
    workload: Workload | None = None
    """A load, instead of `orders`."""
    thresholds: tuple[Threshold, ...] = ()
    """Bounds for measured values of the load."""
    replay: Replay | None = None
    """Whether and how the load is replayed from its history and compared."""
    timing: dict[str, Timing] = {}
    """Durations in virtual time."""

    @classmethod
    def rules(cls) -> dict[str, Any]:
        """Require either `sessions` and `orders`, or `workload`."""
        return {"oneOf": [{"required": ["sessions", "orders"]}, {"required": ["workload"]}]}

    @cached_property
    def steps(self) -> dict[str, tuple[str, Step]]:
        """Every step by its name, with the name of its session."""
        return {
            name: (session_name, step)
            for session_name, session in self.sessions.items()
            for name, step in session.named_steps
        }

    @cached_property
    def repeated(self) -> frozenset[str]:
        """Names that several steps have, and that are therefore ambiguous."""
        names = [
            name for session in self.sessions.values() for each in session.steps for name in each
        ]
        return frozenset(name for name, times in Counter(names).items() if times > 1)

    def placed_steps(self) -> Iterator[tuple[Path, Session, str, Step]]:
        """Yield every step with its place in the file, its session, and its name."""
        for name, session in self.sessions.items():
            for place, (step_name, step) in enumerate(session.named_steps):
                yield ("sessions", name, "steps", place, step_name), session, step_name, step

    def expectations(self) -> Iterator[tuple[Path, Expect]]:
        """Yield every `expect` of the file with its place: that of the file, those of its orders and of its twins.

        Each is followed by its expectations for cells of the matrix.
        """
        whole: list[tuple[Path, Expect]] = [(("expect",), self.expect)]
        whole += [(("orders", at, "expect"), each.expect) for at, each in enumerate(self.orders)]
        whole += [(("twin", at, "expect"), each.expect) for at, each in enumerate(self.twins)]
        for path, expect in whole:
            yield path, expect
            yield from (((*path, "cells", name), each) for name, each in expect.cells.items())

    def queries(self) -> Iterator[tuple[Path, NoRows]]:
        """Yield every query of an `expect`, with its place in the file."""
        for path, expect in self.expectations():
            yield from (((*path, "sql", place), each) for place, each in enumerate(expect.sql))

    def without_dropped(self, items: Iterable[OrderItem]) -> Scenario:
        """Return a copy whose tables lack the columns that an order's items drop."""
        tables = dict(self.tables)
        for dropped in (item.drop_column for item in items if item.drop_column is not None):
            if (table := tables.get(dropped.table)) is not None:
                columns = {
                    name: text for name, text in table.columns.items() if name != dropped.column
                }
                tables[dropped.table] = table.model_copy(update={"columns": columns})
        return self.model_copy(update={"tables": tables})

    def only_reads(self, node: str) -> bool:
        """Return whether `node` is a read-only Subscriber."""
        return self.subscriber(node).update == "read only"

    def lets_any_client(self, node: str) -> bool:
        """Return whether `node` is a Subscriber with a session that commits without a coordinator."""
        return any(each.any_client and each.node == node for each in self.sessions.values())

    def subscriber(self, name: str) -> Subscriber:
        """Return the settings of a Subscriber, or the defaults if the file has none."""
        return self.subscribers.get(name, Subscriber())

    @property
    def merges(self) -> bool:
        """Whether the scenario uses merge replication."""
        return self.topology.replication == "merge"

    @property
    def distributes(self) -> bool:
        """Whether changes are propagated to other Subscribers."""
        return self.merges or self.topology.distribution != "none"

    def level(self, order: Order, node: str) -> str:
        """Return the isolation level of sessions at `node`.

        A branch at the Publisher runs at the level of its Subscriber. If only the Publisher has a level,
        Subscribers therefore use the same one.
        """
        for levels in (order.isolation, self.topology.isolation):
            for name in (node, EVERY_NODE, self.topology.publisher):
                if name in levels:
                    return levels[name]
        return "read committed"


def sync_name(number: int) -> str:
    """Return the name in a history of an order's sync of a given number; such a sync has no step name."""
    return f"sync #{number}"
