"""Propagation of changes to Subscribers: formats of calls, their parameters, and how a call is stored.

Shared by the log reader, which makes calls, a Subscriber, whose procedures take them, and `twopc browse`. Pure;
independent of servers and of procedures' texts.

Source: seed 000, "Call syntax for stored procedures".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from twopc.articles import Article, Column
from twopc.errors import ArticleError
from twopc.proc_execution import CALL_TYPE, DEFINITION_TYPE

#: Operations, as they appear in procedures' names.
OPERATIONS = ("ins", "upd", "del")
#: PostgreSQL's limit. A call with more parameters passes each image as one argument of a row type.
ARGUMENTS_MAX = 100


class Format(StrEnum):
    """Content of a command."""

    CALL = "CALL"
    """New values; for UPDATE and DELETE the original key after them."""
    SCALL = "SCALL"
    """New values of the changed columns only (the others NULL), original key, bitmask of the changed columns."""
    MCALL = "MCALL"
    """All new values, original key, bitmask of the changed columns."""
    XCALL = "XCALL"
    """All old values, then (for UPDATE) all new values."""
    SQL = "SQL"
    """An INSERT, UPDATE or DELETE statement."""
    NONE = "NONE"
    """No command: such changes are not replicated."""


#: Formats available for each operation (seed 000: SCALL and MCALL for updates only, XCALL not for inserts).
FORMATS: dict[str, tuple[Format, ...]] = {
    "ins": (Format.CALL, Format.SQL, Format.NONE),
    "upd": tuple(Format),
    "del": (Format.CALL, Format.XCALL, Format.SQL, Format.NONE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """The way in which one operation of an article is propagated."""

    format: Format
    procedure: str | None = None
    """Custom procedure or function, ``name`` or ``schema.name`` as written by the user; None for the default one."""

    def __str__(self) -> str:
        return f"{self.format} {self.procedure}" if self.procedure else str(self.format)


@dataclass(frozen=True, slots=True, kw_only=True)
class Propagation:
    """The way in which an article's changes are propagated; the defaults are the original's."""

    ins: Method = Method(format=Format.CALL)
    upd: Method = Method(format=Format.SCALL)
    dele: Method = Method(format=Format.CALL)
    large: tuple[str, ...] | None = None
    """Columns whose old value is NULL in XCALL; None for those for which `is_large` returns true."""

    def method(self, operation: str) -> Method:
        """Return the method of an operation: ins, upd or del."""
        return {"ins": self.ins, "upd": self.upd, "del": self.dele}[operation]

    @property
    def needs_old_rows(self) -> bool:
        """Whether a call needs more of the old row than its key: REPLICA IDENTITY FULL."""
        requested = (Format.SCALL, Format.MCALL, Format.XCALL)
        return self.upd.format in requested or self.dele.format is Format.XCALL

    def as_json(self) -> dict[str, object]:
        """Return the value as stored; `from_json` is the inverse."""
        stored: dict[str, object] = {each: str(self.method(each)) for each in OPERATIONS}
        if self.large is not None:
            stored["large"] = list(self.large)
        return stored

    @classmethod
    def from_json(cls, stored: dict[str, object]) -> Propagation:
        """Return the value from its stored form."""
        large = stored.get("large")
        return cls(
            ins=parse_method("ins", str(stored["ins"])),
            upd=parse_method("upd", str(stored["upd"])),
            dele=parse_method("del", str(stored["del"])),
            large=tuple(str(each) for each in large) if isinstance(large, list) else None,
        )


_LARGE = ("text", "bytea", "xml", "json", "jsonb", "tsvector", "character varying")


def is_large(type: str) -> bool:
    """Return whether values of a type, as ``format_type`` writes it, are unbounded and stored out of line when
    long.

    The original omits the old values of text, ntext, image and xml from XCALL.
    """
    return type in _LARGE or type.endswith("[]")


def parse_method(operation: str, text: str) -> Method:
    """Return the method for an argument of `sp_addarticle`: ``CALL``, ``SCALL sp_mine``, ``SQL`` ...

    Raises:
        ArticleError: the format does not exist, or not for this operation.
    """
    match = re.match(r"\s*(\w+)(?:\s+(\S.*?))?\s*\Z", text)
    word = match[1].upper() if match else ""
    allowed = FORMATS[operation]
    if word not in allowed:
        raise ArticleError(
            f"propagation of {operation}: {text!r} is none of {', '.join(allowed)}"
            + (f"; {word} is not for {operation}" if word in Format.__members__ else "")
        )
    method = Method(format=Format(word), procedure=match[2] if match else None)
    if method.procedure and method.format in (Format.SQL, Format.NONE):
        raise ArticleError(
            f"propagation of {operation}: {word} calls no procedure: leave out {method.procedure!r}"
        )
    return method


# -- parameters -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class CallParameter:
    """One parameter of a call."""

    name: str
    """``c1`` new value, ``old_c1`` old value, ``pkc1`` original key column, ``bitmap``."""
    column: Column | None
    """The column; None for the bitmask."""

    @property
    def type(self) -> str:
        """The parameter's SQL type."""
        return self.column.type if self.column is not None else "bytea"

    @property
    def image(self) -> str:
        """``new``, ``old``, ``key`` or ``bitmap``."""
        if self.column is None:
            return "bitmap"
        return {"c": "new", "o": "old", "p": "key"}[self.name[0]]


