"""Explicit casts, and PostgreSQL's implicit ones: a text without a type is read as the type of the other operand."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from twopc.sim.model.sql import types
from twopc.sim.model.sql.bind import Context, Fn, Rows, Scope
from twopc.sim.model.sql.parse import kind, rendered
from twopc.sim.model.sql.types import SqlType
from twopc.sim.model.sql.widths import column_type, width
from twopc.sim.model.values import SqlError

#: Types of the other operand as which a text is read: in comparisons, and in arithmetic.
COMPARED = frozenset({*types.NUMBERS, "boolean", "date", "timestamp", "timestamptz", "uuid"})
COUNTED = frozenset(types.NUMBERS)
UNREAD: frozenset[str] = frozenset()


def cast(value: Any, type_: SqlType) -> Any:
    """Perform an explicit cast. Raise 22P02, 22003 or 42846."""
    if value is None:
        return None
    if type_.name == "boolean" and value.__class__ is int:
        return value != 0
    if value.__class__ is bool and type_.name == "integer":
        return int(value)
    if type_.name in ("varchar", "char") and type_.precision is not None:
        return types.as_text(value)[: type_.precision]
    try:
        return type_.store(value)
    except SqlError as error:
        if error.sqlstate == "42804":
            raise SqlError(
                "42846", f"cannot cast type {types.kind_of(value)} to {type_.shown()}"
            ) from None
        raise


def beside(fn: Fn, node: Any, other: Any, scope: Scope, reads: Collection[str]) -> Fn:
    """Return the closure of an operand, given the other operand: a literal or a parameter may be a text without a
    type.

    Args:
        fn: the operand's own closure.
        reads: names of the types as which texts are read.

    Raises:
        SqlError: a literal is not of the other operand's type (22P02, 22003, 22007, 22008); raised even if there
            are no rows.
    """
    name = _type_name(other, scope)
    if not _is_untyped(node) or name not in reads:
        return fn
    store = SqlType(name).store
    if kind(node) == "Literal":
        constant = store(node.this)
        return lambda r, c: constant
    if kind(node) == "Null":
        return fn

    def given(r: Rows, c: Context) -> Any:
        value = fn(r, c)
        return store(value) if value.__class__ is str else value

    return given


def listed(items: Sequence[tuple[Fn, Any]], subject: Any, scope: Scope) -> list[Fn]:
    """Return the closures of the items of an IN list; see `beside`. Where types differ, no text is read as a type."""
    name = _type_name(subject, scope)
    others = {_type_name(node, scope) for _, node in items if not _is_untyped(node)}
    reads = COMPARED if others <= {name} else UNREAD
    return [beside(fn, node, subject, scope, reads) for fn, node in items]


def _is_untyped(node: Any) -> bool:
    return (kind(node) == "Literal" and bool(node.is_string)) or kind(node) in (
        "Null",
        "Parameter",
        "Placeholder",
    )


def _type_name(node: Any, scope: Scope) -> str:
    """Return the name of an expression's type; empty if it is not known."""
    if kind(node) == "Cast":
        return types.named(rendered(node.args["to"])).name
    return column_type(node, scope) or width(node, scope)
