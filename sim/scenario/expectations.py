"""What a scenario file may expect: of a step, of a table, and of everything at the end.

Shapes only, as in `sim.scenario.model`.
"""

# ruff: noqa: RUF012 -- pydantic copies the defaults of fields, and the other mappings are constants

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from sim.scenario.parts import Part, Row, kind_of, refuse
from sim.scenario.text import listed, suggestion
from twopc.errors import KINDS

Outcome = Literal["committed", "rolled back", "in doubt"]

#: Why what is about many orders cannot be said yet.
GENERATE = "it needs generated orders; list them under 'orders'"
#: In a table's expectation, and for a sync: every node.
EVERYWHERE = "everywhere"


class StepExpect(Part):
    """What a step must come to."""

    what = "an expectation"
    blank = {}
    hidden = frozenset({"outcome"})
    outcome: Literal["ok", "in_doubt", "rolled back"] | None = None
    rejected: str | None = None
    error: str | None = None
    blocked_by: str | None = None
    then: StepExpect | None = None
    rows: tuple[Row, ...] | None = None
    rowcount: int | None = None
    delivered: int | None = None
    """Of a sync: how many transactions it brought."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """`ok`, `in_doubt` or `rolled back`."""
        if value in ("ok", "in_doubt", "rolled back"):
            return {"outcome": value}
        longer = {
            "rejected": "{rejected: version_mismatch}",
            "error": "{error: 23505}",
            "blocked_by": "{blocked_by: a_write, then: ok}",
        }
        if isinstance(value, str) and value in longer:
            raise refuse(f"'{value}' needs more: {longer[value]}")
        said = f"'{value}'" if isinstance(value, str) else kind_of(value)
        raise refuse(
            "an expectation is ok, in_doubt, rolled back or a mapping with rejected, error, "
            f"blocked_by, rows, rowcount or delivered, not {said}"
            + suggestion(str(value), ("ok", "in_doubt", "rolled back"))
        )

    @model_validator(mode="after")
    def _one_outcome(self) -> StepExpect:
        if self.then is not None and self.blocked_by is None:
            raise refuse("'then' follows 'blocked_by': {blocked_by: a_write, then: ok}")
        if self.then is not None and self.then.blocked_by is not None:
            raise refuse("'then' says how the step ends; 'blocked_by' stands outside it")
        said = [word for word in ("rejected", "error", "then") if getattr(self, word) is not None]
        if len(said) > 1:
            raise refuse(f"a step ends in one way, not in {listed(said)}")
        if self.rejected is not None and self.rejected not in KINDS:
            hint = suggestion(self.rejected, KINDS) or f"; there are {listed(KINDS)}"
            raise refuse(f"no kind of rejection is called '{self.rejected}'{hint}")
        return self

    @property
    def final(self) -> StepExpect:
        """How the step ends, after any wait."""
        return self.then if self.then is not None else self


class NodeRows(Part):
    """What a table holds at one node."""

    what = "a table's expectation"
    blank = {}
    hidden = frozenset({"rows"})
    later = {
        "ignore": "only the columns that the rows name are compared",
        "order_by": "rows are compared by key",
    }
    rows: tuple[Row, ...] | None = None
    same_as: str | None = None

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """A list of rows."""
        if isinstance(value, list):
            return {"rows": value}
        raise refuse(f"write a list of rows, or {{same_as: node}}, not {kind_of(value)}")


class Expect(Part):
    """What must hold when an order is over."""

    what = "expectations"
    blank = {}
    later = {
        "committed": GENERATE,
        "rejected": GENERATE,
        "sum": "compare the rows under 'tables'",
        "no_lost_update": "compare the rows under 'tables'",
        "isolation": "it needs an external checker of histories",
        "each_change_applied_once": "it needs faults at protocol points; 'converged' compares the rows",
        "sql": "use a step {check: …, rows: […]}",
    }
    steps: dict[str, StepExpect] = {}
    sessions: dict[str, Outcome] = {}
    tables: dict[str, dict[str, NodeRows]] = {}
    atomic: bool | None = None
    prepared_left: int | None = None
    versions_move_forward: bool | None = None
    converged: bool | None = None
    echoed: int | None = None
