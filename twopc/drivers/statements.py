"""What a statement of an application does to its transaction, and leaves in its session.

It looks at tokens (`twopc.lexer`): what cannot be seen in a text is noticed when the statement is done, by then
at the price of the transaction. Pure.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from enum import IntEnum

from psycopg import sql

from twopc.lexer import SqlToken, statements, transaction_control, words

_WROTE = re.compile(r"(?:INSERT \d+|UPDATE|DELETE|MERGE|COPY) [1-9]")
#: Most texts need not be read: a command stands at their beginning, or they hold one of each of these.
_COMMAND = re.compile(r"\b(?:commit|end|abort|rollback|begin|start|prepare)\b", re.IGNORECASE)
_NOT_FIRST = re.compile(r";|--|/\*")
#: Without one of these words a statement leaves nothing.
_TELLTALES = (
    "role", "authorization", "set_config", "advisory_lock", "listen", "hold", "temp", "prepare", "load"
)  # fmt: skip
_TELLTALE = re.compile(
    r"\b(?:role|authorization|pg_(?:try_)?advisory_lock(?:_shared)?|listen|hold|temp(?:orary)?|pg_temp"
    r"|prepare|load)\b"
)
_SET_CONFIG = re.compile(r"\bset_config\s*\(")
#: The same, of another setting than the role, written out; in a string, too, which may be a body.
_SET_ANOTHER = re.compile(r"\bset_config\s*\(\s*'(?!(?:role|session_authorization)')")
_TEMPORARY = frozenset(("temp", "temporary"))
_LOCKS = frozenset(
    f"pg_{attempt}advisory_lock{share}" for attempt in ("", "try_") for share in ("", "_shared")
)


class Trace(IntEnum):
    """What a statement leaves in its session when its transaction is over."""

    NONE = 0
    DIRT = 1
    """A role, temporary objects, locks and the like: what a clean-up takes away."""
    STAIN = 2
    """What stays as long as the session does."""


def trace_of(query: object, *, standard_conforming_strings: bool = True) -> Trace:
    """What a statement may leave in its session besides settings, as far as its own words tell."""
    text = _text(query)
    lower = text.lower()
    for word in _TELLTALES:  # any() costs twice as much, and every statement comes here
        if word in lower:
            break
    else:
        return Trace.NONE

    if len(_SET_CONFIG.findall(lower)) > len(_SET_ANOTHER.findall(lower)):
        least = Trace.DIRT
    else:
        least = Trace.NONE
    if _TELLTALE.search(lower) is None:
        return least
    parts = statements(text, standard_conforming_strings=standard_conforming_strings)
    return max((least, *map(_trace_of, parts)))


def _trace_of(statement: list[SqlToken]) -> Trace:
    text = words(statement)
    first = text[0]
    if first in ("prepare", "load"):
        return Trace.STAIN
    if first == "listen" or (first in ("set", "reset") and _names_role(statement)):
        return Trace.DIRT
    if first == "create" and _TEMPORARY.intersection(_object_kind(text)):
        return Trace.DIRT
    pairs = itertools.pairwise(statement)
    return Trace.DIRT if any(itertools.starmap(_leaves, pairs)) else Trace.NONE


def _names_role(statement: list[SqlToken]) -> bool:
    """SET and RESET of the role, or of a setting by a quoted name, which may be any."""
    rest = statement[1:]
    while rest[:1] and rest[0].word == "session":
        rest = rest[1:]
    return bool(rest) and (rest[0].kind == "quoted" or rest[0].word in ("role", "authorization"))


def _object_kind(create: list[str]) -> Iterable[str]:
    """The first word of what CREATE makes that is no word of CREATE's own."""
    rest = itertools.dropwhile(
        lambda word: word in ("or", "replace", "global", "local"), create[1:]
    )
    return itertools.islice(rest, 1)


def _leaves(token: SqlToken, following: SqlToken) -> bool:
    """Two tokens of a statement that leaves something, whatever else it does."""
    word = token.word
    return (
        (word == "with" and following.word == "hold")
        or (word == "into" and following.word in _TEMPORARY)
        or (token.name == "pg_temp" and following.text == ".")
        or (token.name in _LOCKS and following.text == "(")
    )


def surely_wrote(tag: str) -> bool:
    """Whether a command's tag says that it changed rows; if it does not, it may have all the same."""
    return _WROTE.match(tag) is not None


def ending_command(query: object, *, standard_conforming_strings: bool = True) -> str:
    """The first command in `query` that begins or ends a transaction; empty if none does.

    Args:
        query: anything that psycopg executes: a text, bytes, or composed SQL.
        standard_conforming_strings: the session's setting of that name.
    """
    text = _text(query)
    if not _COMMAND.match(text.lstrip()) and not (
        _NOT_FIRST.search(text) and _COMMAND.search(text)
    ):
        return ""
    parts = statements(text, standard_conforming_strings=standard_conforming_strings)
    return next(filter(None, map(transaction_control, parts)), "")


def _text(query: object) -> str:
    if isinstance(query, bytes):
        return query.decode(errors="replace")
    if isinstance(query, sql.Composable):
        return query.as_string(None)
    return str(query)
