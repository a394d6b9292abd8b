"""Expressions compiled to closures: ``closure(rows, context) -> value``.

Subqueries run without waiting, since a plain SELECT never waits. Functions that may wait are called only as
top-level items of a select list (`select`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from decimal import Decimal
from typing import Any

from twopc.sim.model.sql import coercion, types
from twopc.sim.model.sql import operators as op
from twopc.sim.model.sql.bind import Context, Fn, NamedRow, Rows, Scope
from twopc.sim.model.sql.coercion import beside, cast
from twopc.sim.model.sql.functions import AGGREGATES, LENIENT, RENAMED, STRICT
from twopc.sim.model.sql.parse import arguments, construct, kind, rendered
from twopc.sim.model.sql.types import SqlType
from twopc.sim.model.sql.widths import column_type, width
from twopc.sim.model.values import SqlError, UnsupportedError

_Handler = Callable[[Any, Scope], Fn]


def compiled(node: Any, scope: Scope) -> Fn:
    """Compile an expression to a closure. Raise 42703 and the like; UnsupportedError for a form that is not known."""
    handler = HANDLERS.get(kind(node))
    if node.args.get("negate") and handler is not _is:
        raise UnsupportedError(rendered(node), f"a negated {construct(node)}")
    if handler is not None:
        return handler(node, scope)
    return _function(node, scope)


def truth(node: Any, scope: Scope) -> Callable[[Rows, Context], bool]:
    """Compile a condition; null counts as false."""
    fn = compiled(node, scope)

    def holds(r: Rows, c: Context) -> bool:
        value = fn(r, c)
        if value.__class__ is str:
            value = types.named("boolean").input(value)
        return value is True

    return holds


# -- values --------------------------------------------------------------------------------------------


def _constant(value: Any) -> Fn:
    return lambda r, c: value


def _literal(node: Any, scope: Scope) -> Fn:
    if node.is_string:
        return _constant(node.this)
    text = node.this
    if text.isdigit():
        number = int(text)
        return _constant(number if number < 2**63 else Decimal(text))
    return _constant(Decimal(text))


def _column(node: Any, scope: Scope) -> Fn:
    if kind(node.this) == "Star":
        raise UnsupportedError(rendered(node), "* as a value")
    name, qualifier = node.name, node.table
    result = scope.find(name, qualifier)
    if result is None:
        return _variable(name, qualifier)
    source, place = result
    slot = source.slot
    if slot == 0:
        return lambda r, c: r[0][place]
    return lambda r, c: r[slot][place]


def _variable(name: str, qualifier: str) -> Fn:
    if not qualifier:
        return lambda r, c: c.variables[name]

    def field(r: Rows, c: Context) -> Any:
        record = c.variables[qualifier]
        if not isinstance(record, NamedRow):
            raise SqlError("55000", f'record "{qualifier}" is not assigned yet')
        if record.values is None:  # NEW of a DELETE, OLD of an INSERT
            return None
        place = record.at.get(name)
        if place is None:
            raise SqlError("42703", f'record "{qualifier}" has no field "{name}"')
        return record.values[place]

    return field


def _placeholder(node: Any, scope: Scope) -> Fn:
    name = node.name

    def given(r: Rows, c: Context) -> Any:
        try:
            return c.params[name]
        except KeyError:
            raise SqlError("42P02", f"there is no parameter :{name}") from None

    return given


def _cast(node: Any, scope: Scope) -> Fn:
    fn = compiled(node.this, scope)
    type_ = types.named(rendered(node.args["to"]))
    if type_.name in ("text", "varchar", "char") and type_.precision is None:
        return lambda r, c: None if (value := fn(r, c)) is None else types.as_text(value)
    return lambda r, c: cast(fn(r, c), type_)


# -- operators -----------------------------------------------------------------------------------------


def _sides(node: Any, scope: Scope, reads: Collection[str]) -> tuple[Fn, Fn]:
    """Return the closures of an operator's two operands; see `coercion.beside`."""
    one, other = node.this, node.expression
    return (
        beside(compiled(one, scope), one, other, scope, reads),
        beside(compiled(other, scope), other, one, scope, reads),
    )


def _strict(
    function: Callable[[Any, Any], Any], reads: Collection[str] = coercion.COMPARED
) -> _Handler:
    def compile_two(node: Any, scope: Scope) -> Fn:
        left, right = _sides(node, scope, reads)

        def run(r: Rows, c: Context) -> Any:
            a, b = left(r, c), right(r, c)
            return None if a is None or b is None else function(a, b)

        return run

    return compile_two


def _bounded(function: Callable[[Any, Any], Any]) -> _Handler:
    """Compile an operator whose result has 4 bytes if both operands are integers of at most 4 bytes."""

    def compile_two(node: Any, scope: Scope) -> Fn:
        run = _strict(function, coercion.COUNTED)(node, scope)
        if width(node, scope) not in ("smallint", "integer"):
            return run

        def checked(r: Rows, c: Context) -> Any:
            value = run(r, c)
            if value.__class__ is int and not -(2**31) <= value < 2**31:
                raise SqlError("22003", "integer out of range")
            return value

        return checked

    return compile_two


