"""PostgreSQL's lexical rules: the tokens of an SQL text, and its statements.

The lexer uses no grammar and no server, and does not interpret statements. ``:name`` is one token, a scenario's
parameter; SQL itself has a colon before a name only in the bounds of a slice, ``a[1:n]``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from string import ascii_lowercase, ascii_uppercase
from typing import Final, NamedTuple

#: Characters of names, written as negated classes: Python compiles a class that spans all of Unicode a hundred
#: times slower.
_NAME_START = r"[^\x00-@\[-^`{-\x7f]"
_IN_TAG = r"[^\x00-/:-@\[-^`{-\x7f]"
_IN_NAME = r"[^\x00-#%-/:-@\[-^`{-\x7f]"
#: Continuation of a string with backslash escapes, after white space that contains a line break.
_CONTINUED = (
    r"(?:[ \t\f\v]|--[^\n\r]*)*[\n\r](?:[ \t\n\r\f\v]|--[^\n\r]*[\n\r])*'(?:[^'\\]|''|\\.)*(?:'|\Z)"
)


def _pattern(escaped: str, verbatim: str) -> re.Pattern[str]:
    """Return the token pattern, given the prefixes of strings that have backslash escapes and of strings that have
    none.
    """
    return re.compile(
        rf"""
          (?P<space>[ \t\n\r\f\v]+|--[^\n\r]*)
        | (?P<comment>/\*)
        | (?P<escape>{escaped}'(?:[^'\\]|''|\\.)*(?:'|\Z)(?:{_CONTINUED})*)
        | (?P<string>{verbatim}'(?:[^']|'')*(?:'|\Z))
        | (?P<quoted>(?:[uU]&)?"(?:[^"]|"")*(?:"|\Z))
        | (?P<word>{_NAME_START}{_IN_NAME}*)
        | (?P<number>\d+(?:\.(?!\.)\d*)?(?:[eE][+-]?\d+)?\w*)
        | (?P<dollar>\$(?:{_NAME_START}{_IN_TAG}*)?\$)
        | (?P<parameter>:[A-Za-z_]\w*)
        | (?P<mark>::|:=|\.\.|.)
        """,
        re.VERBOSE | re.DOTALL | re.ASCII,
    )


_STANDARD: Final = _pattern("[eE]", "(?:[bBxXnN]|[uU]&)?")
_BACKSLASHES: Final = _pattern("[eEnN]?", "(?:[bBxX]|[uU]&)")
_LOWER: Final = str.maketrans(ascii_uppercase, ascii_lowercase)
_COMMENT: Final = re.compile(r"/\*|\*/")


class SqlToken(NamedTuple):
    """One token of an SQL text."""

    kind: str
    """``space`` (also a comment), ``word``, ``quoted``, ``string``, ``number``, ``parameter`` or ``mark``."""
    text: str
    """The token as written."""
    start: int
    """Offset of the token in the text."""

    @property
    def word(self) -> str:
        """The key word or plain name in lower case; empty for any other token."""
        return folded(self.text) if self.kind == "word" else ""

    @property
    def name(self) -> str:
        """The identifier; empty for any other token."""
        if self.kind == "quoted" and self.text[0] == '"':
            return unquoted(self.text)
        return self.word


def tokens(text: str, *, standard_conforming_strings: bool = True) -> Iterator[SqlToken]:
    """Yield the tokens of a text; joined, they are the text.

    Args:
        standard_conforming_strings: the session's setting of that name; if it is off, a backslash escapes in
            ``'…'`` as it does in ``E'…'``.
    """
    match = (_STANDARD if standard_conforming_strings else _BACKSLASHES).match
    at = brackets = 0
    while result := match(text, at):
        kind, end = result.lastgroup, result.end()
        if kind == "mark":
            brackets = max(0, brackets + (result[0] == "[") - (result[0] == "]"))
        elif kind == "escape":
            kind = "string"
        elif kind == "comment":
            kind, end = "space", _comment_end(text, at)
        elif kind == "dollar":
            closing = text.find(result[0], end)
            kind, end = "string", len(text) if closing < 0 else closing + len(result[0])
        elif kind == "parameter" and brackets:
            kind, end = "mark", at + 1
        yield SqlToken(str(kind), text[at:end], at)
        at = end


def _comment_end(text: str, at: int) -> int:
    """Return the end of the comment that begins at `at`; comments nest."""
    depth = 0
    for result in _COMMENT.finditer(text, at):
        depth += 1 if result[0] == "/*" else -1
        if depth == 0:
            return result.end()
    return len(text)


def statements(text: str, *, standard_conforming_strings: bool = True) -> list[list[SqlToken]]:
    """Return the statements of a text as lists of tokens without spaces; empty statements are left out.

    A semicolon between parentheses, or in the body of a SQL-standard function (``begin atomic … end``), does not
    end a statement.
    """
    result: list[list[SqlToken]] = [[]]
    parentheses = blocks = 0
    for token in tokens(text, standard_conforming_strings=standard_conforming_strings):
        kind = token.kind
        if kind == "space":
            continue
        statement = result[-1]
        if kind == "word":
            if blocks or len(token.text) == 6:  # "atomic"
                word = token.text.lower()
                if word == "atomic" and statement and statement[-1].word == "begin":
                    blocks += 1
                elif blocks:
                    blocks += (word == "case") - (word == "end")
        elif kind == "mark":
            if token.text == ";" and not blocks and not parentheses:
                result.append([])
                continue
            parentheses = max(0, parentheses + (token.text == "(") - (token.text == ")"))
        statement.append(token)
    return [statement for statement in result if statement]


def words(statement: Sequence[SqlToken]) -> list[str]:
    """Return `SqlToken.word` of each token."""
    return [token.word for token in statement]


def transaction_control(statement: Sequence[SqlToken]) -> str:
    """Return the command by which a statement begins, ends or prepares a transaction: ``COMMIT``, ``PREPARE
    TRANSACTION``.

    Empty for any other statement; ROLLBACK TO SAVEPOINT ends no transaction.
    """
    first, second, third = (*words(statement[:3]), "", "", "")[:3]
    command = f"{first} {second}".upper()
    if command in ("START TRANSACTION", "PREPARE TRANSACTION", "COMMIT PREPARED", "ROLLBACK PREPARED"):  # fmt: skip
        return command
    if first == "rollback" and "to" in (second, third):
        return ""
    return first.upper() if first in ("begin", "commit", "end", "abort", "rollback") else ""


#: Words after which a PL/pgSQL statement begins; ``>`` ends a label.
_BEFORE_STATEMENT: Final = frozenset({"", ";", "begin", "then", "else", "loop", ">"})


def ends_transaction(body: str) -> str:
    """Return the first command in a PL/pgSQL body that ends a transaction, ``COMMIT`` or ``ROLLBACK``; empty if
    there is none.
    """
    before = ""
    for token in tokens(body):
        if token.kind == "space":
            continue
        if token.word in ("commit", "rollback") and before in _BEFORE_STATEMENT:
            return token.word.upper()
        before = token.word or token.text
    return ""


def folded(name: str) -> str:
    """Return a plain name as PostgreSQL stores it: letters beyond ASCII keep their case."""
    return name.lower() if name.isascii() else name.translate(_LOWER)


def unquoted(text: str) -> str:
    """Return the content of a string without escapes or of a quoted name; any other token unchanged."""
    if text.startswith("$"):
        tag = text[: text.find("$", 1) + 1]
        return text[len(tag) : -len(tag)] if tag else text
    if text[:1] in ("'", '"'):
        quote = text[0]
        return text[1:-1].replace(quote * 2, quote)
    return text


def code(text: str) -> Iterator[SqlToken]:
    """Yield the tokens of a text without spaces; each string, which may be a routine's body, is followed by the
    tokens in it.
    """
    for token in tokens(text):
        if token.kind != "space":
            yield token
        if token.kind == "string":
            yield from code(unquoted(token.text.lstrip("bBeEnNuUxX&")))
