"""Models of a scenario file for generated orders: every order of the steps that fulfils its constraints.

They check shapes only, as in `twopc.sim.scenario.model`; orders are enumerated in `twopc.sim.scenario.ordering`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from twopc.sim.scenario.parts import (
    HOLE,
    ONE_OR_MORE,
    Part,
    Texts,
    Whole,
    WrittenForm,
    pattern,
    refuse,
    said_of,
)
from twopc.sim.scenario.text import suggestion

#: Default maximum number of orders that are run.
LIMIT = 200
_BEFORE = re.compile(r"\s*(\S+)\s*<\s*(\S+)\s*")
_SAMPLE = re.compile(r"\s*(\d+)\s+seed\s+(\d+)\s*")


def _before(value: Any) -> Any:
    if value is HOLE:
        return ""
    if isinstance(value, str) and _BEFORE.fullmatch(value) is None:
        raise refuse(f"what comes before what is written \"a_read < b_write\", not '{value}'")
    return value


def _together(value: Any) -> Any:
    """Return a single list of steps as a list of lists."""
    flat = isinstance(value, list) and all(isinstance(each, str) for each in value) and value
    return [value] if flat or value is HOLE else value


def _limit(value: Any) -> Any:
    return None if value == "none" else value


def _sample(value: Any) -> Any:
    if value is None:
        return None
    match = _SAMPLE.fullmatch(value) if isinstance(value, str) else None
    if match is None or not int(match[1]):
        raise refuse(f"a sample is written '500 seed 7', not {said_of(value)}")
    return (int(match[1]), int(match[2]))


_LIMIT = WrittenForm(schema={"anyOf": [{"type": "integer", "minimum": 1}, {"const": "none"}]})


class Generate(Part):
    """Constraints of generated orders, and how many of the orders are run."""

    what = "generated orders"
    blank = {}  # noqa: RUF012 -- a constant
    before: tuple[Annotated[str, BeforeValidator(_before), pattern(_BEFORE.pattern)], ...] = ()
    """``x < y``: step x comes before step y."""
    together: Annotated[tuple[tuple[str, ...], ...], BeforeValidator(_together), ONE_OR_MORE] = ()
    """Steps that follow each other immediately, in this order; one list of steps, or several."""
    sessions: Texts = ()
    """Sessions whose steps are played. Empty: all."""
    limit: Annotated[Whole | None, BeforeValidator(_limit), _LIMIT] = LIMIT
    """Maximum number of orders that are run. None (`none` in the file): no limit."""
    sample: Annotated[
        tuple[int, int] | None, BeforeValidator(_sample), pattern(_SAMPLE.pattern)
    ] = None
    """Number of orders drawn at random from all of them, and the seed: ``500 seed 7``."""
    reduce: Literal["equivalent", "none"] = "equivalent"
    """Whether only one of the orders that differ only in the sequence of independent steps is run, or all of them."""

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """Return the schema of the word `all`."""
        return ({"const": "all"},)

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """Return the mapping for `all`, without constraints."""
        if value == "all":
            return {}
        raise refuse(
            "'generate' is all, or a mapping with before, together, sessions, limit, sample or "
            f"reduce, not {said_of(value)}{suggestion(str(value), ('all',))}"
        )

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The constraints of `before`, each as its two steps."""
        match = (_BEFORE.fullmatch(each) for each in self.before)
        return tuple(("", "") if each is None else (each[1], each[2]) for each in match)
