"""Models of a scenario file for published routines: procedures whose execution is propagated as one command.

They check shapes only, as in `twopc.sim.scenario.model`. A table's `procedures`, which apply single rows, are
different.
"""

# ruff: noqa: RUF012 -- pydantic copies the defaults of fields, and the other mappings are constants

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from twopc.sim.scenario.parts import Natural, Part, Texts, WrittenForm, kind_of, refuse, said_of

#: How the effects of a routine are propagated to Subscribers.
ProcType = Literal["serializable proc exec", "proc exec", "proc schema only"]


def _switch(value: Any) -> Any:
    if value in ("on", "off") and not isinstance(value, bool):
        return value
    if isinstance(value, bool):
        raise refuse(f"write {'on' if value else 'off'}, not {str(value).lower()}")
    raise refuse(f"it is on or off, not {said_of(value)}")


Switch = Annotated[
    Literal["on", "off"], BeforeValidator(_switch), WrittenForm(schema={"enum": ["on", "off"]})
]


class Procedure(Part):
    """A routine whose execution is published."""

    what = "a procedure"
    blank = {"body": ""}
    body: str
    """The complete CREATE PROCEDURE or CREATE FUNCTION statement, for the Publisher."""
    type: ProcType = "serializable proc exec"
    """When a call is propagated as a call: in serializable transactions only, in all transactions, or never."""
    reads: Texts | None = None
    """Published tables that it reads. If omitted, it may read any."""
    writes: Texts | None = None
    """Published tables that it writes. If omitted, it may write any."""
    xact_abort: Switch = "on"
    """Whether an error ends the caller's statement. off: the error is reported as a warning, and the caller
    continues.
    """
    at_subscribers: Texts = ()
    """SQL for every Subscriber after it has subscribed, such as another body or the objects that the routine needs."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """Refuse a routine's text alone, which does not define how calls are propagated."""
        raise refuse(f"write {{body: create procedure …}}, not {kind_of(value)}")


class Commands(Part):
    """Number of commands that a Subscriber's agent applied."""

    what = "a Subscriber's commands"
    blank = {}
    calls: Natural | None = None
    """Number of calls of routines that were sent as calls."""
    rows: Natural | None = None
    """Number of commands for rows."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """Refuse a single number: calls and rows are counted separately."""
        raise refuse(f"write {{calls: 1, rows: 0}}, those that matter, not {kind_of(value)}")
