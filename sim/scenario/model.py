"""What a scenario file may say, as models: one class a mapping of the file, one field a key.

Shapes only: whether names refer to something is the business of `twopc.sim.scenario.meaning`. A key of the
full language that cannot be played yet stands in `later` with the reason, and is refused by name.
"""

# ruff: noqa: RUF012 -- pydantic copies the defaults of fields, and the other mappings are constants

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from twopc.sim.scenario.expectations import Expect
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

#: What an order's item may be besides a step's name.
_ITEMS = (
    "rollback", "wait", "sync", "fault", "cut", "restore", "pause", "resume", "age", "backup", "restore_backup",
    "add_column", "drop_column", "widen_column",
)  # fmt: skip
_TWIN = "it stands under 'twin'"


class Timeouts(Part):
    """How long things may take; each a bound, never a pause."""

    what = "timeouts"
    blank = {}
    step_ms: DurationMs = Field(default=10_000, alias="step")
    """A step that has not ended by then is cancelled and the order has failed."""
    settle_ms: DurationMs = Field(default=10_000, alias="settle")
    """For branches to be finished after the last step."""
    lock_ms: DurationMs = Field(default=5_000, alias="lock")
    """PostgreSQL's lock_timeout at both ends."""


class ScenarioTopology(Part):
    """The nodes and how they work."""

    what = "a topology"
    refused = {"policy": "the Publisher's row always wins"}
    replication: Literal["updating", "merge"] = "updating"
    """`updating`: Subscribers' changes go to the Publisher in two-phase commit. `merge`: every node is changed by
    itself, and sessions of the Merge Agent carry the changes."""
    publisher: NodeName
    """Its name."""
    subscribers: tuple[NodeName, ...]
    """Their names."""
    republishers: dict[str, tuple[NodeName, ...]] = {}
    """Where changes are merged: Subscribers at which others subscribe, with these."""
    snapshot: Literal["none", "before"] = "none"
    """Where changes are merged: `before`: a snapshot in files is made before the first step. Subscribers that begin anew
    begin with it."""
    isolation: Isolation = {}
    """A level for all sessions, or by node."""
    timeouts: Timeouts = Timeouts()
    """Bounds, never pauses."""
    shipping: Literal["eager", "lazy"] = "eager"
    """Changes go to the Publisher with each statement, or at commit."""
    commit: Literal["presumed_abort", "presumed_commit", "presumed_nothing", "last_agent"] = (
        "presumed_abort"
    )
    """The variant of two-phase commit."""
    distribution: Literal["on request", "none"] = "on request"
    """Changes go to the other Subscribers at each `sync` and after the last step; or never."""
    settings: dict[str, Setting] = {}
    """PostgreSQL's settings at every node; such a scenario gets servers of its own."""

    @property
    def tree(self) -> dict[str, tuple[str, ...]]:
        """For each node that publishes its Subscribers."""
        below = {name for each in self.republishers.values() for name in each}
        directly = tuple(name for name in self.subscribers if name not in below)
        return {self.publisher: directly, **self.republishers}

    @property
    def publishers(self) -> dict[str, str]:
        """The Publisher of each Subscriber."""
        return {below: name for name, each in self.tree.items() for below in each}

    @property
    def nodes(self) -> tuple[str, ...]:
        """Every node's name, the Publisher's first."""
        return (self.publisher, *self.subscribers)


_WAIT = re.compile(r"\S+ (?:blocked|done|notices (?P<notices>[1-9]\d*))")
_ITEMS_WRITTEN = (
    "{rollback: session}, {sync: node}, {wait: step blocked}, {fault: id}, {cut: node}, "
    "{restore: node}, {pause: agent node}, {resume: agent node}, {age: days}, {backup: node}, "
    "{restore backup: node}, {add column: {table: …, column: …, type: …}}, "
    "{drop column: {table: …, column: …}} and {widen column: {table: …, column: …, type: …}}"
)


