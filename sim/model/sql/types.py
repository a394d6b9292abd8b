"""Types of SQL: how their values are represented in Python, read, stored and shown.

Integers are int, numeric is Decimal with its scale, text is str, timestamps are datetime in UTC, jsonb is its text.
A
str from an application may stand for any type, like an untyped literal.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any
from uuid import UUID

from twopc.sim.model.sql import dates
from twopc.sim.model.values import SqlError, UnsupportedError

_RANGES = {"smallint": 2**15, "integer": 2**31, "bigint": 2**63}
_WIDE = Context(prec=200, rounding=ROUND_HALF_UP)

#: The model's names of types, by their names in SQL.
NAMES = {
    "smallint": "smallint", "int2": "smallint",
    "int": "integer", "integer": "integer", "int4": "integer",
    "bigint": "bigint", "int8": "bigint", "xid8": "bigint", "xid": "bigint", "oid": "bigint",
    "serial": "integer", "bigserial": "bigint",
    "numeric": "numeric", "decimal": "numeric",
    "double": "float", "double precision": "float", "float": "float", "float8": "float", "real": "float",
    "text": "text", "varchar": "varchar", "character varying": "varchar", "name": "text",
    "char": "char", "character": "char", "bpchar": "char",
    "boolean": "boolean", "bool": "boolean", "uuid": "uuid", "date": "date",
    "timestamptz": "timestamptz", "timestamp with time zone": "timestamptz", "timestamp": "timestamp",
    "timestamp without time zone": "timestamp", "interval": "interval",
    "bytea": "bytea", "varbinary": "bytea", "jsonb": "jsonb", "json": "json",
    "regclass": "text", "void": "text", "record": "record",
}  # fmt: skip
NUMBERS = ("smallint", "integer", "bigint", "numeric", "float")


class SqlType:
    """A type with its modifiers."""

    __slots__ = ("element", "name", "precision", "scale", "store")

    def __init__(
        self,
        name: str,
        precision: int | None = None,
        scale: int | None = None,
        element: SqlType | None = None,
    ) -> None:
        self.name = name
        self.precision = precision
        self.scale = scale
        self.element = element
        """Type of an array's elements."""
        self.store: Callable[[Any], Any] = (
            _STORES[name].__get__(self, SqlType) if name in _STORES else self._same
        )

    def _same(self, value: Any) -> Any:
        return value

    def input(self, text: str) -> Any:
        """Return the value of an untyped literal. Raise 22P02 if it is not of this type."""
        read = _INPUTS.get(self.name)
        if read is None:
            return text
        try:
            return read(self, text)
        except (ValueError, InvalidOperation, KeyError):
            raise self.unreadable(text) from None

    def unreadable(self, text: str) -> SqlError:
        """Return the error for a literal that is not of this type."""
        shown = self.shown()
        if self.name in ("date", "timestamptz", "timestamp"):
            shown = {"timestamptz": "timestamp with time zone"}.get(self.name, shown)
            return SqlError("22007", f'invalid input syntax for type {shown}: "{text}"')
        return SqlError("22P02", f'invalid input syntax for type {shown}: "{text}"')

    def shown(self) -> str:
        """Return the type's name in error messages."""
        return {
            "float": "double precision",
            "varchar": "character varying",
            "char": "character",
        }.get(self.name, self.name)

    def output(self, value: Any) -> str:
        """Return a value as psql shows it."""
        return output(value)

    def text(self, value: Any) -> str:
        """Return a value as a cast to text makes it."""
        return as_text(value)

    # -- storing: casts on assignment --------------------------------------------------------------------

    def _integer(self, value: Any) -> Any:
        if value is None:
            return None
        kind, given = value.__class__, value
        if kind is not int:
            if kind is str:
                value = self.input(value)
            elif kind is Decimal:
                value = int(value.quantize(Decimal(1), context=_WIDE))
            elif kind is float:
                value = round(value)
            else:
                raise self._mismatch(value)
        limit = _RANGES[self.name]
        if not -limit <= value < limit:
            message = f"{self.name} out of range"
            if kind is str:
                message = f'value "{given}" is out of range for type {self.name}'
            raise SqlError("22003", message)
        return value

    def _numeric(self, value: Any) -> Any:
        if value is None:
            return None
        if value.__class__ is str:
            value = _decimal(self, value)
        elif value.__class__ is bool or not isinstance(value, (int, Decimal, float)):
            raise self._mismatch(value)
        number = Decimal(repr(value)) if value.__class__ is float else Decimal(value)
        if self.precision is not None and number.is_finite():
            scale = self.scale or 0
            number = number.quantize(Decimal(1).scaleb(-scale), context=_WIDE)
            if abs(number) >= Decimal(10) ** (self.precision - scale):
                raise SqlError(
                    "22003",
                    "numeric field overflow",
                    detail=f"A field with precision {self.precision}, scale {scale} must round to an "
                    f"absolute value less than 10^{self.precision - scale}.",
                )
        return number

    def _float(self, value: Any) -> Any:
        if value is None or value.__class__ is float:
            return value
        if value.__class__ is str:
            return self.input(value)
        if value.__class__ is bool or not isinstance(value, (int, Decimal)):
            raise self._mismatch(value)
        return float(value)

    def _text(self, value: Any) -> Any:
        if value is None:
            return None
        text = value if value.__class__ is str else as_text(value)
        if self.precision is not None and self.name in ("varchar", "char"):
            if len(text) > self.precision:
                if text[self.precision :].strip(" "):
                    raise SqlError(
                        "22001", f"value too long for type {self.shown()}({self.precision})"
                    )
                text = text[: self.precision]
            if self.name == "char":
                text = text.ljust(self.precision)
        return text

    def _boolean(self, value: Any) -> Any:
        if value is None or value.__class__ is bool:
            return value
        if value.__class__ is str:
            return self.input(value)
        raise self._mismatch(value)

    def _read(self, value: Any) -> Any:
        if value is None:
            return None
        if value.__class__ is str:
            return self.input(value)
        kinds = _KINDS[self.name]
        if self.name == "date" and isinstance(value, datetime):
            return value.date()
        if self.name.startswith("timestamp") and value.__class__ is date:
            return datetime(value.year, value.month, value.day, tzinfo=UTC)
        if not isinstance(value, kinds):
            raise self._mismatch(value)
        return bytes(value) if self.name == "bytea" else value

    def _json(self, value: Any) -> Any:
        if value is None:
            return None
        inner = getattr(value, "obj", value)
        if isinstance(inner, str) and inner is value:
            try:
                json.loads(inner)
            except ValueError:
                raise self.unreadable(inner) from None
            return (
                json.dumps(json.loads(inner), ensure_ascii=False) if self.name == "jsonb" else inner
            )
        return json.dumps(inner, ensure_ascii=False)

    def _array(self, value: Any) -> Any:
        if value is None:
            return None
        if value.__class__ is str:
            value = self.input(value)
        if not isinstance(value, (list, tuple)):
            raise self._mismatch(value)
        assert self.element is not None
        store = self.element.store
        return tuple([store(one) for one in value])

    def _mismatch(self, value: Any) -> SqlError:
        return SqlError(
            "42804", f"column is of type {self.shown()} but expression is of type {kind_of(value)}"
        )


