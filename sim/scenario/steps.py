"""Models of a scenario file for sessions and their steps.

They check shapes only, as in `twopc.sim.scenario.model`.
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
    refuse,
    said_of,
)
from twopc.sim.scenario.text import Map, Path, listed, suggestion

#: Keys of which a step has one, unless it is a word; in the order of messages.
_DOES = ("sql", "lines", "check", "call", "script", "explain", "pause", "resume")
_WORDS = ("begin", "commit", "rollback", "sync", "reinitialise", "subscribe", "unsubscribe")
#: Actions on the subscription of the session's Subscriber, during which other sessions continue.
OF_SUBSCRIPTIONS = ("reinitialise", "subscribe", "unsubscribe")
#: Actions that agents or the snapshot agent perform, outside of the session's transactions.
OF_AGENTS = ("sync", *OF_SUBSCRIPTIONS)
_ARGUMENT = "argument_"


def _arguments(value: Any) -> Any:
    """Return listed arguments by their position."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, list):
        raise refuse(f"arguments are a list, or a mapping by name, not {said_of(value)}")
    return {str(place): each for place, each in enumerate(value, 1)}


_ARGS = WrittenForm(schema={"type": ["object", "array"]})


def _as_sql(value: Any) -> str:
    """Return a hint for a statement written without its key."""
    return '; SQL is written {sql: "…"}' if isinstance(value, str) and " " in value else ""


def _is_reference(value: Any) -> bool:
    """Return whether an argument is a parameter or saved value, ``:name``."""
    return isinstance(value, str) and re.fullmatch(r":[A-Za-z_]\w*", value) is not None


class Step(Part):
    """A step of a session."""

    what = "a step"
    blank = {}
    hidden = frozenset({"action"})
    refused = {"fault": "it stands in an order: {fault: id}"}
    action: (
        Literal["begin", "commit", "rollback", "sync", "reinitialise", "subscribe", "unsubscribe"]
        | None
    ) = None
    sql: str | None = None
    """A single statement. `:name` is a value of `params` or a saved one."""
    lines: Annotated[tuple[str, ...], WrittenForm(schema={"minItems": 1}, around=True)] | None = (
        None
    )
    """Several statements as one step."""
    check: str | None = None
    """A query whose result is compared with `rows`."""
    call: str | None = None
    """Name of a procedure to call."""
    args: Annotated[dict[str, Parameter], BeforeValidator(_arguments), _ARGS] = {}
    """Arguments of the call, by name, or by position from 1 if they are listed."""
    script: str | None = None
    """Several statements in one message, which may include transaction control. Only for plain sessions."""
    explain: str | None = None
    """A note for readers of the timeline."""
    pause: Agent | None = None
    """Subscriber whose agent stops."""
    resume: Agent | None = None
    """Subscriber whose agent starts again."""
    params: dict[str, Parameter] = {}
    """Values for `:name` in SQL."""
    save: dict[str, str] = {}
    """Name → column of the first row whose value is saved for later steps of the session."""
    swallow: bool = False
    """Whether the application ignores a refusal, and continues its transaction."""
    timeout_ms: DurationMs | None = Field(default=None, alias="timeout")
    """Time limit of this step."""
    rows: tuple[Row, ...] | None = None
    """Expected rows, in order."""
    role: str | None = Field(default=None, alias="as")
    """Role in which the step runs. If omitted, that of the application."""
    at: str | None = None
    """Subscriber at which the step runs, if its session has several. If omitted, the session's node."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """Return the mapping for a step that consists of one word."""
        if value in _WORDS:
            return {"action": value}
        raise refuse(
            f"a step is {', '.join(_WORDS)} or a mapping with {', '.join(_DOES[:-1])} or {_DOES[-1]}, "
            f"not {said_of(value)}{suggestion(str(value), _WORDS) or _as_sql(value)}"
        )

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """Return the schema of the words."""
        return ({"enum": list(_WORDS)},)

    @classmethod
    def rules(cls) -> dict[str, Any]:
        """Require exactly one action."""
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
        """SQL texts that the step sends, in order."""
        if self.lines is not None:
            return self.lines
        if self.call is not None:
            return (f"call {self.call}({', '.join(map(self._argument, self.args))})",)
        one = self.sql if self.sql is not None else self.check
        return () if one is None else (one,)

    def placed(self, at: Path) -> Iterator[tuple[Path, str]]:
        """Yield the SQL texts with their places; that of the step is `at`."""
        if self.lines is not None:
            yield from (((*at, "lines", place), text) for place, text in enumerate(self.lines))
            return
        word = "check" if self.check is not None else "call" if self.call is not None else "sql"
        yield from (((*at, word), text) for text in self.statements)

    def _argument(self, name: str) -> str:
        value = self.args[name]
        text = value if _is_reference(value) else f":{_ARGUMENT}{name}"
        return text if name.isdecimal() else f"{name} => {text}"

    @property
    def values(self) -> dict[str, Any]:
        """Values of the ``:names`` in the statements, except those that the session has saved."""
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
    """A client: its node and its steps, in its own order."""

    what = "a session"
    refused = {"as": "a step has it: {sql: …, as: clerk}"}
    node: NodeReference
    """Node to which the session connects."""
    also: Texts = ()
    """Further Subscribers at which each of its transactions works too."""
    way: Literal["coordinated", "any client"] = "coordinated"
    """At a Subscriber: whether a coordinator commits its transactions, or it commits by itself, as any client."""
    plain: bool = False
    """Whether it works in local transactions of its node, without a coordinator. It may have scripts."""
    setup: Texts = ()
    """SQL of a plain session before each order."""
    teardown: Texts = ()
    """SQL of a plain session after each order."""
    steps: tuple[Annotated[dict[Name, Step], BeforeValidator(_one_step), _ONE], ...]
    """Its steps, each a list item with one name."""

    @property
    def any_client(self) -> bool:
        """Whether its own COMMIT decides."""
        return self.way == "any client"

    @property
    def nodes(self) -> tuple[str, ...]:
        """Nodes at which its transactions work."""
        return (self.node, *self.also)

    @property
    def named_steps(self) -> Iterator[tuple[str, Step]]:
        """The steps with their names, in order."""
        for each in self.steps:
            yield from each.items()


#: Steps of a workload's transaction.
Statements = Annotated[tuple[Step, ...], ONE_OR_MORE]
