"""What a scenario file may say of published routines: procedures whose execution travels as one command.

Shapes only, as in `twopc.sim.scenario.model`. Not to be confused with a table's `procedures`, which apply single rows.
"""

# ruff: noqa: RUF012 -- pydantic copies the defaults of fields, and the other mappings are constants

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from twopc.sim.scenario.parts import Natural, Part, Texts, WrittenForm, kind_of, refuse, said_of

#: How what a routine does reaches the Subscribers.
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
    """The whole CREATE PROCEDURE or CREATE FUNCTION, for the Publisher."""
    type: ProcType = "serializable proc exec"
    """When a call of it travels as a call: in serializable transactions only, in all, or never."""
    reads: Texts | None = None
    """The published tables that it reads; without it, perhaps any."""
    writes: Texts | None = None
    """The published tables that it writes; without it, perhaps any."""
    xact_abort: Switch = "on"
    """An error ends the caller's statement; off: it is told as a warning, and the caller goes on."""
    at_subscribers: Texts = ()
    """SQL for every Subscriber after it has subscribed: a body of its own, what that needs."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """Refused: a routine's text alone does not say how it travels."""
        raise refuse(f"write {{body: create procedure …}}, not {kind_of(value)}")


class Commands(Part):
    """How many commands a Subscriber's agent applied."""

    what = "a Subscriber's commands"
    blank = {}
    calls: Natural | None = None
    """Of a routine: calls that were sent as such."""
    rows: Natural | None = None
    """Of rows."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """Refused: calls and rows are counted apart."""
        raise refuse(f"write {{calls: 1, rows: 0}}, those that matter, not {kind_of(value)}")