_STORES: dict[str, Any] = {
    "smallint": SqlType._integer, "integer": SqlType._integer, "bigint": SqlType._integer,
    "numeric": SqlType._numeric, "float": SqlType._float,
    "text": SqlType._text, "varchar": SqlType._text, "char": SqlType._text,
    "boolean": SqlType._boolean, "uuid": SqlType._read, "date": SqlType._read, "timestamptz": SqlType._read,
    "timestamp": SqlType._read, "interval": SqlType._read, "bytea": SqlType._read,
    "jsonb": SqlType._json, "json": SqlType._json, "array": SqlType._array,
}  # fmt: skip
_KINDS: dict[str, Any] = {
    "uuid": UUID, "date": date, "timestamptz": datetime, "timestamp": datetime, "interval": timedelta,
    "bytea": (bytes, bytearray, memoryview),
}  # fmt: skip


def _decimal(self: SqlType, text: str) -> Decimal:
    try:
        return Decimal(text.strip().replace("_", ""))
    except InvalidOperation:
        raise self.unreadable(text) from None


def _bool(self: SqlType, text: str) -> bool:
    word = text.strip().lower()
    if word in ("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"):
        return True
    if word in ("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"):
        return False
    raise ValueError


def _int(self: SqlType, text: str) -> int:
    if not re.fullmatch(r"\s*[-+]?\d+\s*", text):
        raise ValueError
    return int(text)


def _stamp(self: SqlType, text: str) -> datetime:
    return dates.stamp(text, has_zone=self.name == "timestamptz")


def _bytes(self: SqlType, text: str) -> bytes:
    if text.startswith("\\x"):
        return bytes.fromhex(text[2:])
    if "\\" in text:
        raise UnsupportedError(text, "bytea in escape form")
    return text.encode()


_UNITS = {
    "day": 86400,
    "hour": 3600,
    "minute": 60,
    "second": 1,
    "week": 604800,
    "min": 60,
    "sec": 1,
}


