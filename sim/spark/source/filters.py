"""Which of Spark's filters the database evaluates, and the range of sequence numbers that they leave."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
)

#: Columns that are compared at the server, all integers and none of them ever null.
COLUMNS = {
    "commands": ("seqno", "article_id", "type", "command_id"),
    "transactions": ("seqno",),
}
_OPERATORS: dict[type[Filter], str] = {
    EqualTo: "=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


@dataclass(frozen=True, slots=True)
class PushedFilters:
    """What the database is asked to leave out."""

    after: int
    upto: int
    conditions: tuple[str, ...]
    """SQL over the table's columns."""


def push(
    table: str, filters: Iterable[Filter], *, after: int, upto: int
) -> tuple[PushedFilters, list[Filter]]:
    """Take what the database can evaluate.

    Args:
        after, upto: the range that was asked for; filters narrow it.

    Returns:
        That, and the filters that Spark must still evaluate, the very objects.
    """
    conditions: list[str] = []
    left: list[Filter] = []
    columns = COLUMNS.get(table, ())
    for each in filters:
        column = _column(each)
        if column not in columns:
            left.append(each)
        elif isinstance(each, IsNotNull):
            continue
        elif column == "seqno" and not isinstance(each, In):
            after, upto = _narrowed(each, after, upto)
        else:
            condition = _condition(column, each)
            if condition is None:
                left.append(each)
            else:
                conditions.append(condition)
    return PushedFilters(after=after, upto=upto, conditions=tuple(conditions)), left


def _column(each: Filter) -> str:
    """Its column, as Spark has it in lower or upper case; empty: it is of none, or nested."""
    attribute: tuple[str, ...] = getattr(each, "attribute", ())
    return str(attribute[0]).lower() if len(attribute) == 1 else ""


def _narrowed(each: Filter, after: int, upto: int) -> tuple[int, int]:
    """The range within which a condition on `seqno` holds."""
    value = int(each.value)  # type: ignore[attr-defined]
    if isinstance(each, EqualTo | GreaterThanOrEqual):
        after = max(after, value - 1)
    if isinstance(each, GreaterThan):
        after = max(after, value)
    if isinstance(each, EqualTo | LessThanOrEqual):
        upto = min(upto, value)
    if isinstance(each, LessThan):
        upto = min(upto, value - 1)
    return after, upto


def _condition(column: str, each: Filter) -> str | None:
    """It as SQL; None: it is none of those."""
    if isinstance(each, In):
        results = list(_integers(each.value))
        return f"{column} in ({', '.join(results)})" if results else None
    operator = _OPERATORS.get(type(each))
    if operator is None:
        return None
    return f"{column} {operator} {int(each.value)}"  # type: ignore[attr-defined]


def _integers(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if value is not None:  # no row is equal to null
            yield str(int(value))
