"""Text to syntax trees: the only module that uses the parser, which it loads at first use.

Statements that control transactions, and utility statements that the parser does not know, are recognised by their
words before the parser is used.
"""

from __future__ import annotations

import functools
import re
import string
from typing import Any

from twopc import lexer
from twopc.sim.model.sql import clauses
from twopc.sim.model.values import UnsupportedError

#: Keywords of SQL that the parser does not accept as a parameter's name, and the suffix that makes them acceptable.
_KEYWORD = re.compile(
    r"""all|and|any|as|asc|between|by|case|cross|desc|distinct|else|end|except|exists|false|for|from|full|group
    |having|ilike|in|inner|intersect|into|is|join|left|like|limit|natural|not|null|offset|on|or|order|outer
    |returning|right|select|set|some|table|then|true|union|unique|using|values|when|where|window|with""",
    re.I | re.X,
)
_NAME = "_named"
#: Case folding of a name without quotes: servers with UTF-8 fold only letters of ASCII.
_FOLDED = {ord(letter): letter.lower() for letter in string.ascii_uppercase}


@functools.lru_cache(maxsize=4096)
def words(text: str) -> tuple[str, ...]:
    """Return the tokens of a text without trailing semicolons: words in lower case, any other token as written."""
    results = [token.word or token.text for token in lexer.tokens(text) if token.kind != "space"]
    while results and results[-1] == ";":
        results.pop()
    return tuple(results)


@functools.lru_cache(maxsize=1024)
def statements(text: str) -> tuple[str, ...]:
    """Return the texts of the statements in a text."""
    return tuple(
        text[statement[0].start : statement[-1].start + len(statement[-1].text)]
        for statement in lexer.statements(text)
    )


def _renamed(text: str) -> str:
    """Return a text in which parameters named like keywords (``:from``) have other names."""
    return "".join(
        token.text + _NAME
        if token.kind == "parameter" and _KEYWORD.fullmatch(token.text, 1)
        else token.text
        for token in lexer.tokens(text)
    )


@functools.lru_cache(maxsize=4096)
def tree(text: str) -> Any:
    """Return the syntax tree of one statement. It is shared and must not be changed: thousands of equal systems are
    built.

    Raises UnsupportedError for a text that cannot be parsed, which PostgreSQL might accept or refuse.
    """
    import sqlglot
    from sqlglot import errors, exp

    tokens = words(text)
    for place, word in enumerate(tokens):  # sqlglot reads IS UNKNOWN as IS NULL
        following = tokens[place + 1 : place + 3]
        if word == "is" and (following[:1] == ("unknown",) or following == ("not", "unknown")):
            raise UnsupportedError(text, "IS UNKNOWN")
    named = _renamed(text)
    try:
        parsed = sqlglot.parse_one(named, read="postgres")
    except errors.SqlglotError as error:
        raise UnsupportedError(text, f"how to read this ({str(error).splitlines()[0]})") from None
    for name in parsed.find_all(exp.Identifier):
        if not name.args.get("quoted"):
            name.set("this", name.this.translate(_FOLDED))
    if named != text:
        for each in parsed.find_all(exp.Placeholder):
            each.set("this", str(each.this).removesuffix(_NAME))
    if isinstance(parsed, exp.Command):
        raise UnsupportedError(text, f"{str(parsed.this).upper()}")
    if clause := clauses.foreign(parsed):
        raise UnsupportedError(text, clause)
    return parsed


def expression(text: str) -> Any:
    """Return the syntax tree of an expression."""
    return tree(f"select {text}").expressions[0]


def kind(node: Any) -> str:
    """Return the kind of a node: the name of its class."""
    return type(node).__name__


def construct(node: Any) -> str:
    """Return the name of a node's construct in SQL, for the message that refuses a statement because of the node."""
    name = kind(node)
    return _CONSTRUCTS.get(name) or re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).upper()


_CONSTRUCTS = {
    "Bracket": "a subscript",
    "Order": "ORDER BY here",
    "Select": "a SELECT here",
    "Star": "* here",
    "Subquery": "a subquery here",
}


def rendered(node: Any) -> str:
    """Return a node as SQL, for messages and for comparing nodes."""
    result = node.meta.get("rendered")
    if result is None:
        result = node.meta["rendered"] = str(node.sql(dialect="postgres"))
    return str(result)


def arguments(node: Any) -> list[Any]:
    """Return the arguments of a function's call, in order."""
    if kind(node) == "Anonymous":
        return list(node.expressions)
    given: list[Any] = []
    for name in node.arg_types:
        value = node.args.get(name)
        if isinstance(value, list):
            given += value
        elif value is not None and not isinstance(value, (bool, str)):
            given.append(value)
    return given
