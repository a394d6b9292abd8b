"""Conversion of an article's rows between the text of a record, as sent, and values by column, for handlers and
resolvers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import psycopg
from psycopg import AsyncConnection, postgres
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import Format
from psycopg.types.composite import RecordLoader, TupleDumper
from psycopg.types.json import Json, Jsonb

Texts = tuple[str | None, ...]
"""The text of each column's value."""

_JSON = {postgres.types[name].oid for name in ("json", "jsonb")}
_JSON_ARRAYS = {postgres.types[name].array_oid for name in ("json", "jsonb")}
_INTERVAL = postgres.types["interval"].oid
#: Units of varying length, which a `timedelta` cannot represent.
_MONTHS = re.compile(r"mon|year")
#: Escapes that json accepts and jsonb may not: of NUL, and of surrogates.
_NO_JSONB = re.compile(r"\\u(0000|d[89a-f])", re.IGNORECASE)


class RowTexts:
    """Converts the rows of one article.

    Args:
        types: OIDs of the columns' types.
    """

    def __init__(
        self, columns: Sequence[str], types: Sequence[int], connection: AsyncConnection[Any]
    ) -> None:
        self._columns = columns
        self._types = types
        self._adapters = Transformer(connection)

    def split(self, row: str) -> Texts:
        """Return the text of each column's value."""
        texts = RecordLoader(0, self._adapters.connection).load(row.encode())
        return texts or (None,)

    def joined(self, texts: Texts) -> str:
        """Return the record of these texts."""
        return bytes(TupleDumper(tuple, self._adapters).dump(texts) or b"").decode()

    def values(self, texts: Texts) -> dict[str, Any]:
        """Return the values by column."""
        triples = zip(self._columns, self._types, texts, strict=True)
        return {column: self._value(oid, text) for column, oid, text in triples}

    def _value(self, oid: int, text: str | None) -> Any:
        """Return a value; its text if Python cannot represent it."""
        if text is None or (oid == _INTERVAL and _MONTHS.search(text)):
            return text
        try:
            if oid in _JSON:
                return json.loads(text, parse_float=_number)
            return self._adapters.get_loader(oid, Format.TEXT).load(text.encode())
        except (psycopg.DataError, ValueError, RecursionError):
            return text

    def with_values(self, texts: Texts, row: Mapping[str, Any]) -> Texts:
        """Return the row's texts with other values; the text of an unchanged value stays.

        The original values are read again from the texts, because the caller of a handler may have changed the
        values read before.

        Raises:
            ValueError: a value has no text.
        """
        quadruples = zip(
            self._columns, self._types, texts, self.values(texts).values(), strict=True
        )
        try:
            return tuple(
                self._text(oid, row[column])
                if column in row and not _is_same(row[column], value)
                else text
                for column, oid, text, value in quadruples
            )
        except (psycopg.Error, TypeError, RecursionError) as error:
            raise ValueError(f"a value of {sorted(row)} is none of its column: {error}") from error

    def _text(self, oid: int, value: Any) -> str | None:
        if value is None:
            return None
        if oid in _JSON and not isinstance(value, Json | Jsonb):
            return _json(value)
        if oid in _JSON_ARRAYS and isinstance(value, list):
            value = [None if element is None else _json(element) for element in value]
        if isinstance(value, str):
            return value
        dumped = self._adapters.get_dumper(value, PyFormat.TEXT).dump(value)
        return None if dumped is None else bytes(dumped).decode()

    def document(self, texts: Texts) -> str:
        """Return the row as a JSON object: numbers, booleans and arrays as such, all other values as PostgreSQL
        prints them.
        """
        triples = zip(self._columns, self._types, texts, strict=True)
        pairs = [
            f"{json.dumps(column)}: {self._fragment(oid, text)}" for column, oid, text in triples
        ]
        return "{" + ", ".join(pairs) + "}"

    def _fragment(self, oid: int, text: str | None) -> str:
        if text is not None and oid in _JSON and not _NO_JSONB.search(text):
            return text
        value = self._value(oid, text)
        return json.dumps(value if isinstance(value, bool | int | list) else text, default=str)


def _number(text: str) -> float | Decimal:
    """Return a number of a document with a fraction or an exponent: a decimal if a float would be another number."""
    value = float(text)
    return value if Decimal(repr(value)) == Decimal(text) else Decimal(text)


def _json(value: Any) -> str:
    """Return a document's text."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(k))}: {_json(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_json, value)) + "]"
    return json.dumps(value)


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values are the same: 1, 1.0 and True are equal but not the same, NaN is the same but not
    equal.
    """
    return repr(one) == repr(other)
