"""What a session may do, as models: its steps, one after the other.

Shapes only, as in `twopc.sim.scenario.model`.
"""

# ruff: noqa: RUF012 -- pydantic copies the defaults of fields, and the other mappings are constants

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from twopc.sim.scenario.parts import (
    ONE_OR_MORE,
    Agent,
    DurationMs,
    Name,
    NodeReference,
    Parameter,
    Part,
    Row,
    Texts,
    WrittenForm,
    kind_of,
    refuse,
)
from twopc.sim.scenario.text import Map, listed, suggestion

#: What a step may be besides one of the words, in the order in which they are told.
_DOES = ("sql", "lines", "check", "call", "script", "explain", "pause", "resume")
_WORDS = ("begin", "commit", "rollback", "sync", "reinitialise", "subscribe", "unsubscribe")
#: What becomes of the subscription of the session's Subscriber, while others go on.
OF_SUBSCRIPTIONS = ("reinitialise", "subscribe", "unsubscribe")
#: What agents, or who makes copies, do for a session: none of it belongs to a transaction.
OF_AGENTS = ("sync", *OF_SUBSCRIPTIONS)
_ARGUMENT = "argument_"


def _arguments(value: Any) -> Any:
    """Listed ones under their places."""
    if not isinstance(value, list):
        return value
    return {str(place): each for place, each in enumerate(value, 1)}


_ARGS = WrittenForm(schema={"type": ["object", "array"]})


def _as_sql(value: Any) -> str:
    """How a statement is written that stands without its key."""
    return '; SQL is written {sql: "…"}' if isinstance(value, str) and " " in value else ""


def _is_reference(value: Any) -> bool:
    """An argument that is a parameter or saved value, ``:name``."""
    return isinstance(value, str) and re.fullmatch(r":[A-Za-z_]\w*", value) is not None


class Step(Part):
    """One thing that a session does."""

    what = "a step"
    blank = {}
    hidden = frozenset({"action"})
    refused = {"fault": "it stands in an order: {fault: id}"}
    action: (
        Literal["begin", "commit", "rollback", "sync", "reinitialise", "subscribe", "unsubscribe"]
        | None
    ) = None
    sql: str | None = None
    """One statement; `:name` is a value of `params` or one that was saved."""
    lines: Annotated[tuple[str, ...], WrittenForm(schema={"minItems": 1}, around=True)] | None = (
        None
    )
    """Several statements as one step."""
    check: str | None = None
    """A query and, under `rows`, what it must return."""
    call: str | None = None
    """A procedure's name."""
    args: Annotated[dict[str, Parameter], BeforeValidator(_arguments), _ARGS] = {}
    """What it is called with, by name, or by place from 1 if the file lists them."""
    script: str | None = None
    """Several statements in one message, transaction control included; of a plain session."""
    explain: str | None = None
    """A note for the reader of the timeline."""
    pause: Agent | None = None
    """The Subscriber whose agent works no more."""
    resume: Agent | None = None
    """The Subscriber whose agent works again."""
    params: dict[str, Parameter] = {}
    """Values for `:name` in SQL."""
    save: dict[str, str] = {}
    """Name → the column of the first row that it keeps, for later steps of the session."""
    swallow: bool = False
    """The application takes no notice if it is refused, and goes on with its transaction."""
    timeout_ms: DurationMs | None = Field(default=None, alias="timeout")
    """A bound of this step's own."""
    rows: tuple[Row, ...] | None = None
    """What must come back, in order."""
    role: str | None = Field(default=None, alias="as")
    """As whom it works; none: the application."""
    at: str | None = None
    """At which of its session's Subscribers, where there are several; none: at its node."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """One of the words that are whole steps."""
        if value in _WORDS:
            return {"action": value}
        text = f"not '{value}'" if isinstance(value, str) else f"not {kind_of(value)}"
        raise refuse(
            f"a step is {', '.join(_WORDS)} or a mapping with {', '.join(_DOES[:-1])} or {_DOES[-1]}, "
            f"{text}{suggestion(str(value), _WORDS) or _as_sql(value)}"
        )

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """The words."""
        return ({"enum": list(_WORDS)},)

    @classmethod
    def rules(cls) -> dict[str, Any]:
        """It does one thing."""
        return {
            "oneOf": [{"required": [word]} for word in _DOES],
            "allOf": [
                {"if": {"required": [one]}, "then": {"required": [other]}}
                for one, other in (("check", "rows"), ("args", "call"))
            ],
        }

    @model_validator(mode="after")
    def _one_thing(self) -> Step:
        if self.action is not None or self.hole or self.holes:
            return self
        done = [word for word in _DOES if getattr(self, word) is not None]
        if len(done) != 1:
            raise refuse(
                f"a step does one thing, not {listed(done)}"
                if done
                else f"a step needs one of {listed(_DOES)}"
            )
        if self.lines == ():
            raise refuse("'lines' is empty")
        if self.check is not None and self.rows is None:
            raise refuse("a check needs 'rows': what its query must return")
        if self.args and self.call is None:
            raise refuse("'args' goes with 'call'")
        return self

    @property
    def statements(self) -> tuple[str, ...]:
        """The SQL texts that the step sends, in order."""
        if self.lines is not None:
            return self.lines
        if self.call is not None:
            return (f"call {self.call}({', '.join(map(self._argument, self.args))})",)
        one = self.sql if self.sql is not None else self.check
        return () if one is None else (one,)

    def _argument(self, name: str) -> str:
        value = self.args[name]
        text = value if _is_reference(value) else f":{_ARGUMENT}{name}"
        return text if name.isdecimal() else f"{name} => {text}"

    @property
    def values(self) -> dict[str, Any]:
        """What the ``:names`` in its statements stand for, besides what the session has saved."""
        given = {
            f"{_ARGUMENT}{name}": value
            for name, value in self.args.items()
            if not _is_reference(value)
        }
        return {**self.params, **given}


def _one_step(value: Any) -> Any:
    if isinstance(value, Map) and len(value) == 1:
        return value
    raise refuse("a step is written as '- name: what it does', one name to a dash")


_ONE = WrittenForm(schema={"minProperties": 1, "maxProperties": 1}, around=True)


class Session(Part):
    """A client: where it is connected and what it does, in its own order."""

    what = "a session"
    refused = {"as": "a step has it: {sql: …, as: clerk}"}
    node: NodeReference
    """Where it is connected."""
    also: Texts = ()
    """Further Subscribers, at which each of its transactions works too."""
    way: Literal["coordinated", "any client"] = "coordinated"
    """At a Subscriber: a coordinator commits it, or its own COMMIT does as any client's."""
    plain: bool = False
    """No coordinator between it and its node: it works in local transactions, by scripts too."""
    setup: Texts = ()
    """SQL of a plain session before each order."""
    teardown: Texts = ()
    """SQL of a plain session after it."""
    steps: tuple[Annotated[dict[Name, Step], BeforeValidator(_one_step), _ONE], ...]
    """What it does, one name to a dash."""

    @property
    def any_client(self) -> bool:
        """Its own COMMIT decides."""
        return self.way == "any client"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Where its transactions work."""
        return (self.node, *self.also)

    @property
    def named_steps(self) -> Iterator[tuple[str, Step]]:
        """The steps with their names, in order."""
        for each in self.steps:
            yield from each.items()


#: What a workload's transaction does.
Statements = Annotated[tuple[Step, ...], ONE_OR_MORE]
