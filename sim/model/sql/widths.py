"""Types of expressions as far as their syntax determines them: for integer overflow, and for IS TRUE of a
non-boolean.
"""

from __future__ import annotations

from typing import Any

from twopc.sim.model.sql import types
from twopc.sim.model.sql.bind import Scope
from twopc.sim.model.sql.parse import kind, rendered


def width(node: Any, scope: Scope) -> str:
    """Return the integer type that an expression certainly has; empty if it is not known."""
    what = kind(node)
    if what in ("Paren", "Neg"):
        return width(node.this, scope)
    if what == "Literal" and not node.is_string and node.this.isdigit():
        return "integer" if int(node.this) < 2**31 else "bigint"
    if what == "Column":
        type_ = column_type(node, scope)
        return type_ if type_ in ("smallint", "integer", "bigint") else ""
    if what == "Cast":
        name = types.named(rendered(node.args["to"])).name
        return name if name in ("smallint", "integer", "bigint") else ""
    if what in ("Add", "Sub", "Mul", "Div", "Mod"):
        sides = {width(node.this, scope), width(node.expression, scope)}
        return "" if "" in sides else "bigint" if "bigint" in sides else "integer"
    return ""


def column_type(node: Any, scope: Scope) -> str:
    """Return the type of an expression that is a column; empty for any other, or if the type is not known."""
    if kind(node) != "Column" or kind(node.this) == "Star":
        return ""
    place = scope.find(node.name, node.table)
    type_ = place[0].types[place[1]] if place is not None else None
    return "" if type_ is None else str(type_.name)
