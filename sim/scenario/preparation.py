"""Statements that are not allowed in a prepared transaction, recognised by their text."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection

from twopc import forbidden
from twopc.forbidden import Forbidden
from twopc.lexer import SqlToken, statements, words
from twopc.sim.scenario.sqltext import follows

_FIRST_WORDS = {
    "listen": forbidden.LISTEN,
    "unlisten": forbidden.UNLISTEN,
    "notify": forbidden.NOTIFY,
}
_CALLS = {"pg_notify": forbidden.NOTIFY, "pg_export_snapshot": forbidden.SNAPSHOT}
_TEMPORARY = ("temp", "temporary")
_ADVISORY = re.compile(r"pg_(?:try_)?advisory_(xact_)?lock(?:_shared)?")


def forbidden_before_prepare(text: str, foreign: Collection[str] = ()) -> Forbidden | None:
    """Return the reason why a transaction that contains `text` cannot be prepared, with the remedy; None if there
    is none.

    Args:
        foreign: names of foreign tables.
    """
    return next(filter(None, (_forbidden(each, foreign) for each in statements(text))), None)


def foreign_tables(text: str) -> frozenset[str]:
    """Return the names of the foreign tables that `text` creates."""
    results = set()
    for statement in statements(text):
        message = words(statement)
        if message[:3] == ["create", "foreign", "table"]:
            at = 6 if message[3:6] == ["if", "not", "exists"] else 3
            if [token.text for token in statement[at + 1 : at + 2]] == ["."]:
                at += 2
            results |= {token.name for token in statement[at : at + 1]}
    return frozenset(results - {""})


def advisory_locks(text: str) -> frozenset[str]:
    """Return the advisory locks that `text` acquires, as ``session <key>`` and ``transaction <key>``."""
    results = set()
    for statement in statements(text):
        for at, token in enumerate(statement):
            taken = _ADVISORY.fullmatch(token.word)
            if taken is not None:
                key = itertools.takewhile(lambda each: each.text != ")", statement[at + 1 :])
                kind = "transaction" if taken[1] else "session"
                results.add(f"{kind} {' '.join(each.text for each in key)}")
    return frozenset(results)


def _forbidden(statement: list[SqlToken], foreign: Collection[str]) -> Forbidden | None:
    text = words(statement)
    first = text[0]
    if first != "create" and any(token.name in foreign for token in statement):
        return forbidden.FOREIGN
    if first in _FIRST_WORDS:
        return _FIRST_WORDS[first]
    if first == "create" and _creates_temporary(statement):
        return forbidden.TEMPORARY
    if first in ("select", "with") and any(follows(text, "into", each) for each in _TEMPORARY):
        return forbidden.TEMPORARY
    if first == "declare" and follows(text, "cursor", "with", "hold"):
        return forbidden.HOLD
    return _forbidden_call(statement)


def _creates_temporary(statement: list[SqlToken]) -> bool:
    """Return whether a statement is CREATE [OR REPLACE] [GLOBAL | LOCAL] TEMP …, or CREATE … pg_temp.name."""
    text = words(statement)
    at = 1
    while text[at : at + 1] and text[at] in ("or", "replace", "global", "local"):
        at += 1
    if text[at : at + 1] and text[at] in _TEMPORARY:
        return True
    return any(
        token.name == "pg_temp" and after.text == "."
        for token, after in itertools.pairwise(statement)
    )


def _forbidden_call(statement: list[SqlToken]) -> Forbidden | None:
    for token, after in itertools.pairwise(statement):
        if after.text == "(" and token.word in _CALLS:
            return _CALLS[token.word]
    return None