def _logical(
    function: Callable[[Any, Any], Any], reads: Collection[str] = coercion.UNREAD
) -> _Handler:
    def compile_two(node: Any, scope: Scope) -> Fn:
        left, right = _sides(node, scope, reads)
        return lambda r, c: function(left(r, c), right(r, c))

    return compile_two


def _and(node: Any, scope: Scope) -> Fn:
    left, right = compiled(node.this, scope), compiled(node.expression, scope)

    def run(r: Rows, c: Context) -> Any:
        a = left(r, c)
        return False if a is False else op.both(a, right(r, c))

    return run


def _equals(node: Any, scope: Scope) -> Fn:
    if kind(node.expression) in ("Any", "All"):
        return _any(node, scope)
    if kind(node.this) == "Tuple" and kind(node.expression) == "Tuple":
        pairs = [
            (compiled(a, scope), compiled(b, scope))
            for a, b in zip(node.this.expressions, node.expression.expressions, strict=True)
        ]

        def all_equal(r: Rows, c: Context) -> Any:
            result: Any = True
            for left, right in pairs:
                a, b = left(r, c), right(r, c)
                result = op.both(result, None if a is None or b is None else op.equal(a, b))
            return result

        return all_equal
    return _strict(op.equal)(node, scope)


def _any(node: Any, scope: Scope) -> Fn:
    left = compiled(node.this, scope)
    inner = node.expression.this
    while kind(inner) == "Paren":
        inner = inner.this
    subquery = kind(inner) in ("Select", "Subquery")
    right = _values_of(inner, scope) if subquery else compiled(inner, scope)
    want_all = kind(node.expression) == "All"

    def run(r: Rows, c: Context) -> Any:
        a, many = left(r, c), right(r, c)
        if a is None or many is None:
            return None
        if isinstance(many, str):
            many = SqlType("array", element=SqlType("text")).input(many)
        result: Any = want_all
        for b in many:
            same = None if b is None else op.equal(a, b)
            result = op.both(result, same) if want_all else op.either(result, same)
        return result

    return run


def _not(node: Any, scope: Scope) -> Fn:
    fn = compiled(node.this, scope)
    return lambda r, c: None if (value := fn(r, c)) is None else not value


def _is(node: Any, scope: Scope) -> Fn:
    fn = compiled(node.this, scope)
    what, isnt = kind(node.expression), bool(node.args.get("negate"))
    if what == "Null":
        return lambda r, c: (fn(r, c) is None) is not isnt
    if what == "Boolean":
        type_ = column_type(node.this, scope) or width(node.this, scope)
        if type_ not in ("", "boolean"):
            word = f"IS {'NOT ' * isnt}{str(node.expression.this).upper()}"
            raise SqlError("42804", f"argument of {word} must be type boolean, not type {type_}")
        requested = bool(node.expression.this)

        def run(r: Rows, c: Context) -> bool:
            value = fn(r, c)
            if value is not None and not isinstance(value, bool):
                raise UnsupportedError(rendered(node), "IS TRUE of a value that is no boolean")
            return (value is requested) is not isnt

        return run
    raise UnsupportedError(rendered(node), "this form of IS")


def _between(node: Any, scope: Scope) -> Fn:
    fn = compiled(node.this, scope)
    low, high = (
        beside(compiled(end, scope), end, node.this, scope, coercion.COMPARED)
        for end in (node.args["low"], node.args["high"])
    )

    def run(r: Rows, c: Context) -> Any:
        value, a, b = fn(r, c), low(r, c), high(r, c)
        if value is None:
            return None
        above = None if a is None else not op.less(value, a)
        below = None if b is None else not op.less(b, value)
        return op.both(above, below)

    return run


def _in(node: Any, scope: Scope) -> Fn:
    fn = compiled(node.this, scope)
    query = node.args.get("query")
    if query is not None:
        many = _values_of(query, scope)
    else:
        items = coercion.listed(
            [(compiled(i, scope), i) for i in node.expressions], node.this, scope
        )

        def many(r: Rows, c: Context) -> Any:
            return [item(r, c) for item in items]

    def run(r: Rows, c: Context) -> Any:
        value, others = fn(r, c), many(r, c)
        if not others:
            return False
        if value is None:
            return None
        result: Any = False
        for other in others:
            if other is None:
                result = None
            elif op.equal(value, other):
                return True
        return result

    return run


def _like(*, fold: bool) -> _Handler:
    return _strict(lambda a, b: op.matches(a, b, fold=fold), coercion.UNREAD)


def _case(node: Any, scope: Scope) -> Fn:
    subject = compiled(node.this, scope) if node.this is not None else None
    default = (
        compiled(node.args["default"], scope) if node.args.get("default") is not None else None
    )
    branches = [
        (compiled(one.this, scope), compiled(one.args["true"], scope)) for one in node.args["ifs"]
    ]

    def run(r: Rows, c: Context) -> Any:
        value = subject(r, c) if subject is not None else None
        for condition, result in branches:
            holds = condition(r, c)
            if subject is not None:
                holds = value is not None and holds is not None and op.equal(value, holds)
            if holds is True:
                return result(r, c)
        return default(r, c) if default is not None else None

    return run


