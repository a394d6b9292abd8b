"""Search of a routine's text for code whose result may differ at a Subscriber. Pure.

The search matches words, not meaning: its warnings are worth checking, and code that it does not see (dynamic SQL,
functions called by called functions) may still give another result.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from twopc import lexer
from twopc.proc_execution import ProcWarning
from twopc.publisher.proc_execution.writes import ArticleLimits, of_writes

_BODY = re.compile(r"\nAS (\$(?:function|procedure)x*\$)(.*)\1\s*\Z", re.DOTALL)

_CLOCK = {
    "now", "statement_timestamp", "transaction_timestamp", "clock_timestamp", "timeofday", "age",
}  # fmt: skip
_CLOCK_WORDS = {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}
_RANDOM = {
    "random", "random_normal", "gen_random_uuid", "gen_random_bytes", "setseed", "uuidv4", "uuidv7",
    "uuid_generate_v1", "uuid_generate_v1mc", "uuid_generate_v4",
}  # fmt: skip
_SEQUENCE = {"nextval", "currval", "setval", "lastval"}
_SESSION = {
    "current_setting", "set_config", "pg_backend_pid", "pg_current_xact_id", "pg_current_snapshot",
    "txid_current", "txid_current_snapshot", "txid_current_if_assigned", "pg_current_xact_id_if_assigned",
    "inet_client_addr", "inet_client_port", "inet_server_addr", "inet_server_port", "current_schema",
    "current_database", "version",
}  # fmt: skip
_SESSION_WORDS = {"current_user", "session_user", "current_role", "current_catalog"}
#: By kind of warning: functions, words without parentheses, and how the result differs at a Subscriber.
_FUNCTIONS: tuple[tuple[str, set[str], set[str], str], ...] = (
    ("clock", _CLOCK, _CLOCK_WORDS, "tells another time at a Subscriber"),
    ("random", _RANDOM, set(), "gives another value at a Subscriber"),
    ("sequence", _SEQUENCE, set(), "uses a sequence, which a Subscriber does not share"),
    ("session", _SESSION, _SESSION_WORDS, "is another at a Subscriber, where an agent calls"),
)
_STRANGE_TYPES = re.compile(r"(oid|reg\w+|tid|xid8?|cid|refcursor)(\[\])?\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseRoutines:
    """Objects of the database besides the articles' names."""

    unpublished: frozenset[str] = frozenset()
    """Tables and views that are not articles."""
    made: Mapping[str, str] = field(default_factory=dict)
    """By article: a column whose values the Publisher generates."""
    functions: Mapping[str, str] = field(default_factory=dict)
    """Texts of the user's functions, by name."""
    narrow: Mapping[str, ArticleLimits] = field(default_factory=dict)
    """By article: columns and operations that are not propagated."""
    declared: frozenset[str] | None = None
    """Articles declared as read or written; None if nothing is declared."""


def source_of(definition: str) -> str:
    """Return the text between a definition's dollar quotes; the whole definition if there are none."""
    match = _BODY.search(definition)
    return match[2] if match else definition


def words_of(source: str) -> tuple[str, ...]:
    """Return the words of a text without comments and strings; in lower case, except quoted names."""
    return tuple(each for each in _tokens(source) if each[0].isalpha() or each[0] in '_"')