def parameters(article: Article, operation: str, form: Format) -> tuple[CallParameter, ...]:
    """Return the parameters that a command of this format stores and its procedure takes, in the seed's order.

    Columns are `Article.value_columns`, numbered from 1; key columns are in the key's order.
    """
    values, key = article.value_columns, article.key_columns
    new = tuple(CallParameter(name=f"c{n}", column=each) for n, each in enumerate(values, 1))
    old = tuple(CallParameter(name=f"old_c{n}", column=each) for n, each in enumerate(values, 1))
    keys = tuple(CallParameter(name=f"pkc{n}", column=each) for n, each in enumerate(key, 1))
    mask = (CallParameter(name="bitmap", column=None),)
    match operation, form:
        case "ins", Format.CALL:
            return new
        case "upd", Format.CALL:
            return (*new, *keys)
        case "upd", Format.SCALL | Format.MCALL:
            return (*new, *keys, *mask)
        case "upd", Format.XCALL:
            return (*old, *new)
        case "del", Format.CALL:
            return keys
        case "del", Format.XCALL:
            return old
    raise ValueError(f"{form} of {operation} has no parameters")


# -- bitmask --------------------------------------------------------------------------------------


def bitmask_bytes(columns: int) -> int:
    """Return the length of the bitmask for this number of columns: 2 bytes for the seed's 8 columns."""
    return columns // 8 + 1


def bitmask(changed: Iterable[int], columns: int) -> bytes:
    """Return the changed columns (numbered from 0) as bits, the lowest bit first (seed 000, the Vendor example)."""
    mask = bytearray(bitmask_bytes(columns))
    for place in changed:
        mask[place >> 3] |= 1 << (place & 7)
    return bytes(mask)


def changed_columns(mask: bytes) -> list[int]:
    """Return the columns (numbered from 0) whose bit is set."""
    return [place for place in range(len(mask) * 8) if mask[place >> 3] >> (place & 7) & 1]


# -- stored form of a call ------------------------------------------------------------------------


def record_text(values: Sequence[bytes | None]) -> bytes:
    """Return the values in PostgreSQL's text form of a row, in which commands are stored; None is NULL.

    Every value is quoted: checking whether quotes are needed costs more.
    """
    return b"(" + b",".join([b"" if v is None else _quoted(v) for v in values]) + b")"


def _quoted(value: bytes) -> bytes:
    if b"\\" in value:
        value = value.replace(b"\\", b"\\\\")
    if b'"' in value:
        value = value.replace(b'"', b'""')
    return b'"' + value + b'"'


_ATTRIBUTE = re.compile(rb'"((?:[^"\\]|""|\\.)*)"|([^,")]*)', re.DOTALL)


def record_values(text: bytes) -> list[bytes | None]:
    """Return the values in a text made by `record_text`."""
    values: list[bytes | None] = []
    at = 1
    while True:
        match = _ATTRIBUTE.match(text, at)
        assert match is not None  # the pattern matches an empty text
        if match[1] is not None:
            values.append(re.sub(rb'""|\\(.)', lambda m: m[1] or b'"', match[1], flags=re.DOTALL))
        else:
            values.append(match[2] or None)
        at = match.end()
        if text[at : at + 1] != b",":
            return values
        at += 1


# -- kinds of commands ----------------------------------------------------------------------------


class CommandType:
    """Values of `msrepl_commands.type`. The original's codes are not documented; these are ours."""

    INSERT = 1
    UPDATE = 2
    DELETE = 3
    #: Changes as SQL statements.
    SQL_INSERT = 11
    SQL_UPDATE = 12
    SQL_DELETE = 13
    #: Messages posted into the log for every Subscriber: article 0, the command is JSON.
    TRACER_TOKEN = 20
    VALIDATION = 21
    #: A call of a published routine, and a routine's definition.
    PROC_CALL = CALL_TYPE
    PROC_DEFINITION = DEFINITION_TYPE


#: Types of calls by operation; the types of statements are greater by ten.
TYPE_OF = {"ins": CommandType.INSERT, "upd": CommandType.UPDATE, "del": CommandType.DELETE}
OPERATION_OF = {command_type: operation for operation, command_type in TYPE_OF.items()}
