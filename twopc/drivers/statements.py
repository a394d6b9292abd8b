"""Effects of an application's statement on its transaction, and on its session.

The module inspects tokens (`twopc.lexer`): an effect that cannot be recognised in the text is detected after the
statement, when the transaction is lost. Pure.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from enum import IntEnum

from psycopg import sql

from twopc.lexer import SqlToken, statements, transaction_control, words

_WROTE = re.compile(r"(?:INSERT \d+|UPDATE|DELETE|MERGE|COPY) [1-9]")
#: Most texts need no parsing: a command is at the beginning, or the text contains a match of each of these
#: patterns.
_COMMAND = re.compile(r"\b(?:commit|end|abort|rollback|begin|start|prepare)\b", re.IGNORECASE)
_NOT_FIRST = re.compile(r";|--|/\*")
#: A statement without any of these words leaves no state.
_TELLTALES = (
    "role", "authorization", "set_config", "advisory_lock", "listen", "hold", "temp", "prepare", "load"
)  # fmt: skip
_TELLTALE = re.compile(
    r"\b(?:role|authorization|pg_(?:try_)?advisory_lock(?:_shared)?|listen|hold|temp(?:orary)?|pg_temp"
    r"|prepare|load)\b"
)
_SET_CONFIG = re.compile(r"\bset_config\s*\(")
#: Calls for a setting other than the role, given as a literal; also within a string, which may be a routine's
#: body.
_SET_ANOTHER = re.compile(r"\bset_config\s*\(\s*'(?!(?:role|session_authorization)')")
_TEMPORARY = frozenset(("temp", "temporary"))
_LOCKS = frozenset(
    f"pg_{attempt}advisory_lock{share}" for attempt in ("", "try_") for share in ("", "_shared")
)


class Trace(IntEnum):
    """State that a statement leaves in its session after the transaction."""

    NONE = 0
    DIRT = 1
    """A role, temporary objects, locks and the like, which can be cleaned up."""
    STAIN = 2
    """State that lasts as long as the session."""


def trace_of(query: object, *, standard_conforming_strings: bool = True) -> Trace:
    """Return the state that a statement may leave in its session besides settings, as far as its text shows."""
    text = _text(query)
    lower = text.lower()
    for word in _TELLTALES:  # any() costs twice as much, and this runs for every statement
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
    """Return whether SET or RESET names the role, or a setting by a quoted name, which may be any."""
    rest = statement[1:]
    while rest[:1] and rest[0].word == "session":
        rest = rest[1:]
    return bool(rest) and (rest[0].kind == "quoted" or rest[0].word in ("role", "authorization"))


def _object_kind(create: list[str]) -> Iterable[str]:
    """Return the first word after CREATE and its modifiers."""
    rest = itertools.dropwhile(
        lambda word: word in ("or", "replace", "global", "local"), create[1:]
    )
    return itertools.islice(rest, 1)


def _leaves(token: SqlToken, following: SqlToken) -> bool:
    """Return whether two adjacent tokens show that a statement leaves state in the session."""
    word = token.word
    return (
        (word == "with" and following.word == "hold")
        or (word == "into" and following.word in _TEMPORARY)
        or (token.name == "pg_temp" and following.text == ".")
        or (token.name in _LOCKS and following.text == "(")
    )


def surely_wrote(tag: str) -> bool:
    """Return whether a command's tag proves that it changed rows; a command may have changed rows without proof."""
    return _WROTE.match(tag) is not None


def ending_command(query: object, *, standard_conforming_strings: bool = True) -> str:
    """Return the first command in `query` that begins or ends a transaction; empty if there is none.

    Args:
        query: any object that psycopg executes: a text, bytes, or composed SQL.
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