# -- subqueries ----------------------------------------------------------------------------------------


def _values_of(node: Any, scope: Scope) -> Fn:
    rows = scope.plans.subquery(node, scope)
    return lambda r, c: [row[0] for row in rows(r, c)]


def _exists(node: Any, scope: Scope) -> Fn:
    rows = scope.plans.subquery(node.this, scope)
    return lambda r, c: bool(rows(r, c))


def _scalar(node: Any, scope: Scope) -> Fn:
    rows = scope.plans.subquery(node, scope)

    def run(r: Rows, c: Context) -> Any:
        result = rows(r, c)
        if len(result) > 1:
            raise SqlError(
                "21000", "more than one row returned by a subquery used as an expression"
            )
        return result[0][0] if result else None

    return run


# -- functions -----------------------------------------------------------------------------------------


def name_of(node: Any) -> str:
    """Return the name of the function that a node calls, as PostgreSQL names it."""
    if kind(node) == "Anonymous":
        name = str(node.this).lower()
    elif hasattr(node, "sql_name"):
        name = str(node.sql_name()).lower()
    else:
        raise UnsupportedError(rendered(node), construct(node))
    name = name.removeprefix("pg_catalog.")
    return RENAMED.get(name, name)


def _function(node: Any, scope: Scope) -> Fn:
    if scope.aggregates is not None and id(node) in scope.aggregates:
        slot, place = scope.group_slot, scope.aggregates[id(node)]
        return lambda r, c: r[slot][place]
    name = name_of(node)
    if name in AGGREGATES:
        raise SqlError("42803", f"aggregate functions are not allowed here: {rendered(node)}")
    given = [compiled(argument, scope) for argument in arguments(node)]
    lenient = LENIENT.get(name)
    if lenient is not None:
        return lambda r, c: lenient(c, *[one(r, c) for one in given])
    strict = STRICT.get(name)
    if strict is None:
        raise UnsupportedError(rendered(node), f"the function {name}")

    def run(r: Rows, c: Context) -> Any:
        values = [one(r, c) for one in given]
        if None in values:
            return None
        try:
            return strict(c, *values)
        except (TypeError, AttributeError):
            shown = ", ".join(types.kind_of(value) for value in values)
            raise SqlError("42883", f"function {name}({shown}) does not exist") from None

    return run


def _array(node: Any, scope: Scope) -> Fn:
    items = [compiled(item, scope) for item in node.expressions]
    return lambda r, c: tuple([item(r, c) for item in items])


def _inside(node: Any, scope: Scope) -> Fn:
    return compiled(node.this, scope)


def _negative(node: Any, scope: Scope) -> Fn:
    fn = compiled(node.this, scope)
    return lambda r, c: op.negate(fn(r, c))


def _interval(node: Any, scope: Scope) -> Fn:
    unit = node.args.get("unit")
    text = f"{node.this.this} {rendered(unit).lower()}" if unit is not None else str(node.this.this)
    return _constant(types.named("interval").input(text))


def _bare(name: str) -> _Handler:
    return lambda node, scope: lambda r, c: LENIENT[name](c)


HANDLERS: dict[str, _Handler] = {
    "Literal": _literal, "Column": _column, "Placeholder": _placeholder, "Parameter": _placeholder,
    "ByteString": lambda node, scope: _constant(node.this), "Null": lambda node, scope: _constant(None),
    "Boolean": lambda node, scope: _constant(bool(node.this)),
    "Cast": _cast, "Paren": _inside, "Neg": _negative, "Alias": _inside,
    "EQ": _equals, "NEQ": _strict(lambda a, b: not op.equal(a, b)),
    "LT": _strict(op.less), "GT": _strict(lambda a, b: op.less(b, a)),
    "LTE": _strict(lambda a, b: not op.less(b, a)), "GTE": _strict(lambda a, b: not op.less(a, b)),
    "NullSafeEQ": _logical(lambda a, b: not op.distinct(a, b), coercion.COMPARED),
    "NullSafeNEQ": _logical(op.distinct, coercion.COMPARED),
    "And": _and, "Or": _logical(op.either), "Not": _not, "Is": _is,
    "Add": _bounded(op.add), "Sub": _bounded(op.subtract), "Mul": _bounded(op.multiply),
    "Div": _strict(op.divide, coercion.COUNTED), "Mod": _strict(op.modulo, coercion.COUNTED),
    "DPipe": _strict(op.concatenate, coercion.UNREAD),
    "Between": _between, "In": _in, "Like": _like(fold=False), "ILike": _like(fold=True),
    "Case": _case, "Exists": _exists, "Subquery": _scalar, "Select": _scalar,
    "Array": _array, "Interval": _interval, "Tuple": _array,
    "CurrentTimestamp": _bare("now"), "CurrentDate": _bare("current_date"),
    "CurrentUser": _bare("current_user"), "SessionUser": _bare("session_user"),
    "Uuid": _bare("gen_random_uuid"),
}  # fmt: skip
