"""Scanner of isolationtester's language: tokens with their places and the comments above them.

As in PostgreSQL's specscanner.l, identifiers are case-sensitive, a quoted one may contain anything but a line
break, and a block of SQL ends at the first closing brace. Text that is no token is recorded as an error and
skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from twopc.sim.scenario.text import Document, Mark

Kind = Literal["keyword", "name", "block", "number", "sign", "end"]

KEYWORDS = ("setup", "teardown", "session", "step", "permutation", "notices")

_SPACE = re.compile(r"[ \t\r\f\v\n]+")
_COMMENT = re.compile(r"#([^\n]*)")
_QUOTED = re.compile(r'"((?:[^"\n]|"")*)"')
_BLOCK = re.compile(r"\{([^}]*)\}")
_WORD = re.compile(r"(?:[A-Za-z_]|[^\x00-\x7f])(?:[A-Za-z0-9_$]|[^\x00-\x7f])*")
_NUMBER = re.compile(r"[0-9]+")
_SIGN = re.compile(r"[(),*]")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecToken:
    """A token."""

    kind: Kind
    text: str
    """For a block, the SQL without the braces and, as in PostgreSQL's scanner, without the spaces beside them; line
    breaks are kept.
    """
    mark: Mark
    comments: tuple[str, ...] = ()
    """The lines of comment directly above the token, without their ``#``."""

    def __str__(self) -> str:
        if self.kind == "end":
            return "the end of the file"
        return "a block of SQL" if self.kind == "block" else f"'{self.text}'"


def tokens(text: str, document: Document) -> Iterator[SpecToken]:
    """Yield every token of `text`, ending with an ``end``, and add the errors to `document`."""
    place = _Place(text)
    at = 0
    comments: list[str] = []
    while at < len(text):
        if match := _SPACE.match(text, at):
            if match[0].count("\n") > 1:
                comments.clear()  # an empty line separates a comment from the next token
            at = match.end()
        elif match := _COMMENT.match(text, at):
            comments.append(match[1].strip())
            at = match.end()
        else:
            token, at = _token(text, at, place, document, tuple(comments))
            if token is not None:
                comments.clear()
                yield token
    yield SpecToken(kind="end", text="", mark=place.mark(len(text.rstrip())))


def _token(
    text: str, at: int, place: _Place, document: Document, comments: tuple[str, ...]
) -> tuple[SpecToken | None, int]:
    """Return the token at offset `at`, None if there is none, and the offset of its end."""
    mark = place.mark(at)

    def made(kind: Kind, message: str) -> SpecToken:
        return SpecToken(kind=kind, text=message, mark=mark, comments=comments)

    if match := _BLOCK.match(text, at):
        inside = match[1]
        begins = match.start(1) + len(inside) - len(inside.lstrip())
        block = SpecToken(
            kind="block", text=inside.strip(" \t\r\f"), mark=place.mark(begins), comments=comments
        )
        return block, match.end()
    if match := _QUOTED.match(text, at):
        return made("name", match[1].replace('""', '"')), match.end()
    if match := _WORD.match(text, at):
        return made("keyword" if match[0] in KEYWORDS else "name", match[0]), match.end()
    if match := _NUMBER.match(text, at):
        return made("number", match[0]), match.end()
    if match := _SIGN.match(text, at):
        return made("sign", match[0]), match.end()
    if text[at] == "{":
        document.error(mark, "this block of SQL has no closing brace")
        return None, len(text)
    if text[at] == '"':
        document.error(mark, "this name has no closing quote on its line")
        return None, (text + "\n").index("\n", at)
    document.error(mark, f"{text[at]!r} means nothing here; SQL stands in braces")
    return None, at + 1


class _Place:
    """Converts offsets, which must be given in ascending order, to lines and columns."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line = 1
        self._begins = 0

    def mark(self, at: int) -> Mark:
        while (end := self._text.find("\n", self._begins, at)) >= 0:
            self._line += 1
            self._begins = end + 1
        return Mark(self._line, at - self._begins + 1)