class OrderItem(Part):
    """One entry of an order."""

    what = "an order's item"
    blank = {}
    hidden = frozenset({"step"})
    step: str | None = None
    rollback: str | None = None
    """The session whose open transaction is rolled back."""
    wait: Annotated[str, pattern(_WAIT.pattern.replace("?P<notices>", ""))] | None = None
    """``step blocked`` fails unless it is; ``step done`` and ``step notices 2`` wait until it is so."""
    sync: Texts | None = None
    """The Subscribers that are brought up to date."""
    fault: str | None = None
    """From here on the fault of this id is armed."""
    cut: str | None = None
    """The node that nobody reaches from here on."""
    restore: str | None = None
    """The node that is reached again."""
    pause: Agent | None = None
    """The Subscriber whose agent works no more."""
    resume: Agent | None = None
    """The Subscriber whose agent works again."""
    age: Natural | None = None
    """So many days go by, for all that nodes that merge have noted."""
    backup: str | None = None
    """The node that merges and is backed up, in place of its backup before."""
    restore_backup: str | None = Field(default=None, alias="restore backup")
    """The node that is put back to what it was when it was backed up."""
    add_column: AddedColumn | None = Field(default=None, alias="add column")
    """The column that a table of the Publisher gets; sessions bring it to Subscribers."""
    drop_column: DroppedColumn | None = Field(default=None, alias="drop column")
    """The column that a table of the Publisher loses, and with sessions those of Subscribers."""
    widen_column: WidenedColumn | None = Field(default=None, alias="widen column")
    """The column of a table of the Publisher that gets a wider type, and with sessions those of Subscribers."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """A step's name."""
        if isinstance(value, str):
            return {"step": value}
        raise refuse(
            f"an order's item is a step's name or one of {_ITEMS_WRITTEN}, not {kind_of(value)}"
        )

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """A step's name."""
        return ({"type": "string"},)

    @classmethod
    def rules(cls) -> dict[str, Any]:
        """It does one thing."""
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
        """What becomes of a column, if anything."""
        return self.add_column or self.drop_column or self.widen_column

    @property
    def waited(self) -> str:
        """The step that `wait` is about."""
        return (self.wait or "").partition(" ")[0]

    @property
    def waits_for_end(self) -> bool:
        """It waits until the step is over, and not only looks whether it is blocked."""
        return (self.wait or "").endswith(" done")

    @property
    def waits_for_notices(self) -> int:
        """So many notices its step's session must have got; 0: it waits for none."""
        match = re.fullmatch(_WAIT, self.wait or "")
        return int(match["notices"] or 0) if match is not None else 0


class Order(Part):
    """One interleaving, or all that fulfil something, and what it must come to."""

    what = "an order"
    blank = {"name": "", "steps": ()}
    name: str
    """How it is called in reports, and chosen by `--order`."""
    about: str = ""
    """What it shows."""
    isolation: Isolation = {}
    """A level for all sessions, or by node; else as the topology says."""
    steps: tuple[OrderItem, ...] = ()
    """What happens, one after the other, as far as it is not blocked."""
    generate: Generate | None = None
    """Instead of `steps`: many orders at once."""
    faults: tuple[str, ...] = ()
    """The faults that are armed from its beginning."""
    expect: Expect = Expect()
    """What must come of it."""

    @classmethod
    def rules(cls) -> dict[str, Any]:
        """It lists its steps or is generated."""
        return {"oneOf": [{"required": ["steps"]}, {"required": ["generate"]}]}


