"""What a scenario file may say, as models: one class a mapping of the file, one field a key.

Shapes only: whether names refer to something is the business of `sim.scenario.meaning`. A key of the
full language that cannot be played yet stands in `later` with the reason, and is refused by name.
"""

# ruff: noqa: RUF012 -- pydantic copies the defaults of fields, and the other mappings are constants

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from sim.scenario.expectations import GENERATE, Expect
from sim.scenario.parts import (
    EVERY_NODE,
    DurationMs,
    Isolation,
    Name,
    NodeName,
    NodeReference,
    Parameter,
    Part,
    Row,
    Texts,
    kind_of,
    refuse,
)
from sim.scenario.tables import REPUBLISHING, Subscriber, Table
from sim.scenario.text import Map, listed, suggestion

_PAUSE = "agents work at 'sync' only, so leave a Subscriber out: {sync: sub1}"
_FAULTS = "it needs faults at protocol points"
_MODEL = "it needs the model in virtual time"


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


class Topology(Part):
    """The nodes and how they work."""

    what = "a topology"
    later = {"policy": "the Publisher's row always wins"}
    refused = {"republishers": REPUBLISHING}
    publisher: NodeName
    subscribers: tuple[NodeName, ...]
    isolation: Isolation = {}
    timeouts: Timeouts = Timeouts()
    shipping: Literal["eager", "lazy"] = "eager"
    commit: Literal["presumed_abort", "presumed_commit", "presumed_nothing", "last_agent"] = (
        "presumed_abort"
    )
    distribution: Literal["on request", "none"] = "on request"
    """Changes go to the other Subscribers at each `sync` and after the last step; or never."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """Every node's name, the Publisher's first."""
        return (self.publisher, *self.subscribers)


class Step(Part):
    """One thing that a session does."""

    what = "a step"
    blank = {}
    hidden = frozenset({"action"})
    later = {
        "call": 'write {sql: "call …"}',
        "args": 'write {sql: "call …"}',
        "pause": _PAUSE,
        "resume": _PAUSE,
        "fault": _FAULTS,
        "as": "every session works as the application role",
    }
    action: Literal["begin", "commit", "rollback", "sync", "reinitialise"] | None = None
    sql: str | None = None
    lines: tuple[str, ...] | None = None
    check: str | None = None
    explain: str | None = None
    params: dict[str, Parameter] = {}
    save: dict[str, str] = {}
    timeout_ms: DurationMs | None = Field(default=None, alias="timeout")
    rows: tuple[Row, ...] | None = None

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """One of the words that are whole steps."""
        words = ("begin", "commit", "rollback", "sync", "reinitialise")
        if value in words:
            return {"action": value}
        said = f"not '{value}'" if isinstance(value, str) else f"not {kind_of(value)}"
        raise refuse(
            f"a step is {', '.join(words)} or a mapping with sql, lines, check or explain, "
            f"{said}{suggestion(str(value), words)}"
        )

    @model_validator(mode="after")
    def _one_thing(self) -> Step:
        if self.action is not None or self.hole:
            return self
        done = [
            word for word in ("sql", "lines", "check", "explain") if getattr(self, word) is not None
        ]
        if len(done) != 1:
            raise refuse(
                f"a step does one thing, not {listed(done)}"
                if done
                else "a step needs one of sql, lines, check and explain"
            )
        if self.lines == ():
            raise refuse("'lines' is empty")
        if self.check is not None and self.rows is None:
            raise refuse("a check needs 'rows': what its query must return")
        return self

    @property
    def statements(self) -> tuple[str, ...]:
        """The SQL texts that the step sends, in order."""
        if self.lines is not None:
            return self.lines
        one = self.sql if self.sql is not None else self.check
        return () if one is None else (one,)


def _one_step(value: Any) -> Any:
    if isinstance(value, Map) and len(value) == 1:
        return value
    raise refuse("a step is written as '- name: what it does', one name to a dash")


class Session(Part):
    """A client: where it is connected and what it does, in its own order."""

    what = "a session"
    later = {"as": "every session works as the application role"}
    node: NodeReference
    steps: tuple[Annotated[dict[Name, Step], BeforeValidator(_one_step)], ...]

    @property
    def named_steps(self) -> Iterator[tuple[str, Step]]:
        """The steps with their names, in order."""
        for each in self.steps:
            yield from each.items()


class OrderItem(Part):
    """One entry of an order."""

    what = "an order's item"
    blank = {}
    hidden = frozenset({"step"})
    later = {"fault": _FAULTS}
    step: str | None = None
    rollback: str | None = None
    wait: str | None = None
    sync: Texts | None = None
    """The Subscribers that are brought up to date."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """A step's name."""
        if isinstance(value, str):
            return {"step": value}
        raise refuse(
            "an order's item is a step's name, {rollback: session}, {sync: node} or "
            f"{{wait: step blocked}}, not {kind_of(value)}"
        )

    @model_validator(mode="after")
    def _one_thing(self) -> OrderItem:
        if self.hole:
            return self
        given = (self.step, self.rollback, self.wait, self.sync)
        if sum(each is not None for each in given) != 1:
            raise refuse(
                "an order's item is {rollback: session}, {sync: node} or {wait: step blocked}"
            )
        if self.wait is not None and not re.fullmatch(r"\S+ (blocked|done)", self.wait):
            raise refuse(
                f"a wait is written {{wait: step blocked}} or {{wait: step done}}, not {{wait: {self.wait}}}"
            )
        return self

    @property
    def waited(self) -> str:
        """The step that `wait` is about."""
        return (self.wait or "").partition(" ")[0]

    @property
    def waits_for_end(self) -> bool:
        """It waits until the step is over, and not only looks whether it is blocked."""
        return (self.wait or "").endswith(" done")


class Order(Part):
    """One interleaving, and what it must come to."""

    what = "an order"
    blank = {"name": "", "steps": ()}
    later = {"generate": GENERATE, "faults": _FAULTS}
    name: str
    about: str = ""
    isolation: Isolation = {}
    steps: tuple[OrderItem, ...]
    expect: Expect = Expect()


class Scenario(Part):
    """A whole file."""

    what = "a scenario"
    later = {
        "faults": _FAULTS,
        "workload": "it needs generated load",
        "thresholds": "it needs generated load",
        "timing": _MODEL,
        "matrix": "write one order for each case",
        "include": "a scenario is one file",
        "extends": "a scenario is one file",
        "twin": "it needs protections that can be switched off",
        "protections": "it needs protections that can be switched off",
        "must_fail": "it needs protections that can be switched off",
        "invariants": "they stand under 'expect'",
        "seed": _MODEL,
    }
    twopc: Literal["1"]
    name: Name
    about: str = ""
    tags: tuple[str, ...] = ()
    topology: Topology
    tables: dict[str, Table]
    subscribers: dict[str, Subscriber] = {}
    """What is said of single Subscribers."""
    sessions: dict[Name, Session]
    orders: tuple[Order, ...]
    expect: Expect = Expect()

    @cached_property
    def steps(self) -> dict[str, tuple[str, Step]]:
        """Every step by its name: its session's name, and the step."""
        return {
            name: (session_name, step)
            for session_name, session in self.sessions.items()
            for name, step in session.named_steps
        }

    def subscriber(self, name: str) -> Subscriber:
        """What is said of a Subscriber, or what holds where nothing is."""
        return self.subscribers.get(name, Subscriber())

    @property
    def distributes(self) -> bool:
        """Changes reach the other Subscribers."""
        return self.topology.distribution != "none"

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
