"""What a scenario file may expect: of a step, of a table, and of everything at the end.

Shapes only, as in `twopc.sim.scenario.model`.
"""

# ruff: noqa: RUF012 -- pydantic copies the defaults of fields, and the other mappings are constants

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from twopc.errors import KINDS
from twopc.sim.scenario.merge_parts import MergeConflictExpect
from twopc.sim.scenario.parts import (
    ONE_OR_MORE,
    Exact,
    Natural,
    Part,
    Row,
    Texts,
    WrittenForm,
    kind_of,
    refuse,
)
from twopc.sim.scenario.procedures import Commands
from twopc.sim.scenario.text import Number, listed, suggestion

Outcome = Literal["committed", "rolled back", "in doubt"]

#: What fails an order unless `allow` names it: a fault that is armed never strikes, or has nothing to act on where
#: it does, a step of the order is not played, a step has no end within its time limit.
Lapse = Literal["fault_not_reached", "fault_without_effect", "step_not_played", "time_limit"]

#: In a table's expectation, and for a sync: every node.
EVERYWHERE = "everywhere"


#: Invariants by name: those that hold for every order unless it says otherwise, and the others.
DEFAULTS = (
    "atomic",
    "prepared_left",
    "versions_move_forward",
    "converged",
    "echoed",
    "nothing_lost",
)
ASKED_FOR = ("no_lost_update", "each_change_applied_once", "sum", "sql", "commands", "diverged")


def no_kind(name: str) -> str:
    """That no rejection is called so, and what is."""
    hint = suggestion(name, KINDS) or f"; there are {listed(KINDS)}"
    return f"no kind of rejection is called '{name}'{hint}"


#: What is said of a merge session, as its report has it.
MERGE_FIELDS = ("uploaded", "downloaded", "conflicts", "deferred", "retried", "resumed", "anew")

#: Of an invariant with a number: `false` in the file.
NOT_JUDGED = -1


def _or_not(value: Any) -> Any:
    if isinstance(value, Number) and value.startswith("-"):
        raise refuse(f"expected 0 or more, or false, not {value}")
    if value is True:
        raise refuse(f"expected a whole number, or false, not {kind_of(value)}")
    return NOT_JUDGED if value is False else value


#: How many must be left, or whether nobody looks.
Left = Annotated[
    int,
    BeforeValidator(_or_not),
    WrittenForm(schema={"anyOf": [{"type": "integer", "minimum": 0}, {"const": False}]}),
]


