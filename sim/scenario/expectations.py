"""Models of a scenario file for expectations: of steps, of tables, and of the final state.

They check shapes only, as in `twopc.sim.scenario.model`.
"""

# ruff: noqa: RUF012 -- pydantic copies the defaults of fields, and the other mappings are constants

from __future__ import annotations

from collections.abc import Sequence
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
    said_of,
)
from twopc.sim.scenario.procedures import Commands
from twopc.sim.scenario.text import Number, listed, suggestion

Outcome = Literal["committed", "rolled back", "in doubt"]

#: Events that fail an order unless `allow` names them: an armed fault does not strike, or has no effect when
#: it does, a step of the order is not played, a step has no end within its time limit.
Lapse = Literal["fault_not_reached", "fault_without_effect", "step_not_played", "time_limit"]

#: All nodes, in a table's expectation and in a sync.
EVERYWHERE = "everywhere"


#: Invariants that are checked for every order by default; below, those that are checked on request.
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
    """Return the message that there is no such kind of rejection, with the existing ones."""
    hint = suggestion(name, KINDS) or f"; there are {listed(KINDS)}"
    return f"no kind of rejection is called '{name}'{hint}"


#: Fields of the report of a merge session.
MERGE_FIELDS = ("uploaded", "downloaded", "conflicts", "deferred", "retried", "resumed", "anew")

#: Value of an invariant with a number that is `false` in the file.
NOT_JUDGED = -1


def _or_not(value: Any) -> Any:
    if isinstance(value, Number) and value.startswith("-"):
        raise refuse(f"expected 0 or more, or false, not {value}")
    if value is True:
        raise refuse(f"expected a whole number, or false, not {kind_of(value)}")
    return NOT_JUDGED if value is False else value


#: An expected number, or `false` if the invariant is not checked.
Left = Annotated[
    int,
    BeforeValidator(_or_not),
    WrittenForm(schema={"anyOf": [{"type": "integer", "minimum": 0}, {"const": False}]}),
]


