"""GROUP BY and DISTINCT: which columns may appear outside of aggregates, and which may order the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from twopc.sim.model.sql.bind import FromSource, Scope
from twopc.sim.model.sql.parse import kind, rendered
from twopc.sim.model.values import SqlError


def grouped_by(node: Any, items: Sequence[Any], scope: Scope) -> Any:
    """Return the expression for which an item of GROUP BY stands: a column, or the output with a number or name."""
    by_name = kind(node) == "Column" and not node.table
    if by_name and any(node.name in source.at for source in scope.sources):
        return node
    for place, item in enumerate(items, start=1):
        is_number = kind(node) == "Literal" and not node.is_string and int(node.this) == place
        if is_number or (by_name and kind(item) == "Alias" and item.alias == node.name):
            return item.this if kind(item) == "Alias" else item
    return node


def check_grouped(group: Sequence[Any], parts: Iterable[Any], scope: Scope) -> None:
    """Check that each column is grouped, is in an aggregate, or depends on a grouped primary key.

    Args:
        group: the items of GROUP BY.
        parts: the expressions that are computed for each group.
        scope: the scope in which their columns are found.

    Raises:
        SqlError: a column has several values in a group (42803).
    """
    grouped = {place for one in group if (place := _place(one, scope)) is not None}
    texts = {rendered(one) for one in group}
    aggregates = scope.aggregates or {}

    def is_one_value(node: Any) -> bool:
        return (
            kind(node) in ("Select", "Subquery")
            or id(node) in aggregates
            or rendered(node) in texts
        )

    for part in parts:
        for node in part.walk(prune=is_one_value):
            place = None if is_one_value(node) else _place(node, scope)
            if place is None or place in grouped:
                continue
            source = place[0]
            primary = source.table.primary if source.table is not None else None
            if primary is None or any((source, at) not in grouped for at in primary.places):
                raise SqlError(
                    "42803",
                    f'column "{source.alias}.{node.name}" must appear in the GROUP BY clause or be used in an '
                    "aggregate function",
                )


def check_distinct(items: Sequence[Any], keys: Iterable[Any], scope: Scope) -> None:
    """Check that a query with DISTINCT is ordered only by expressions that it returns.

    Raises:
        SqlError: the query is ordered by another expression (42P10).
    """
    outputs = [item.this if kind(item) == "Alias" else item for item in items]
    texts = {rendered(one) for one in outputs}
    places = {place for one in outputs if (place := _place(one, scope)) is not None}
    if any(rendered(key) not in texts and _place(key, scope) not in places for key in keys):
        raise SqlError(
            "42P10", "for SELECT DISTINCT, ORDER BY expressions must appear in select list"
        )


def _place(node: Any, scope: Scope) -> tuple[FromSource, int] | None:
    """Return the source and place of a column of the query itself; None for any other node."""
    if kind(node) != "Column" or kind(node.this) == "Star":
        return None
    place = scope.find(node.name, node.table)
    return place if place is not None and place[0] in scope.sources else None