def _interval(self: SqlType, text: str) -> timedelta:
    total = 0.0
    words = text.split()
    if len(words) % 2:
        raise UnsupportedError(text, "this form of interval")
    for number, unit in zip(words[::2], words[1::2], strict=True):
        seconds = _UNITS.get(unit.lower().rstrip("s"))
        if seconds is None:
            raise UnsupportedError(text, f"the unit {unit}")
        total += float(number) * seconds
    return timedelta(seconds=total)


def _elements(self: SqlType, text: str) -> list[Any]:
    inner = text.strip()
    if not (inner.startswith("{") and inner.endswith("}")):
        raise ValueError
    if '"' in inner or "{" in inner[1:]:
        raise UnsupportedError(text, "this form of array")
    return (
        [None if one.strip().upper() == "NULL" else one.strip() for one in inner[1:-1].split(",")]
        if inner != "{}"
        else []
    )


_INPUTS: dict[str, Callable[[SqlType, str], Any]] = {
    "smallint": _int, "integer": _int, "bigint": _int, "numeric": _decimal,
    "float": lambda self, text: float(text), "boolean": _bool, "uuid": lambda self, text: UUID(text),
    "date": lambda self, text: dates.day(text), "timestamptz": _stamp, "timestamp": _stamp,
    "interval": _interval, "bytea": _bytes, "array": _elements,
}  # fmt: skip


def highest(name: str) -> int:
    """Return the highest value of an integer type."""
    return _RANGES[name] - 1


def named(name: str, precision: int | None = None, scale: int | None = None) -> SqlType:
    """Return the type with a name in SQL, including arrays such as ``int[]``."""
    lower = " ".join(name.lower().split())
    if lower.endswith("[]"):
        return SqlType("array", element=named(lower[:-2]))
    match = re.fullmatch(r"(.+?)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)", lower)
    if match is not None:
        return named(match[1], int(match[2]), int(match[3]) if match[3] else None)
    known = NAMES.get(lower)
    if known is None:
        raise UnsupportedError(name, f"the type {name}")
    return SqlType(known, precision, scale)


def kind_of(value: Any) -> str:
    """Return the name of a value's type."""
    if value is None:
        return "unknown"
    for kinds, name in (
        (bool, "boolean"), (int, "integer"), (Decimal, "numeric"), (float, "double precision"),
        (str, "text"), (UUID, "uuid"), (datetime, "timestamp with time zone"), (date, "date"),
        (timedelta, "interval"), (bytes, "bytea"), ((list, tuple), "array"),
    ):  # fmt: skip
        if isinstance(value, kinds):
            return name
    return type(value).__name__


def output(value: Any) -> str:
    """Return a value as the server sends it."""
    if value is True or value is False:
        return "t" if value else "f"
    return as_text(value)


def as_text(value: Any) -> str:
    """Return a value as a cast to text makes it."""
    kind = value.__class__
    if isinstance(value, str):
        return value
    if kind is bool:
        return "true" if value else "false"
    if kind is Decimal:
        return format(value, "f") if value.is_finite() else str(value)
    if kind is float:
        return repr(value).removesuffix(".0").replace("inf", "Infinity").replace("nan", "NaN")
    if kind is datetime:
        return _shown_stamp(value)
    if kind in (bytes, bytearray):
        return f"\\x{value.hex()}"
    if kind in (list, tuple):
        return "{" + ",".join("NULL" if one is None else _element(one) for one in value) + "}"
    return f"{value}"


def client_value(value: Any) -> Any:
    """Return a value as a driver returns it: arrays are lists."""
    return [client_value(one) for one in value] if value.__class__ is tuple else value


def _element(value: Any) -> str:
    text = output(value)
    if text == "" or text.upper() == "NULL" or re.search(r'[{},"\\\s]', text):
        return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    return text


def _shown_stamp(value: datetime) -> str:
    value = value.astimezone(UTC)
    text = value.strftime("%Y-%m-%d %H:%M:%S")
    if value.microsecond:
        text += f".{value.microsecond:06d}".rstrip("0")
    return text + "+00"


def like(text: str, other: Any) -> Any:
    """Convert an untyped text to the type of another operand's value."""
    if isinstance(other, bool):
        return _BOOLEAN.input(text)
    if isinstance(other, int):
        return SqlType("bigint").input(text)
    for kinds, name in (
        (Decimal, "numeric"), (float, "float"), (UUID, "uuid"), (datetime, "timestamptz"), (date, "date"),
        (bytes, "bytea"), (timedelta, "interval"),
    ):  # fmt: skip
        if isinstance(other, kinds):
            return SqlType(name).input(text)
    return text


_BOOLEAN = SqlType("boolean")