class StepExpect(Part):
    """Expected result of a step."""

    what = "an expectation"
    blank = {}
    hidden = frozenset({"outcome"})
    outcome: Literal["ok", "in_doubt", "rolled back", "any"] | None = None
    rejected: Annotated[str, WrittenForm(schema={"enum": list(KINDS)})] | None = None
    """Kind of the rejection."""
    error: str | None = None
    """SQLSTATE of the error, or its name as in psycopg.errors."""
    blocked_by: str | None = None
    """Step or session for which the step provably waits."""
    then: StepExpect | None = None
    """Result after the wait; ok if omitted."""
    rows: tuple[Row, ...] | None = None
    """Returned rows, in order."""
    rowcount: Natural | None = None
    """Number of returned or changed rows."""
    delivered: Natural | None = None
    """For a sync: number of delivered transactions."""
    calls: Natural | None = None
    """For a sync: number of delivered calls of routines."""
    uploaded: Natural | None = None
    """For a merge session: number of rows written at the Publisher."""
    downloaded: Natural | None = None
    """For a merge session: number of rows written at the Subscriber."""
    conflicts: Natural | None = None
    """For a merge session: number of conflicts."""
    deferred: Natural | None = None
    """For a merge session: number of rows not applied at the Subscriber, because its own change must be uploaded
    first.
    """
    retried: Natural | None = None
    """For a merge session: number of rows that could not be written and will be retried."""
    resumed: bool | None = None
    """For a merge session: whether it continued one that was interrupted."""
    anew: bool | None = None
    """For a merge session: whether one of its nodes was restored from a backup."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """Return the mapping for `ok`, `in_doubt`, `rolled back` or `any`."""
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
        raise refuse(
            "an expectation is ok, in_doubt, rolled back, any or a mapping with rejected, error, "
            f"blocked_by, rows, rowcount, delivered or calls, not {said_of(value)}"
            + suggestion(str(value), words)
        )

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """Return the schema of the words."""
        return ({"enum": ["ok", "in_doubt", "rolled back", "any"]},)

    @classmethod
    def rules(cls) -> dict[str, Any]:
        """Require a single outcome."""
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
        """Expected fields of the report of a merge session."""
        lines = {name: getattr(self, name) for name in MERGE_FIELDS}
        return {name: value for name, value in lines.items() if value is not None}

    @property
    def final(self) -> StepExpect:
        """Expected result of the step after any wait."""
        return self.then if self.then is not None else self


class NodeRows(Part):
    """Expected rows of a table at one node."""

    what = "a table's expectation"
    blank = {}
    hidden = frozenset({"rows"})
    refused = {"order_by": "rows are compared by key"}
    rows: tuple[Row, ...] | None = None
    same_as: str | None = None
    """Node that holds the same rows, in the same versions."""
    ignore: tuple[str, ...] = ()
    """With `same_as`: columns, or `version`, that are not compared."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """Return the mapping for a list of rows."""
        if isinstance(value, list):
            return {"rows": value}
        raise refuse(f"write a list of rows, or {{same_as: node}}, not {kind_of(value)}")

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """Return the schema of a list of rows."""
        values = {"type": ["string", "number", "boolean", "null"]}
        row = {"type": "object", "additionalProperties": values}
        return ({"type": "array", "items": row},)


class Count(Part):
    """An expected number."""

    what = "a count"
    blank = {}
    exactly: Natural | None = None
    """Exact number."""
    at_least: Natural | None = None
    """Minimum."""
    at_most: Natural | None = None
    """Maximum."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """Return the mapping for a number."""
        if isinstance(value, Number):
            return {"exactly": value}
        raise refuse(f"a count is a number or {{at_least: 1, at_most: 2}}, not {kind_of(value)}")

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """Return the schema of a number."""
        return ({"type": "integer", "minimum": 0},)

    @classmethod
    def rules(cls) -> dict[str, Any]:
        """Require either an exact number or bounds."""
        bounds = [{"required": ["at_least"]}, {"required": ["at_most"]}]
        return {"oneOf": [{"required": ["exactly"]}, {"anyOf": bounds}]}

    @model_validator(mode="after")
    def _says_something(self) -> Count:
        bounded = self.at_least is not None or self.at_most is not None
        if not (self.hole or self.holes) and (self.exactly is not None) == bounded:
            raise refuse("a count has 'exactly', or one or both of 'at_least' and 'at_most'")
        return self

    def fits(self, number: int) -> bool:
        """Return whether `number` is as expected."""
        if self.exactly is not None:
            return number == self.exactly
        return (self.at_least is None or number >= self.at_least) and (
            self.at_most is None or number <= self.at_most
        )


class Sum(Part):
    """Expected sum of a column after all changes have been delivered."""

    what = "a sum"
    blank = {"table": "", "column": "", "equals": Number("0")}
    table: str
    """Name of the table."""
    column: str
    """Name of the column."""
    equals: Exact
    """Expected sum."""
    node: str | None = None
    """Name of a node. If omitted, the Publisher. `everywhere`: each node separately."""


class NoRows(Part):
    """A query that must return no rows after all changes have been delivered."""

    what = "a query"
    blank = {"text": ""}
    at: str | None = None
    """A node, or `everywhere`. If omitted, the Publisher."""
    text: str
    """SQL of the query."""

    def nodes(self, every: Sequence[str]) -> Sequence[str]:
        """Return the nodes at which the query runs, of all nodes, the Publisher first."""
        return every if self.at == EVERYWHERE else (self.at or every[0],)

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """Return the mapping for a query without a node."""
        if isinstance(value, str):
            return {"text": value}
        raise refuse(f"write a query that returns no rows, or {{at: node, text: query}}, not {kind_of(value)}")  # fmt: skip

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """Return the schema of a query."""
        return ({"type": "string"},)


class Expect(Part):
    """Expectations at the end of an order."""

    what = "expectations"
    blank = {}
    steps: dict[str, StepExpect] = {}
    """Expected results of single steps."""
    otherwise: Literal["ok", "any"] | None = None
    """Expected result of steps without an expectation. If omitted, that of the file, or ok."""
    allow: tuple[Lapse, ...] | None = None
    """Events that do not fail the order: a fault that does not strike or has no effect, a step that is not played
    or exceeds its time limit.
    """
    sessions: dict[str, Outcome] = {}
    """Expected outcome of each session's last transaction."""
    tables: dict[str, dict[str, NodeRows]] = {}
    """By table and node, or `everywhere`: expected rows after all changes have been delivered."""
    committed: Count | None = None
    """Number of sessions whose last transaction committed."""
    rejected: dict[Annotated[str, WrittenForm(schema={"enum": list(KINDS)})], Count] = {}
    """Number of rejected steps, by kind of rejection."""
    atomic: bool | None = None
    """Whether each global transaction must have taken effect at all its participants or at none."""
    prepared_left: Left | None = None
    """Number of prepared branches left at the end; false: not checked."""
    versions_move_forward: bool | None = None
    """Whether rows must never return to an earlier version."""
    converged: bool | None = None
    """Whether each Subscriber must hold exactly the Publisher's rows that belong to it, in the same versions."""
    echoed: Left | None = None
    """Number of transactions delivered to the Subscriber that made them; false: not checked."""
    nothing_lost: bool | None = None
    """In merge replication: whether each change must be in the row, be included in a later change, or be recorded
    with the conflict that it lost.
    """
    no_lost_update: bool | None = None
    """Whether transactions must not have overwritten changes that they had not seen."""
    each_change_applied_once: bool | None = None
    """Whether every change must have reached every Subscriber to which it belongs, once."""
    sum: Annotated[tuple[Sum, ...], ONE_OR_MORE] = ()
    """Expected sums of columns."""
    sql: Annotated[tuple[NoRows, ...], ONE_OR_MORE] = ()
    """Queries that must return no rows."""
    commands: dict[str, Commands] = {}
    """By Subscriber: numbers of calls and rows that its agent applied in the whole order."""
    conflicts: tuple[MergeConflictExpect, ...] | None = None
    """Complete list of the conflicts that merge sessions have recorded, in any order."""
    diverged: dict[str, Texts] = {}
    """By Subscriber: the tables that must differ from the Publisher's at the end, and no others; instead of
    `converged`.
    """
    isolation_claim: Literal["serializable"] | None = Field(default=None, alias="isolation")
    """Required isolation of the history as a whole, which only an external checker can judge."""
    cells: dict[str, Expect] = {}
    """By one value of the matrix, or several joined by ``, ``: expectations that differ in those cells."""
