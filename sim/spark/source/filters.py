"""Filters of Spark that the database evaluates, and the range of sequence numbers that they leave."""

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

#: Columns that the server can compare; all of them are integers and never null.
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
    """The range and the conditions that the database evaluates."""

    after: int
    upto: int
    conditions: tuple[str, ...]
    """SQL conditions on the table's columns."""


def push(
    table: str, filters: Iterable[Filter], *, after: int, upto: int
) -> tuple[PushedFilters, list[Filter]]:
    """Separate the filters that the database can evaluate from the others.

    Args:
        after, upto: the requested range; filters narrow it.

    Returns:
        The pushed filters, and the remaining filter objects, which Spark must evaluate.
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
    """Return the column of a filter in lower case; empty if the filter has no column, or a nested one."""
    attribute: tuple[str, ...] = getattr(each, "attribute", ())
    return str(attribute[0]).lower() if len(attribute) == 1 else ""


def _narrowed(each: Filter, after: int, upto: int) -> tuple[int, int]:
    """Return the part of the range in which a condition on `seqno` holds."""
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
    """Return a filter as an SQL condition; None if it has no SQL form here."""
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
