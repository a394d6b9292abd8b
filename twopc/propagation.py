"""How a change travels to Subscribers: formats of calls, their parameters, and what is stored of a call.

Words that the log reader (which makes calls), a Subscriber (whose procedures take them) and `twopc browse`
share. Pure; knows no server and no procedure's text.

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

#: Operations, as they stand in procedures' names.
OPERATIONS = ("ins", "upd", "del")
#: PostgreSQL's limit. A call with more parameters hands each image over as one argument of a row type.
ARGUMENTS_MAX = 100


class Format(StrEnum):
    """What a command carries."""

    CALL = "CALL"
    """New values; for UPDATE and DELETE the original key after them."""
    SCALL = "SCALL"
    """New values of the changed columns only (the others NULL), original key, bitmask of what changed."""
    MCALL = "MCALL"
    """All new values, original key, bitmask of what changed."""
    XCALL = "XCALL"
    """All old values, then (for UPDATE) all new ones."""
    SQL = "SQL"
    """An INSERT, UPDATE or DELETE statement."""
    NONE = "NONE"
    """Nothing: such changes are not replicated."""


#: Which formats an operation knows (seed 000: SCALL and MCALL for updates only, XCALL not for inserts).
FORMATS: dict[str, tuple[Format, ...]] = {
    "ins": (Format.CALL, Format.SQL, Format.NONE),
    "upd": tuple(Format),
    "del": (Format.CALL, Format.XCALL, Format.SQL, Format.NONE),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """How one operation of an article is propagated."""

    format: Format
    procedure: str | None = None
    """A custom procedure or function, ``name`` or ``schema.name`` as written by the user; None: the
    default one."""

    def __str__(self) -> str:
        return f"{self.format} {self.procedure}" if self.procedure else str(self.format)


@dataclass(frozen=True, slots=True, kw_only=True)
class Propagation:
    """How an article's changes are propagated; the defaults are the original's."""

    ins: Method = Method(format=Format.CALL)
    upd: Method = Method(format=Format.SCALL)
    dele: Method = Method(format=Format.CALL)
    large: tuple[str, ...] | None = None
    """Columns whose old value is NULL in XCALL; None: those for which `is_large` holds."""

    def method(self, operation: str) -> Method:
        """Of ins, upd or del."""
        return {"ins": self.ins, "upd": self.upd, "del": self.dele}[operation]

    @property
    def needs_old_rows(self) -> bool:
        """Some call needs more of the old row than its key: REPLICA IDENTITY FULL."""
        requested = (Format.SCALL, Format.MCALL, Format.XCALL)
        return self.upd.format in requested or self.dele.format is Format.XCALL

    def as_json(self) -> dict[str, object]:
        """What is stored of it; `from_json` reads it."""
        stored: dict[str, object] = {each: str(self.method(each)) for each in OPERATIONS}
        if self.large is not None:
            stored["large"] = list(self.large)
        return stored

    @classmethod
    def from_json(cls, stored: dict[str, object]) -> Propagation:
        """The inverse of `as_json`."""
        large = stored.get("large")
        return cls(
            ins=parse_method("ins", str(stored["ins"])),
            upd=parse_method("upd", str(stored["upd"])),
            dele=parse_method("del", str(stored["del"])),
            large=tuple(str(each) for each in large) if isinstance(large, list) else None,
        )


_LARGE = ("text", "bytea", "xml", "json", "jsonb", "tsvector", "character varying")


def is_large(type: str) -> bool:
    """Whether values of a type, as ``format_type`` writes it, have no bound and are stored out of line when long.

    The original leaves the old values of text, ntext, image and xml out of XCALL.
    """
    return type in _LARGE or type.endswith("[]")


def parse_method(operation: str, text: str) -> Method:
    """``CALL``, ``SCALL sp_mine``, ``SQL`` ...: as `sp_addarticle` takes it.

    Raises:
        ArticleError: there is no such format, or not for this operation.
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
    """One value of a call, in the seed's order."""

    name: str
    """``c1`` new value, ``old_c1`` old value, ``pkc1`` original key column, ``bitmap``."""
    column: Column | None
    """None for the bitmask."""

    @property
    def type(self) -> str:
        """Its SQL type."""
        return self.column.type if self.column is not None else "bytea"

    @property
    def image(self) -> str:
        """``new``, ``old``, ``key`` or ``bitmap``."""
        if self.column is None:
            return "bitmap"
        return {"c": "new", "o": "old", "p": "key"}[self.name[0]]


def parameters(article: Article, operation: str, form: Format) -> tuple[CallParameter, ...]:
    """The flat list of values that a command of this format stores, and its procedure takes.

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
    """How long the bitmask for so many columns is: 2 bytes for the seed's 8 columns."""
    return columns // 8 + 1


def bitmask(changed: Iterable[int], columns: int) -> bytes:
    """The changed columns (numbered from 0) as bits, the lowest bit first (seed 000, the Vendor example)."""
    mask = bytearray(bitmask_bytes(columns))
    for place in changed:
        mask[place >> 3] |= 1 << (place & 7)
    return bytes(mask)


def changed_columns(mask: bytes) -> list[int]:
    """The columns (numbered from 0) whose bit is set."""
    return [place for place in range(len(mask) * 8) if mask[place >> 3] >> (place & 7) & 1]


# -- what is stored of a call ---------------------------------------------------------------------


def record_text(values: Sequence[bytes | None]) -> bytes:
    """The values as PostgreSQL's text of a row, which is how a command is stored; None is NULL.

    Every value is quoted: looking whether it must be costs more.
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
    """The values in a text that `record_text` made."""
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
    """`msrepl_commands.type`. The original's codes are not documented; these are ours."""

    INSERT = 1
    UPDATE = 2
    DELETE = 3
    #: The same as SQL statements.
    SQL_INSERT = 11
    SQL_UPDATE = 12
    SQL_DELETE = 13
    #: What is posted into the log for every Subscriber: article 0, the command is its JSON.
    TRACER_TOKEN = 20
    VALIDATION = 21
    #: A call of a routine that is published, and a routine's definition.
    PROC_CALL = CALL_TYPE
    PROC_DEFINITION = DEFINITION_TYPE


#: Calls by operation; statements are ten further.
TYPE_OF = {"ins": CommandType.INSERT, "upd": CommandType.UPDATE, "del": CommandType.DELETE}
