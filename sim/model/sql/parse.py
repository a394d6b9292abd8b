"""Text to syntax trees: the only module that knows the parser, and loads it when first asked.

Statements that steer transactions, and utilities that the parser does not know, are recognised from their words
before it.
"""

from __future__ import annotations

import functools
import re
from typing import Any

from sim.model.words import UnsupportedError

_WORD = re.compile(
    r"""\s+ | --[^\n]* | /\*.*?\*/ | (?P<quoted>"(?:[^"]|"")*") | (?P<dollar>\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    | (?P<string>[eE]?'(?:[^']|'')*') | (?P<word>[A-Za-z_][\w$]*) | (?P<number>\d+(?:\.\d+)?) | (?P<sign>::|:=|.)""",
    re.S | re.X,
)

#: Of SQL's words those that the parser does not take for a parameter's name, and what makes a name of them.
_KEYWORD = re.compile(
    r"""all|and|any|as|asc|between|by|case|cross|desc|distinct|else|end|except|exists|false|for|from|full|group
    |having|ilike|in|inner|intersect|into|is|join|left|like|limit|natural|not|null|offset|on|or|order|outer
    |returning|right|select|set|some|table|then|true|union|unique|using|values|when|where|window|with""",
    re.I | re.X,
)
_NAME = "_named"


@functools.lru_cache(maxsize=4096)
def words(text: str) -> tuple[str, ...]:
    """The tokens of a text: words in lower case, strings and quoted names as they stand."""
    found = []
    for match in _WORD.finditer(text):
        kind = match.lastgroup
        if kind == "tag":
            kind = "dollar"
        if kind is None:
            continue
        token = match[0]
        found.append(token.lower() if kind == "word" else token)
    while found and found[-1] == ";":
        found.pop()
    return tuple(found)


def unquoted(token: str) -> str:
    """The content of a string or quoted name."""
    if token.startswith("$"):
        tag = token[: token.index("$", 1) + 1]
        return token[len(tag) : -len(tag)]
    if token[:1] in ("'", '"'):
        quote = token[0]
        return token[1:-1].replace(quote * 2, quote)
    return token


@functools.lru_cache(maxsize=1024)
def statements(text: str) -> tuple[str, ...]:
    """Several statements in one text, one by one; semicolons in strings and bodies do not count."""
    found, start, depth = [], 0, 0
    for match in _WORD.finditer(text):
        if match[0] == ";" and not depth:
            found.append(text[start : match.start()])
            start = match.end()
        elif match[0] == "(":
            depth += 1
        elif match[0] == ")":
            depth -= 1
    found.append(text[start:])
    return tuple(one.strip() for one in found if words(one))


def _renamed(text: str) -> str:
    """The text with other names for parameters that are called as keywords are: ``:from``."""
    found, last = "", ""
    for match in _WORD.finditer(text):
        is_keyword = last == ":" and _KEYWORD.fullmatch(match[0]) is not None
        found += match[0] + _NAME if is_keyword else match[0]
        last = match[0]
    return found


@functools.lru_cache(maxsize=4096)
def tree(text: str) -> Any:
    """The syntax tree of one statement, which nobody changes: systems of the same kind are built by the thousand.

    What cannot be read may be an error of PostgreSQL's or not.
    """
    import sqlglot
    from sqlglot import errors, exp

    named = _renamed(text)
    try:
        parsed = sqlglot.parse_one(named, read="postgres")
    except errors.SqlglotError as error:
        raise UnsupportedError(text, f"how to read this ({str(error).splitlines()[0]})") from None
    if named != text:
        for each in parsed.find_all(exp.Placeholder):
            each.set("this", str(each.this).removesuffix(_NAME))
    if isinstance(parsed, exp.Command):
        raise UnsupportedError(text, f"{str(parsed.this).upper()}")
    return parsed


def expression(text: str) -> Any:
    """The syntax tree of an expression."""
    return tree(f"select {text}").expressions[0]


def kind(node: Any) -> str:
    """What a node of the tree is."""
    return type(node).__name__


def rendered(node: Any) -> str:
    """A node as SQL, for messages and for telling equal ones."""
    found = node.meta.get("rendered")
    if found is None:
        found = node.meta["rendered"] = str(node.sql(dialect="postgres"))
    return str(found)