class Scenario(Part):
    """A whole file."""

    what = "a scenario"
    kept = frozenset({"tables", "procedures", "sessions", "faults", "transactions"})
    refused = {
        "invariants": "they stand under 'expect'",
        "protections": _TWIN,
        "must_fail": _TWIN,
    }
    twopc: Annotated[Literal["1"], WrittenForm(schema={"enum": [1, "1"]})]
    """The version of the format."""
    name: Name
    """How the scenario is called in reports and folders."""
    about: str = ""
    """What it shows, for a reader who has never seen a conflict."""
    tags: tuple[str, ...] = ()
    """By which scenarios are chosen: `--tag`."""
    include: Texts = ()
    """Files whose tables and transactions this one has too."""
    extends: str | None = None
    """The file that this one says the differences to."""
    matrix: dict[str, tuple[Cell, ...]] = {}
    """Dotted key → its values; each combination is a cell, in which every order is played."""
    seed: Whole | None = None
    """For what is drawn at random."""
    topology: ScenarioTopology
    """The nodes and how they work."""
    setup: Texts = ()
    """SQL at the Publisher before each order, after the tables are made."""
    teardown: Texts = ()
    """SQL at the Publisher after each order."""
    tables: dict[str, ScenarioTable] = {}
    """What is published, with its first rows."""
    procedures: dict[str, Procedure] = {}
    """The routines whose execution is published, by name; of several by that name with the types."""
    subscribers: dict[str, Subscriber] = {}
    """What is said of single Subscribers."""
    sessions: dict[Name, Session] = {}
    """The clients and what each does."""
    faults: tuple[Fault, ...] = ()
    """What goes wrong at named points of the protocol, where an order arms it."""
    runner: Literal["twopc", "isolationtester"] = "twopc"
    """Whose rules orders are played by. By those of PostgreSQL's `isolationtester` an order waits for the session of
    its next step, only sessions of the file count as whom a step waits for, and `teardown` finds transactions open."""
    orders: tuple[Order, ...] = ()
    """In which order things happen, and what must come of it."""
    expect: Expect = Expect()
    """What must come of every order that does not say otherwise."""
    twins: Annotated[tuple[Twin, ...], ONE_OR_MORE] = Field(default=(), alias="twin")
    """Orders that must fail in one way once a protection is off."""
    transactions: dict[Name, Statements] = {}
    """What a workload's clients do, by name."""
    workload: Workload | None = None
    """Instead of `orders`: load."""
    thresholds: tuple[Threshold, ...] = ()
    """Bounds that the load's figures must keep."""
    replay: Replay | None = None
    """The load is played once more from its history, and compared."""
    timing: dict[str, Timing] = {}
    """How long things take in virtual time."""

    @classmethod
    def rules(cls) -> dict[str, Any]:
        """It has orders, or a load."""
        return {"oneOf": [{"required": ["sessions", "orders"]}, {"required": ["workload"]}]}

    @cached_property
    def steps(self) -> dict[str, tuple[str, Step]]:
        """Every step by its name: its session's name, and the step."""
        return {
            name: (session_name, step)
            for session_name, session in self.sessions.items()
            for name, step in session.named_steps
        }

    @cached_property
    def repeated(self) -> frozenset[str]:
        """The names that several steps have, so that nobody knows which of them is meant."""
        names = [
            name for session in self.sessions.values() for each in session.steps for name in each
        ]
        return frozenset(name for name, times in Counter(names).items() if times > 1)

    def without_dropped(self, items: Iterable[OrderItem]) -> Scenario:
        """The same, whose tables lack the columns that an order drops, wherever in it."""
        tables = dict(self.tables)
        for dropped in (item.drop_column for item in items if item.drop_column is not None):
            if (table := tables.get(dropped.table)) is not None:
                columns = {
                    name: text for name, text in table.columns.items() if name != dropped.column
                }
                tables[dropped.table] = table.model_copy(update={"columns": columns})
        return self.model_copy(update={"tables": tables})

    def only_reads(self, node: str) -> bool:
        """The node is a Subscriber at which the application only reads."""
        return self.subscriber(node).update == "read only"

    def lets_any_client(self, node: str) -> bool:
        """The node is a Subscriber at which a session commits by itself."""
        return any(each.any_client and each.node == node for each in self.sessions.values())

    def subscriber(self, name: str) -> Subscriber:
        """What is said of a Subscriber, or what holds where nothing is."""
        return self.subscribers.get(name, Subscriber())

    @property
    def merges(self) -> bool:
        """Its replication is merge replication."""
        return self.topology.replication == "merge"

    @property
    def distributes(self) -> bool:
        """Changes reach the other Subscribers."""
        return self.merges or self.topology.distribution != "none"

    def level(self, order: Order, node: str) -> str:
        """The isolation level of sessions at `node`.

        A branch at the Publisher runs at the level of its Subscriber, so where only the Publisher is
        given a level, the Subscribers take the same.
        """
        for levels in (order.isolation, self.topology.isolation):
            for name in (node, EVERY_NODE, self.topology.publisher):
                if name in levels:
                    return levels[name]
        return "read committed"


def sync_name(number: int) -> str:
    """How an order's sync is called in its history: it has no name of its own."""
    return f"sync #{number}"
