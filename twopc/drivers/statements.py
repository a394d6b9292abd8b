"""What a statement of an application does to its transaction, and leaves in its session.

Looks at words, not at grammar: what cannot be seen here is noticed when the statement is done, by then at
the price of the transaction. Pure.
"""

from __future__ import annotations

import re
from enum import IntEnum

from psycopg import sql

_ENDS = re.compile(
    r"\s*(?P<word>commit|end|abort|rollback(?!\s+(?:(?:work|transaction)\s+)?to\b)|begin"
    r"|start\s+transaction|prepare\s+transaction)\b",
    re.IGNORECASE,
)
#: Comments, and texts in which words mean nothing: literals, quoted names, dollar quotes.
_QUIET = re.compile(
    r"""(?P<comment>--[^\n]*|/\*.*?\*/)
    | \b[eE]'(?:[^'\\]|\\.|'')*'
    | '(?:[^']|'')*'
    | "(?:[^"]|"")*"
    | \$(?P<tag>\w*)\$.*?\$(?P=tag)\$""",
    re.DOTALL | re.VERBOSE,
)
#: The body of such a function is made of statements, and ends with END.
_ATOMIC = re.compile(r"\bbegin\s+atomic\b", re.IGNORECASE)
_WROTE = re.compile(r"(?:INSERT \d+|UPDATE|DELETE|MERGE|COPY) [1-9]")


#: Without one of these words none of what follows is there; looking for them takes next to no time.
_TELLTALES = (
    "role", "authorization", "set_config", "advisory_lock", "listen", "hold", "temp", "prepare", "load"
)  # fmt: skip
_LEAVES = re.compile(
    r"(?:\A|;)\s*listen\b|\bwith\s+hold\b|\bpg_temp\b|\bpg_(?:try_)?advisory_lock(?:_shared)?\s*\("
    r"|\b(?:create(?:\s+or\s+replace)?(?:\s+(?:global|local))?|into)\s+temp(?:orary)?\b"
    # a quoted name may be any setting's
    r"|(?:\A|;)\s*(?:re)?set\s+(?:session\s+)?(?:role\b|(?:session\s+)?authorization\b|'')"
)
_STAYS = re.compile(r"(?:\A|;)\s*(?:prepare|load)\b")
_SET_CONFIG = re.compile(r"\bset_config\s*\(")
_SET_ANOTHER = re.compile(r"\bset_config\s*\(\s*'(?!(?:role|session_authorization)')")


class Trace(IntEnum):
    """What a statement leaves in its session when its transaction is over."""

    NONE = 0
    DIRT = 1
    """A role, temporary objects, locks and the like: what a clean-up takes away."""
    STAIN = 2
    """What stays as long as the session does."""


def trace_of(query: object) -> Trace:
    """What a statement may leave in its session besides settings, as far as its own words tell."""
    text = _text(query).lower()
    if not any(word in text for word in _TELLTALES):
        return Trace.NONE
    plain = _plain(text)
    if _STAYS.search(plain):
        return Trace.STAIN
    sets_role = len(_SET_CONFIG.findall(text)) > len(_SET_ANOTHER.findall(text))
    return Trace.DIRT if sets_role or _LEAVES.search(plain) else Trace.NONE


def surely_wrote(tag: str) -> bool:
    """Whether a command's tag says that it changed rows; if it does not, it may have all the same."""
    return _WROTE.match(tag) is not None


def ending_word(query: object) -> str:
    """The first word of a statement in `query` that begins or ends a transaction; empty if none does.

    Args:
        query: anything that psycopg executes: a text, bytes, or composed SQL.
    """
    text = _text(query)
    found = _ENDS.match(text)
    if found is None and (";" in text or "--" in text or "/*" in text):
        plain = _plain(text)
        statements = plain.split(";")
        if _ATOMIC.search(plain):
            del statements[1:]
        found = next(filter(None, map(_ENDS.match, statements)), None)
    return found["word"] if found is not None else ""


def _plain(text: str) -> str:
    return _QUIET.sub(lambda quiet: " " if quiet["comment"] else "''", text)


def _text(query: object) -> str:
    if isinstance(query, bytes):
        return query.decode(errors="replace")
    if isinstance(query, sql.Composable):
        return query.as_string(None)
    return str(query)
