"""Statements that steer transactions: BEGIN, COMMIT, SAVEPOINT, PREPARE TRANSACTION and their like.

They are no plans: the session carries them out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from twopc.lexer import unquoted
from twopc.sim.model.sql import parse
from twopc.sim.model.values import UnsupportedError

_LEVELS = ("read uncommitted", "read committed", "repeatable read", "serializable")
#: READ ONLY and DEFERRABLE are none of the model's.
_MODES = rf"isolation level (?:{'|'.join(_LEVELS)})|read write|not deferrable"


class Control(NamedTuple):
    """BEGIN, COMMIT, SAVEPOINT and their like."""

    verb: str
    name: str = ""
    """Of a savepoint or a prepared transaction."""
    level: str = ""


def control(text: str) -> Control | None:
    """What steers transactions; None for anything else."""
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
            return Control(verb=f"{verb} prepared", name=unquoted(_last(text)))
        if verb == "rollback" and "to" in words[1:3]:
            return Control(verb="rollback to", name=unquoted(words[-1]))
        if second not in ("", "transaction", "work") or len(words) > 2:
            raise UnsupportedError(text, " ".join(words).upper())
        return Control(verb=verb)
    if first == "prepare" and second == "transaction":
        return Control(verb="prepare", name=unquoted(_last(text)))
    if first == "savepoint":
        return Control(verb="savepoint", name=unquoted(words[-1]))
    if first == "release":
        return Control(verb="release", name=unquoted(words[-1]))
    return None


def is_mode(words: Sequence[str]) -> bool:
    """Whether these are modes of a transaction that the model has: a level, READ WRITE, NOT DEFERRABLE."""
    text = " ".join(words).replace(" , ", " ")
    return re.fullmatch(rf"(?:(?:{_MODES})(?: |$))+", text) is not None


def _last(text: str) -> str:
    return parse.words(text)[-1]