class StepExpect(Part):
    """What a step must come to."""

    what = "an expectation"
    blank = {}
    hidden = frozenset({"outcome"})
    outcome: Literal["ok", "in_doubt", "rolled back", "any"] | None = None
    rejected: Annotated[str, WrittenForm(schema={"enum": list(KINDS)})] | None = None
    """The kind of conflict that it meets."""
    error: str | None = None
    """The SQLSTATE of its error, or its name as in psycopg.errors."""
    blocked_by: str | None = None
    """The step or session that it provably waits for."""
    then: StepExpect | None = None
    """How it ends after the wait; well, unless it says otherwise."""
    rows: tuple[Row, ...] | None = None
    """What comes back, in order."""
    rowcount: Natural | None = None
    """How many rows come back or are changed."""
    delivered: Natural | None = None
    """Of a sync: how many transactions it brought."""
    calls: Natural | None = None
    """Of a sync: how many calls of routines it brought."""
    uploaded: Natural | None = None
    """Of a merge session: rows written at the Publisher."""
    downloaded: Natural | None = None
    """Of a merge session: rows written at the Subscriber."""
    conflicts: Natural | None = None
    """Of a merge session: conflicts that it found."""
    deferred: Natural | None = None
    """Of a merge session: rows left at the Subscriber, because a change of its own must go up first."""
    retried: Natural | None = None
    """Of a merge session: rows that could not be written, and will be tried again."""
    resumed: bool | None = None
    """Of a merge session: one before it was cut off."""
    anew: bool | None = None
    """Of a merge session: an end was restored from a backup."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """`ok`, `in_doubt`, `rolled back` or `any`."""
        words = ("ok", "in_doubt", "rolled back", "any")
        if value in words:
            return {"outcome": value}
        longer = {
            "rejected": "{rejected: version_mismatch}",
            "error": "{error: 23505}",
            "blocked_by": "{blocked_by: a_write, then: ok}",
        }
        if isinstance(value, str) and value in longer:
            raise refuse(f"'{value}' needs more: {longer[value]}")
        text = f"'{value}'" if isinstance(value, str) else kind_of(value)
        raise refuse(
            "an expectation is ok, in_doubt, rolled back, any or a mapping with rejected, error, "
            f"blocked_by, rows, rowcount, delivered or calls, not {text}"
            + suggestion(str(value), words)
        )

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """The words."""
        return ({"enum": ["ok", "in_doubt", "rolled back", "any"]},)

    @classmethod
    def rules(cls) -> dict[str, Any]:
        """A step ends in one way."""
        pairs = (("rejected", "error"), ("rejected", "then"), ("error", "then"))
        return {
            "if": {"required": ["then"]},
            "then": {"required": ["blocked_by"]},
            "not": {"anyOf": [{"required": list(pair)} for pair in pairs]},
        }

    @model_validator(mode="after")
    def _one_outcome(self) -> StepExpect:
        if self.then is not None and self.blocked_by is None:
            raise refuse("'then' follows 'blocked_by': {blocked_by: a_write, then: ok}")
        if self.then is not None and self.then.blocked_by is not None:
            raise refuse("'then' says how the step ends; 'blocked_by' stands outside it")
        lines = [word for word in ("rejected", "error", "then") if getattr(self, word) is not None]
        if len(lines) > 1:
            raise refuse(f"a step ends in one way, not in {listed(lines)}")
        if self.rejected is not None and self.rejected not in KINDS:
            raise refuse(no_kind(self.rejected))
        return self

    @property
    def of_merge(self) -> dict[str, int | bool]:
        """What is said of a merge session, by field."""
        lines = {name: getattr(self, name) for name in MERGE_FIELDS}
        return {name: value for name, value in lines.items() if value is not None}

    @property
    def final(self) -> StepExpect:
        """How the step ends, after any wait."""
        return self.then if self.then is not None else self


class NodeRows(Part):
    """What a table holds at one node."""

    what = "a table's expectation"
    blank = {}
    hidden = frozenset({"rows"})
    refused = {"order_by": "rows are compared by key"}
    rows: tuple[Row, ...] | None = None
    same_as: str | None = None
    """The node whose rows it holds too, in the same versions."""
    ignore: tuple[str, ...] = ()
    """With `same_as`: what need not be the same, columns or `version`."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """A list of rows."""
        if isinstance(value, list):
            return {"rows": value}
        raise refuse(f"write a list of rows, or {{same_as: node}}, not {kind_of(value)}")

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """Rows."""
        values = {"type": ["string", "number", "boolean", "null"]}
        row = {"type": "object", "additionalProperties": values}
        return ({"type": "array", "items": row},)


class Count(Part):
    """How many there must be."""

    what = "a count"
    blank = {}
    exactly: Natural | None = None
    """This many."""
    at_least: Natural | None = None
    """This many or more."""
    at_most: Natural | None = None
    """This many or fewer."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """A number: exactly so many."""
        if isinstance(value, Number):
            return {"exactly": value}
        raise refuse(f"a count is a number or {{at_least: 1, at_most: 2}}, not {kind_of(value)}")

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """A number."""
        return ({"type": "integer", "minimum": 0},)

    @classmethod
    def rules(cls) -> dict[str, Any]:
        """An exact number, or bounds."""
        bounds = [{"required": ["at_least"]}, {"required": ["at_most"]}]
        return {"oneOf": [{"required": ["exactly"]}, {"anyOf": bounds}]}

    @model_validator(mode="after")
    def _says_something(self) -> Count:
        bounded = self.at_least is not None or self.at_most is not None
        if not (self.hole or self.holes) and (self.exactly is not None) == bounded:
            raise refuse("a count has 'exactly', or one or both of 'at_least' and 'at_most'")
        return self

    def fits(self, number: int) -> bool:
        """Whether `number` is right."""
        if self.exactly is not None:
            return number == self.exactly
        return (self.at_least is None or number >= self.at_least) and (
            self.at_most is None or number <= self.at_most
        )


class Sum(Part):
    """What a column must add up to once everything is delivered."""

    what = "a sum"
    blank = {"table": "", "column": "", "equals": Number("0")}
    table: str
    """The table."""
    column: str
    """The column that is added up."""
    equals: Exact
    """What it comes to."""
    node: str | None = None
    """Where; none: at the Publisher. `everywhere`: at each node by itself."""


class NoRows(Part):
    """A query that must return no rows once everything is delivered."""

    what = "a query"
    blank = {"text": ""}
    at: str | None = None
    """A node, or `everywhere`; none: the Publisher."""
    text: str
    """The query."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """The query alone."""
        if isinstance(value, str):
            return {"text": value}
        raise refuse(f"write a query that returns no rows, or {{at: node, text: query}}, not {kind_of(value)}")  # fmt: skip

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """A query."""
        return ({"type": "string"},)


class Expect(Part):
    """What must hold when an order is over."""

    what = "expectations"
    blank = {}
    steps: dict[str, StepExpect] = {}
    """What single steps come to."""
    otherwise: Literal["ok", "any"] | None = None
    """Of steps for which nothing is expected; none: as the file says, or ok."""
    allow: tuple[Lapse, ...] | None = None
    """What else may be: a fault that does not strike, a step that is not played or exceeds its time limit."""
    sessions: dict[str, Outcome] = {}
    """How the last transaction of each ended."""
    tables: dict[str, dict[str, NodeRows]] = {}
    """By table and node, or `everywhere`: what it holds once everything is delivered."""
    committed: Count | None = None
    """Sessions whose last transaction committed."""
    rejected: dict[Annotated[str, WrittenForm(schema={"enum": list(KINDS)})], Count] = {}
    """By kind: steps that were rejected with it."""
    atomic: bool | None = None
    """Each global transaction took effect at all its participants or at none."""
    prepared_left: Left | None = None
    """Prepared branches that are left at the end; false: nobody looks."""
    versions_move_forward: bool | None = None
    """No row goes back to an earlier version."""
    converged: bool | None = None
    """Each Subscriber holds the Publisher's rows that belong to it, in the same versions."""
    echoed: Left | None = None
    """Transactions that were delivered where they came from; false: nobody looks."""
    nothing_lost: bool | None = None
    """Where changes are merged: each is in the row, in a later change, or recorded with the conflict that it lost."""
    no_lost_update: bool | None = None
    """No transaction wrote over a change that it had not seen."""
    each_change_applied_once: bool | None = None
    """Every change reached every Subscriber that it belongs to, once."""
    sum: Annotated[tuple[Sum, ...], ONE_OR_MORE] = ()
    """What a column adds up to."""
    sql: Annotated[tuple[NoRows, ...], ONE_OR_MORE] = ()
    """Queries that return no rows."""
    commands: dict[str, Commands] = {}
    """By Subscriber: how many calls and rows its agent applied, in the whole order."""
    conflicts: tuple[MergeConflictExpect, ...] | None = None
    """Exactly the conflicts that merge sessions have recorded, in any order."""
    diverged: dict[str, Texts] = {}
    """By Subscriber: exactly these tables differ from the Publisher's in the end; instead of `converged`."""
    isolation_claim: Literal["serializable"] | None = Field(default=None, alias="isolation")
    """What the history as a whole must be; judged by an external checker only."""
    cells: dict[str, Expect] = {}
    """By one value of the matrix or several joined by ``, ``: what differs in those cells."""
