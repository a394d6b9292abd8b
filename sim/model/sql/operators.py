"""Operators on values: three-valued logic, PostgreSQL's arithmetic, comparison across types.

Pure functions of values; None is null.
"""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

from twopc.sim.model.sql.types import as_text, kind_of, like
from twopc.sim.model.values import SqlError

WIDE = Context(prec=200, rounding=ROUND_HALF_UP)
_BIGINT = 2**63


def alike(a: Any, b: Any) -> tuple[Any, Any]:
    """Convert two values to a common type for comparison. Raise 42883 if there is none."""
    if a.__class__ is str:
        a = like(a, b)
    elif b.__class__ is str:
        b = like(b, a)
    if (
        isinstance(a, (float, Decimal))
        and isinstance(b, (float, Decimal))
        and a.__class__ is not b.__class__
    ):
        return float(a), float(b)
    if isinstance(a, bool) is not isinstance(b, bool):
        raise SqlError("42883", f"operator does not exist: {kind_of(a)} = {kind_of(b)}")
    if a.__class__ is date and b.__class__ is datetime:
        return datetime(a.year, a.month, a.day, tzinfo=b.tzinfo), b
    if b.__class__ is date and a.__class__ is datetime:
        return a, datetime(b.year, b.month, b.day, tzinfo=a.tzinfo)
    if isinstance(a, list):
        a = tuple(a)
    if isinstance(b, list):
        b = tuple(b)
    return a, b


def equal(a: Any, b: Any) -> Any:
    """Compute ``a = b`` for values that are not null."""
    if a.__class__ is not b.__class__:
        a, b = alike(a, b)
    return a == b


def distinct(a: Any, b: Any) -> bool:
    """Compute ``a IS DISTINCT FROM b``."""
    if a is None or b is None:
        return a is not b
    return not equal(a, b)


def less(a: Any, b: Any) -> Any:
    """Compute ``a < b`` for values that are not null."""
    if a.__class__ is not b.__class__:
        a, b = alike(a, b)
    try:
        return a < b
    except TypeError:
        raise SqlError("42883", f"operator does not exist: {kind_of(a)} < {kind_of(b)}") from None


def both(a: Any, b: Any) -> Any:
    """Compute ``a AND b``."""
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def either(a: Any, b: Any) -> Any:
    """Compute ``a OR b``."""
    if a is True or b is True:
        return True
    return None if a is None or b is None else False


def _numbers(a: Any, b: Any, sign: str) -> tuple[Any, Any]:
    if a.__class__ is str:
        a = like(a, b)
    if b.__class__ is str:
        b = like(b, a)
    known = (int, Decimal, float, date, timedelta)
    if (
        not isinstance(a, known)
        or not isinstance(b, known)
        or isinstance(a, bool)
        or isinstance(b, bool)
    ):
        raise SqlError("42883", f"operator does not exist: {kind_of(a)} {sign} {kind_of(b)}")
    if isinstance(a, float) and isinstance(b, Decimal):
        b = float(b)
    elif isinstance(b, float) and isinstance(a, Decimal):
        a = float(a)
    return a, b


def _checked(value: Any) -> Any:
    if value.__class__ is int and not -_BIGINT <= value < _BIGINT:
        raise SqlError("22003", "bigint out of range")
    return value


def add(a: Any, b: Any) -> Any:
    """Compute ``a + b``."""
    if a.__class__ is not int or b.__class__ is not int:
        a, b = _numbers(a, b, "+")
        if isinstance(a, Decimal) or isinstance(b, Decimal):
            return WIDE.add(a, b)
        if a.__class__ is date and b.__class__ is int:
            return a + timedelta(days=b)
    return _checked(a + b)


def subtract(a: Any, b: Any) -> Any:
    """Compute ``a - b``."""
    if a.__class__ is not int or b.__class__ is not int:
        a, b = _numbers(a, b, "-")
        if isinstance(a, Decimal) or isinstance(b, Decimal):
            return WIDE.subtract(a, b)
        if a.__class__ is date and b.__class__ is int:
            return a - timedelta(days=b)
        if a.__class__ is date and b.__class__ is date:
            return (a - b).days
    return _checked(a - b)


def multiply(a: Any, b: Any) -> Any:
    """Compute ``a * b``."""
    if a.__class__ is not int or b.__class__ is not int:
        a, b = _numbers(a, b, "*")
        if isinstance(a, Decimal) or isinstance(b, Decimal):
            return WIDE.multiply(a, b)
    return _checked(a * b)


def divide(a: Any, b: Any) -> Any:
    """Compute ``a / b``: truncated toward zero for integers, with PostgreSQL's scale for numerics."""
    a, b = _numbers(a, b, "/")
    if b == 0:
        raise SqlError("22012", "division by zero")
    if a.__class__ is int and b.__class__ is int:
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    if isinstance(a, float) or isinstance(b, float) or isinstance(a, timedelta):
        return a / b
    one, other = Decimal(a), Decimal(b)
    scale = _division_scale(one, other)
    return WIDE.divide(one, other).quantize(Decimal(1).scaleb(-scale), context=WIDE)


def _weight(number: Decimal) -> tuple[int, int]:
    """Return a number's base-10000 weight and first digit, as numeric.c defines them."""
    if number == 0:
        return 0, 0
    exponent = number.adjusted()
    weight = exponent // 4
    first = int(abs(number).scaleb(-4 * weight, context=WIDE).to_integral_value(ROUND_DOWN))
    return weight, first


def _scale(number: Decimal) -> int:
    exponent = number.as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _division_scale(a: Decimal, b: Decimal) -> int:
    (weight_a, first_a), (weight_b, first_b) = _weight(a), _weight(b)
    weight = weight_a - weight_b
    if first_a <= first_b:
        weight -= 1
    return min(max(16 - weight * 4, _scale(a), _scale(b), 0), 1000)


def modulo(a: Any, b: Any) -> Any:
    """Compute ``a % b``; the result has the sign of the dividend."""
    a, b = _numbers(a, b, "%")
    if b == 0:
        raise SqlError("22012", "division by zero")
    if a.__class__ is int and b.__class__ is int:
        return a - b * divide(a, b)
    return WIDE.remainder(Decimal(a), Decimal(b))


def negate(a: Any) -> Any:
    """Compute ``-a``; null for null."""
    return None if a is None else subtract(0, a) if a.__class__ is int else -a


def concatenate(a: Any, b: Any) -> Any:
    """Compute ``a || b``."""
    if isinstance(a, (list, tuple)):
        return (*a, *b) if isinstance(b, (list, tuple)) else (*a, b)
    if isinstance(b, (list, tuple)):
        return (a, *b)
    if isinstance(a, bytes) and isinstance(b, bytes):
        return a + b
    return as_text(a) + as_text(b)


def matches(text: str, pattern: str, *, fold: bool = False) -> bool:
    """Whether a text matches a LIKE pattern; `fold` ignores case, as ILIKE."""
    made, place = [], 0
    while place < len(pattern):
        sign = pattern[place]
        if sign == "\\" and place + 1 < len(pattern):
            place += 1
            made.append(re.escape(pattern[place]))
        else:
            made.append({"%": ".*", "_": "."}.get(sign) or re.escape(sign))
        place += 1
    return re.fullmatch("".join(made), text, re.S | (re.I if fold else 0)) is not None
