"""How wide an integer expression is, as far as its words tell: 4 bytes overflow sooner than 8."""

from __future__ import annotations

from typing import Any

from twopc.sim.model.sql import types
from twopc.sim.model.sql.bind import Scope
from twopc.sim.model.sql.parse import kind, rendered


def width(node: Any, scope: Scope) -> str:
    """The integer type that an expression surely has; empty if that is not known."""
    what = kind(node)
    if what in ("Paren", "Neg"):
        return width(node.this, scope)
    if what == "Literal" and not node.is_string and node.this.isdigit():
        return "integer" if int(node.this) < 2**31 else "bigint"
    if what == "Column" and kind(node.this) != "Star":
        result = scope.find(node.name, node.table)
        type_ = result[0].types[result[1]] if result is not None else None
        return (
            type_.name
            if type_ is not None and type_.name in ("smallint", "integer", "bigint")
            else ""
        )
    if what == "Cast":
        name = types.named(rendered(node.args["to"])).name
        return name if name in ("smallint", "integer", "bigint") else ""
    if what in ("Add", "Sub", "Mul", "Div", "Mod"):
        sides = {width(node.this, scope), width(node.expression, scope)}
        return "" if "" in sides else "bigint" if "bigint" in sides else "integer"
    return ""