def warnings_of(
    source: str, *, tables: Mapping[str, bool], known: DatabaseRoutines
) -> tuple[ProcWarning, ...]:
    """Return warnings of results that may differ at a Subscriber, one per object.

    Args:
        tables: by article's name, whether Subscribers may hold only part of its rows.
        known: other objects of the database.
    """
    tokens = list(_tokens(source))
    results = [*_of_functions(tokens), *_of_order(tokens), *of_writes(tokens, known.narrow, _name)]
    named = _named(tokens, tables)
    for name in sorted(named | (known.declared or frozenset())):
        if tables.get(name):
            text = f"table {name} has a row filter: a Subscriber may hold only part of its rows"
            results.append(ProcWarning(kind="row_filter", object=name, text=text))
        if known.declared is not None and name not in known.declared:
            text = f"table {name} is named in the text and declared neither as read nor as written"
            results.append(ProcWarning(kind="not_declared", object=name, text=text))
    strange = dict.fromkeys(_named(tokens, known.unpublished), "")
    for function, text in known.functions.items():
        if _name(function) in tokens:
            inner = list(_tokens(text))
            results += _of_functions(inner, f", called by {function}")
            for name in _named(inner, known.unpublished):
                strange.setdefault(name, f" by function {function}")
    for name, by in sorted(strange.items()):
        text = f"table {name} is used{by} and is not published: a Subscriber may lack it or hold other rows"
        results.append(ProcWarning(kind="unpublished", object=name, text=text))
    for name, column in sorted(known.made.items()):
        if name in _inserted(tokens, named):
            text = (
                f"column {column} of table {name} gets its values from the Publisher, and INSERT leaves them to "
                "it: at a Subscriber the column has no default"
            )
            results.append(ProcWarning(kind="identity", object=name, text=text))
    if "execute" in tokens:
        text = "EXECUTE runs a text that cannot be looked into"
        results.append(ProcWarning(kind="dynamic", object="execute", text=text))
    return tuple(dict.fromkeys(results))


def decides(condition: str, columns: Iterable[str]) -> frozenset[str]:
    """Return the columns that a condition names."""
    words = set(words_of(condition))
    return frozenset(column for column in columns if _name(column) in words)


def strange_type(name: str) -> bool:
    """Return whether values of a type have another meaning in another database."""
    return _STRANGE_TYPES.match(name) is not None


# -- tokens ---------------------------------------------------------------------------------------


def _tokens(source: str) -> Iterator[str]:
    """Yield words, quoted names and single characters, without numbers, strings and comments."""
    for token in lexer.tokens(source):
        if token.kind in ("word", "quoted", "mark"):
            yield token.word or token.text


def _name(name: str) -> str:
    """Return a name in the form that `_tokens` yields."""
    plain = re.fullmatch(r"[a-z_\x80-\U0010ffff][\w$]*", name)
    return name if plain and name == name.lower() else '"' + name.replace('"', '""') + '"'


def _named(tokens: list[str], tables: Mapping[str, bool] | frozenset[str]) -> frozenset[str]:
    """Return the tables whose unqualified names occur among the tokens, with any schema."""
    words = {each.strip('"') if each[0] == '"' else each for each in tokens}
    return frozenset(each for each in tables if each.rpartition(".")[2] in words)


def _of_functions(tokens: list[str], by: str = "") -> list[ProcWarning]:
    results = []
    for place, token in enumerate(tokens):
        called = tokens[place + 1 : place + 2] == ["("]
        for kind, functions, words, what in _FUNCTIONS:
            if (called and token in functions) or token in words:
                shown = f"{token}()" if called else token
                results.append(ProcWarning(kind=kind, object=token, text=f"{shown}{by} {what}"))
    return results


def _of_order(tokens: list[str]) -> list[ProcWarning]:
    results = []
    statement: list[str] = []
    for token in [*tokens, ";"]:
        if token != ";":
            statement.append(token)
            continue
        for word in ("limit", "fetch"):
            if word not in statement or "order" in statement:
                continue
            follows = statement[statement.index(word) + 1 :]
            if word == "limit" or follows[:1] in (["first"], ["next"]):
                text = f"{word.upper()} without ORDER BY may take other rows at a Subscriber"
                results.append(ProcWarning(kind="order", object=word, text=text))
        statement = []
    return results


def _inserted(tokens: list[str], named: frozenset[str]) -> frozenset[str]:
    """Return the tables that a statement inserts into."""
    results: set[str] = set()
    for place, token in enumerate(tokens):
        if token == "into" and tokens[max(place - 1, 0)] == "insert":
            results |= _named(tokens[place + 1 : place + 4], named)
    return frozenset(results)
