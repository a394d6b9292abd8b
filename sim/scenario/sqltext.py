"""SQL as a scenario needs to see it: parameters, and statements that cannot be prepared.

A tokenizer for PostgreSQL's lexical rules (strings, dollar quotes, nested comments, quoted names)
and nothing more: no grammar, no server. `:name` is a parameter; `::type`, `a[1:2]` and `:=` are not.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from twopc import forbidden
from twopc.forbidden import Forbidden

_TOKEN = re.compile(
    r"""
      (?P<space>\s+|--[^\n]*)
    | (?P<comment>/\*)
    | (?P<dollar>\$(?:[A-Za-z_\x80-\uffff][A-Za-z0-9_\x80-\uffff]*)?\$)
    | (?P<escape>[eE]'(?:[^'\\]|''|\\.)*(?:'|\Z))
    | (?P<string>(?:[bBxXnN]|[uU]&)?'(?:[^']|'')*(?:'|\Z))
    | (?P<quoted>(?:[uU]&)?"(?:[^"]|"")*(?:"|\Z))
    | (?P<cast>::|:=)
    | (?P<parameter>:[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>\d[\w.]*)
    | (?P<word>[A-Za-z_\x80-\uffff][A-Za-z0-9_$\x80-\uffff]*)
    | (?P<mark>.)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token; spaces and comments are tokens of kind "space"."""

    kind: str
    text: str

    @property
    def word(self) -> str:
        """A key word or plain name in lower case; empty for anything else."""
        return self.text.lower() if self.kind == "word" else ""


def tokens(text: str) -> Iterator[Token]:
    """The tokens of `text`; joined, they are `text` again."""
    at = 0
    brackets = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        assert found is not None, "the last alternative takes any character"
        kind, end = str(found.lastgroup), found.end()
        if kind == "comment":
            kind, end = "space", _comment_end(text, at)
        elif kind == "dollar":
            closing = text.find(found.group(), end)
            kind, end = "string", len(text) if closing < 0 else closing + len(found.group())
        elif kind == "parameter" and brackets:
            kind, end = "mark", at + 1  # a[1:n] is a slice
        elif kind == "mark":
            brackets = max(0, brackets + (found.group() == "[") - (found.group() == "]"))
        yield Token("string" if kind == "escape" else kind, text[at:end])
        at = end


def _comment_end(text: str, at: int) -> int:
    """Where the comment that begins at `at` ends: they nest."""
    depth = 0
    for found in re.finditer(r"/\*|\*/", text[at:]):
        depth += 1 if found.group() == "/*" else -1
        if depth == 0:
            return at + found.end()
    return len(text)


def parameters(text: str) -> list[str]:
    """The names of the ``:parameters`` in `text`, in order, each once."""
    found = (token.text[1:] for token in tokens(text) if token.kind == "parameter")
    return list(dict.fromkeys(found))


def placeholders(text: str) -> str:
    """`text` as psycopg wants it: ``%(name)s`` for ``:name``, and every other ``%`` doubled."""
    return "".join(
        f"%({token.text[1:]})s" if token.kind == "parameter" else token.text.replace("%", "%%")
        for token in tokens(text)
    )


def statements(text: str) -> list[list[Token]]:
    """The statements of `text` as lists of tokens without spaces; empty ones are left out.

    A semicolon inside the body of a SQL-standard function (``begin atomic … end``) does not end it.
    """
    found: list[list[Token]] = [[]]
    depth = 0
    for token in tokens(text):
        if token.kind == "space":
            continue
        before = found[-1][-1].word if found[-1] else ""
        if (
            (depth and token.word == "case")
            or (token.word == "atomic" and before == "begin")
            or (depth and token.word == "begin")
        ):
            depth += 1
        elif depth and token.word == "end":
            depth -= 1
        if token.text == ";" and not depth:
            found.append([])
        else:
            found[-1].append(token)
    return [each for each in found if each]


_LOCKING = frozenset({"insert", "update", "delete", "merge", "copy", "lock", "share", "call"})


def takes_locks(text: str) -> bool:
    """Whether others could wait for what `text` did: it writes, or locks rows or tables."""
    return any(token.word in _LOCKING for token in tokens(text))


def transaction_control(text: str) -> str:
    """The first statement that begins, ends or prepares a transaction, in words; else empty."""
    for statement in statements(text):
        first = statement[0].word
        second = statement[1].word if len(statement) > 1 else ""
        if first == "rollback" and _to_savepoint(statement):
            continue
        if first in ("begin", "start", "commit", "end", "abort", "rollback") or (
            (first, second) == ("prepare", "transaction")
        ):
            return f"{first} {second}".strip().upper()
    return ""


def returns_to_savepoint(text: str) -> bool:
    """Whether `text` is a ROLLBACK TO a savepoint, which a failed transaction still takes."""
    found = statements(text)
    return bool(found) and found[0][0].word == "rollback" and _to_savepoint(found[0])


def _to_savepoint(rollback: list[Token]) -> bool:
    return "to" in (token.word for token in rollback[1:3])


def copies(text: str) -> bool:
    """Whether `text` is a COPY through the client, for which a scenario has no data."""
    words = [token.word for statement in statements(text) for token in statement]
    return words[:1] == ["copy"] and not {"stdin", "stdout"}.isdisjoint(words)


_FIRST_WORDS = {
    "listen": forbidden.LISTEN,
    "unlisten": forbidden.UNLISTEN,
    "notify": forbidden.NOTIFY,
}
_CALLS = {"pg_notify": forbidden.NOTIFY, "pg_export_snapshot": forbidden.SNAPSHOT}
_TEMPORARY = ("temp", "temporary")


def forbidden_before_prepare(text: str) -> Forbidden | None:
    """Why a transaction with `text` in it cannot be prepared, and the remedy; else None."""
    return next(filter(None, map(_forbidden, statements(text))), None)


def _forbidden(statement: list[Token]) -> Forbidden | None:
    words = [token.word for token in statement]
    first = words[0]
    if first in _FIRST_WORDS:
        return _FIRST_WORDS[first]
    if first == "create" and _creates_temporary(statement):
        return forbidden.TEMPORARY
    if first in ("select", "with") and any(_has(words, "into", each) for each in _TEMPORARY):
        return forbidden.TEMPORARY
    if first == "declare" and _has(words, "cursor", "with", "hold"):
        return forbidden.HOLD
    return _forbidden_call(statement)


def has(text: str, *phrase: str) -> bool:
    """Whether these words follow each other in `text`."""
    return _has([token.word for token in tokens(text) if token.kind != "space"], *phrase)


def _has(words: list[str], *phrase: str) -> bool:
    spans = zip(*(words[at:] for at in range(len(phrase))), strict=False)
    return phrase in spans


def _creates_temporary(statement: list[Token]) -> bool:
    """CREATE [OR REPLACE] [GLOBAL | LOCAL] TEMP …, or CREATE … pg_temp.name."""
    words = [token.word for token in statement]
    at = 1
    while words[at : at + 1] and words[at] in ("or", "replace", "global", "local"):
        at += 1
    if words[at : at + 1] and words[at] in _TEMPORARY:
        return True
    return any(
        token.text.strip('"').lower() == "pg_temp" and after.text == "."
        for token, after in itertools.pairwise(statement)
    )


def _forbidden_call(statement: list[Token]) -> Forbidden | None:
    for token, after in itertools.pairwise(statement):
        if after.text == "(" and token.word in _CALLS:
            return _CALLS[token.word]
    return None
