"""Changes as INSERT, UPDATE and DELETE statements.

Values are literals with the type of their column.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import LiteralString

from psycopg import sql

from twopc.articles import Column
from twopc.propagation import CommandType
from twopc.publisher.commands.rows import Command, LoggedRows, Make, Values
from twopc.publisher.pgoutput import UNCHANGED, RowMessage
from twopc.sql import fragments as f


def insert(rows: LoggedRows) -> Make:
    """Return a function that makes an INSERT with every value."""
    columns = rows.article.value_columns
    head = _text(
        "INSERT INTO {} ({})", f.table_of(rows.article), f.identifiers(c.name for c in columns)
    )
    # the Publisher's identity values; harmless without an identity column
    if any(column.identity for column in columns):
        head += b" OVERRIDING SYSTEM VALUE"
    literals, pick = [_literals(column) for column in columns], rows.pick

    def make(change: RowMessage) -> Command:
        assert change.new is not None
        texts = [lit(v) for lit, v in zip(literals, pick(change.new), strict=True)]
        text = b"%b VALUES (%b)" % (head, b", ".join(texts))
        return (rows.article_id, CommandType.SQL_INSERT, 0, text)

    return make


def update(rows: LoggedRows) -> Make:
    """Return a function that makes an UPDATE of every column except the key, which is set only if it changed."""
    head = _text("UPDATE {} SET ", f.table_of(rows.article))
    where, key, pick = _where(rows), rows.key, rows.pick
    columns = [
        (column.name in rows.article.key, _text("{} = ", _name(column)), _literals(column), at)
        for at, column in enumerate(rows.article.value_columns)
        if column.identity != "a"  # takes no value, and cannot have changed
    ]

    def make(change: RowMessage) -> Command:
        assert change.new is not None
        values, known = pick(change.new), rows.old_key(change)
        moved = known != key(change.new)
        texts = [
            name + literal(values[at])
            for is_key, name, literal, at in columns
            if (moved or not is_key) and values[at] is not UNCHANGED
        ]
        text = b"%b%b WHERE %b" % (head, b", ".join(texts), where(known))
        return (rows.article_id, CommandType.SQL_UPDATE, 0, text)

    return make


def delete(rows: LoggedRows) -> Make:
    """Return a function that makes a DELETE by the key."""
    head = _text("DELETE FROM {} WHERE ", f.table_of(rows.article))
    where, key = _where(rows), rows.key

    def make(change: RowMessage) -> Command:
        assert change.old is not None
        return (
            rows.article_id, CommandType.SQL_DELETE, 0, head + where(key(change.old)),
        )  # fmt: skip

    return make


def _where(rows: LoggedRows) -> Callable[[Values], bytes]:
    columns = rows.article.key_columns
    heads = [_text("{} {} ", _name(column), f.raw(column.equality)) for column in columns]
    literals = [_literals(column) for column in columns]

    def where(known: Values) -> bytes:
        return b" AND ".join(
            [
                head + literal(value)
                for head, literal, value in zip(heads, literals, known, strict=True)
            ]
        )

    return where


def _name(column: Column) -> sql.Identifier:
    return sql.Identifier(column.name)


def _text(template: LiteralString, *parts: sql.Composable) -> bytes:
    return sql.SQL(template).format(*parts).as_bytes(None)


def _literals(column: Column) -> Callable[[bytes | None], bytes]:
    """Return a function that converts values of a column into literals with its type."""
    cast = f"::{column.type}".encode()

    def literal(value: bytes | None) -> bytes:
        if value is None:
            return b"NULL"
        value = value.replace(b"'", b"''")
        if b"\\" in value:  # independent of standard_conforming_strings
            return b"E'" + value.replace(b"\\", b"\\\\") + b"'" + cast
        return b"'" + value + b"'" + cast

    return literal
