"""Conditions of merge filters, as the model evaluates them; unsupported ones are refused by name.

Conditions contain a Subscriber's values as ``msrepl.host_name()`` and ``msrepl.suser_sname()``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from twopc.sim.model.node.constraints import bare
from twopc.sim.model.node.heap import HeapTable
from twopc.sim.model.sql.bind import Context, FromSource, Scope
from twopc.sim.model.sql.expressions import compiled, name_of
from twopc.sim.model.sql.functions import LENIENT, STRICT
from twopc.sim.model.sql.parse import expression, kind, rendered
from twopc.sim.model.sql.widths import column_type, width
from twopc.sim.model.values import SqlError, UnsupportedError, Values

VALUES = ("host_name", "suser_sname")
"""Functions that return a Subscriber's values."""

#: Functions whose result depends on the time; other functions that are not immutable, or have side effects.
_TIMES = frozenset({"now", "current_timestamp", "transaction_timestamp", "current_date"})
_NOT_IMMUTABLE = {"current_setting", "concat"} | LENIENT.keys() - _TIMES - {
    "coalesce", "greatest", "least", "nullif", "row",
}  # fmt: skip
_SUBQUERIES = ("Select", "Subquery", "Exists")
_COMPARISONS = ("EQ", "NEQ", "LT", "GT", "LTE", "GTE", "NullSafeEQ", "NullSafeNEQ")
_TEXTS = ("text", "varchar", "char")


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCondition:
    """A condition whether a row belongs to Subscribers with a host name and a login."""

    holds: Callable[[Values, str | None, str | None, float], bool]
    """Return whether a row belongs, given a host name, a login and the time in seconds since 1970."""
    uses: frozenset[str]
    """The Subscriber's values that the condition uses."""
    is_timed: bool
    """Whether the result for the same row may change with time."""


def row_condition(text: str, table: HeapTable, plans: Any) -> RowCondition:
    """Return the condition of a row filter.

    Raises:
        SqlError: a server would refuse the filter.
        UnsupportedError: the model does not support part of the filter.
    """
    scope = Scope(plans)
    scope.add(_source(table))
    tree, used, is_timed = _read(text)
    fn = compiled(tree, scope)
    for name in used:
        _check_types(tree, name, scope)

    def belongs(row: Values, host_name: str | None, login: str | None, now_s: float) -> bool:
        values = {"host_name": host_name, "suser_sname": login}
        return fn((row,), Context(_Moment(now_s), values)) is True

    return RowCondition(holds=belongs, uses=used, is_timed=is_timed)


class _Moment:
    """A transaction, as far as functions of time use it."""

    def __init__(self, now_s: float) -> None:
        self.top = self
        self.began = now_s


def join_condition(
    text: str, child: HeapTable, parent: HeapTable, plans: Any
) -> tuple[Callable[[Values, Values], bool], bool]:
    """Return a join filter's condition on a row of `child` and one of `parent`, and whether it is a foreign key.

    Raises:
        SqlError: a server would refuse the filter.
        UnsupportedError: the model does not support part of the filter.
    """
    scope = Scope(plans)
    scope.add(_source(child))
    scope.add(_source(parent))
    tree, used, is_timed = _read(text)
    if is_timed:
        raise UnsupportedError(text, "a join filter on time")
    if used:
        raise SqlError(
            "42P10",
            f"join filter {text!r} uses {', '.join(sorted(used))}, which row filters alone may: filter the parent by it",
        )
    fn = compiled(tree, scope)

    def belongs(row: Values, above: Values) -> bool:
        return fn((row, above), Context(None, {})) is True

    return belongs, _is_key(tree, child, parent, scope)


def _source(table: HeapTable) -> FromSource:
    types = [column.type for column in table.columns]
    return FromSource(bare(table), list(table.at), types, table)


def _read(text: str) -> tuple[Any, frozenset[str], bool]:
    """Return a condition's tree, with parameters in place of a Subscriber's values, and the names of those values.

    The third result is whether the condition uses the time.
    """
    from sqlglot import exp

    tree = expression(text).copy()
    if kind(tree) == "Alias" or tree.find(exp.Placeholder, exp.Parameter):
        raise UnsupportedError(text, f"the condition {text}")
    is_timed = False
    for node in [*tree.walk()]:
        if kind(node) in _SUBQUERIES:
            raise UnsupportedError(text, "a filter that looks at another table")
        if isinstance(node, exp.Func) and kind(node) not in ("And", "Or", "Cast", "Case"):
            name = name_of(node)
            is_timed = is_timed or name in _TIMES
            if name in _NOT_IMMUTABLE or (name in STRICT and name.startswith("pg_")):
                raise UnsupportedError(text, f"a filter that calls {name}")
    used = set()
    for node in [*tree.find_all(exp.Dot)]:
        schema, name = node.this.name.lower(), str(node.expression.this).lower()
        if schema != "msrepl" or name not in VALUES or node.expression.expressions:
            raise UnsupportedError(text, f"the function {rendered(node)}")
        used.add(name)
        value = exp.Placeholder(this=name)
        if node is tree:
            tree = value
        else:
            node.replace(value)
    return tree, frozenset(used), is_timed


def _check_types(tree: Any, name: str, scope: Scope) -> None:
    """Check that a Subscriber's values, which are texts, are compared with texts. 42883"""
    for node in tree.walk():
        if kind(node) in _COMPARISONS:
            sides = (node.this, node.expression)
            for side, other in (sides, sides[::-1]):
                type_ = column_type(other, scope) or width(other, scope)
                if kind(side) == "Placeholder" and side.name == name and type_ not in ("", *_TEXTS):
                    raise SqlError("42883", f"operator does not exist: {type_} = text")


def _is_key(tree: Any, child: HeapTable, parent: HeapTable, scope: Scope) -> bool:
    """Return whether a condition equates a foreign key of the child with the parent's key."""
    pairs = []
    for part in _parts(tree):
        if kind(part) != "EQ" or {kind(part.this), kind(part.expression)} != {"Column"}:
            return False
        pair = [scope.find(each.name, each.table) for each in (part.this, part.expression)]
        if None in pair:
            return False
        pairs.append(tuple((each[0].slot, each[0].names[each[1]]) for each in pair if each))
    for key in child.references:
        if key.parent is not parent:
            continue
        expected = [
            ((0, child.columns[here].name), (1, parent.columns[there].name))
            for here, there in zip(key.places, key.index.places, strict=True)
        ]
        if pairs in (expected, [each[::-1] for each in expected]):
            return True
    return False


def _parts(tree: Any) -> list[Any]:
    while kind(tree) == "Paren":
        tree = tree.this
    if kind(tree) == "And":
        return [*_parts(tree.this), *_parts(tree.expression)]
    return [tree]
