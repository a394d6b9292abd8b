"""What a statement of an application does to its transaction: end it past the coordinator, change rows.

Looks at words, not at grammar: what cannot be seen here is noticed when the statement is done, by then at
the price of the transaction. Pure.
"""

from __future__ import annotations

import re

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
        plain = _QUIET.sub(lambda quiet: " " if quiet["comment"] else "''", text)
        statements = plain.split(";")
        if _ATOMIC.search(plain):
            del statements[1:]
        found = next(filter(None, map(_ENDS.match, statements)), None)
    return found["word"] if found is not None else ""


def _text(query: object) -> str:
    if isinstance(query, bytes):
        return query.decode(errors="replace")
    if isinstance(query, sql.Composable):
        return query.as_string(None)
    return str(query)
