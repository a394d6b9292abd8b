"""Statements that control transactions: BEGIN, COMMIT, SAVEPOINT, PREPARE TRANSACTION and others.

They are not compiled to plans: the session executes them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from twopc.lexer import unquoted
from twopc.sim.model.sql import parse
from twopc.sim.model.values import UnsupportedError

_LEVELS = ("read uncommitted", "read committed", "repeatable read", "serializable")
#: The model does not have READ ONLY and DEFERRABLE.
_MODES = rf"isolation level (?:{'|'.join(_LEVELS)})|read write|not deferrable"


class Control(NamedTuple):
    """A statement that controls transactions, such as BEGIN, COMMIT or SAVEPOINT."""

    verb: str
    name: str = ""
    """Name of a savepoint or gid of a prepared transaction."""
    level: str = ""


def control(text: str) -> Control | None:
    """Parse a statement that controls transactions; return None for any other statement."""
    words = parse.words(text)
    first = words[0] if words else ""
    second = words[1] if len(words) > 1 else ""
    if first in ("begin", "start"):
        message = " ".join(words)
        modes = words[1 + (second in ("transaction", "work")) :]
        if modes and not is_mode(modes):
            raise UnsupportedError(text, message.upper())
        level = next((one for one in _LEVELS if f"isolation level {one}" in message), "")
        level = "read committed" if level == "read uncommitted" else level
        return Control(verb="begin", name=first, level=level)
    if first in ("commit", "end", "rollback", "abort"):
        verb = "commit" if first in ("commit", "end") else "rollback"
        if second == "prepared":
            return Control(verb=f"{verb} prepared", name=unquoted(words[-1]))
        if verb == "rollback" and "to" in words[1:3]:
            return Control(verb="rollback to", name=unquoted(words[-1]))
        if second not in ("", "transaction", "work") or len(words) > 2:
            raise UnsupportedError(text, " ".join(words).upper())
        return Control(verb=verb)
    if first == "prepare" and second == "transaction":
        return Control(verb="prepare", name=unquoted(words[-1]))
    if first == "savepoint":
        return Control(verb="savepoint", name=unquoted(words[-1]))
    if first == "release":
        return Control(verb="release", name=unquoted(words[-1]))
    return None


def is_mode(words: Sequence[str]) -> bool:
    """Whether words are transaction modes that the model has: a level, READ WRITE, NOT DEFERRABLE."""
    text = " ".join(words).replace(" , ", " ")
    return re.fullmatch(rf"(?:(?:{_MODES})(?: |$))+", text) is not None
