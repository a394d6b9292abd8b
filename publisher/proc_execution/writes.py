"""A routine's writes that differ at Subscribers from sent rows. Pure; matches words, as `scan` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twopc.proc_execution import ProcWarning

_VERBS = {"ins": "INSERT", "upd": "UPDATE", "del": "DELETE"}
_MERGED = {"insert": "ins", "update": "upd", "delete": "del"}
#: Tokens that end the assignments of an UPDATE.
_AFTER_SET = {";", "where", "from", "returning"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleLimits:
    """Columns and operations of an article that are not propagated, or decide its partition."""

    left_out: frozenset[str] = frozenset()
    """Columns that are not published."""
    decides: frozenset[str] = frozenset()
    """Columns that a row filter reads."""
    stays: frozenset[str] = frozenset()
    """Operations that are not sent: ``ins``, ``upd``, ``del``."""


def of_writes(
    tokens: Sequence[str], narrow: Mapping[str, ArticleLimits], written_as: Callable[[str], str]
) -> Iterator[ProcWarning]:
    """Yield warnings of writes that a call makes at a Subscriber differently from sent rows.

    Args:
        tokens: the routine's text.
        narrow: by article's name.
        written_as: returns a name in the form of a token.
    """
    by_table = {written_as(name.rpartition(".")[2]): name for name in narrow}
    done = [
        (operation, by_table[table], columns)
        for operation, table, columns in _writes(tokens)
        if table in by_table
    ]
    for name in sorted({by_table[token] for token in tokens if token in by_table}):
        article = narrow[name]
        for column in sorted(article.left_out):
            if written_as(column) in tokens:
                text = f"column {column} of table {name} is not published: a Subscriber lacks it"
                yield ProcWarning(kind="column", object=f"{name}.{column}", text=text)
        columns = {each for _, table, result in done if table == name for each in result}
        for column in sorted(article.decides):
            if written_as(column) in columns:
                text = (
                    f"column {column} of table {name} says in a row filter who has a row: a call brings a "
                    "Subscriber none that comes in, and leaves it one that goes out"
                )
                yield ProcWarning(kind="moves", object=f"{name}.{column}", text=text)
        for operation in sorted(article.stays & {op for op, table, _ in done if table == name}):
            text = f"{_VERBS[operation]} of table {name} does not travel, and a call makes it at Subscribers"
            yield ProcWarning(kind="stays", object=name, text=text)


def _writes(tokens: Sequence[str]) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Yield operation, unqualified table name and columns set by an UPDATE, for every statement that writes."""
    for place, token in enumerate(tokens):
        follows = tokens[place + 1 : place + 2]
        before = tokens[place - 1] if place else ""
        rest = _statement(tokens, place + 1)
        if (token, *follows) == ("insert", "into"):
            yield "ins", _table(rest[1:]), frozenset()
        elif (token, *follows) == ("delete", "from"):
            yield "del", _table(rest[1:]), frozenset()
        elif token == "update" and before not in ("for", "do", "key"):
            yield "upd", _table(rest), _set(rest)
        elif (token, *follows) == ("merge", "into"):
            for verb, operation in _MERGED.items():
                if verb in rest:
                    yield operation, _table(rest[1:]), _set(rest)


def _statement(tokens: Sequence[str], place: int) -> Sequence[str]:
    end = place
    while end < len(tokens) and tokens[end] != ";":
        end += 1
    return tokens[place:end]


def _table(tokens: Sequence[str]) -> str:
    """Return the last part of the name at the beginning of the tokens."""
    at = 1 if tokens[:1] == ["only"] else 0
    while tokens[at + 1 : at + 2] == ["."]:
        at += 2
    return tokens[at] if at < len(tokens) else ""


def _set(tokens: Sequence[str]) -> frozenset[str]:
    """Return the columns that are set."""
    results: set[str] = set()
    if "set" not in tokens:
        return frozenset()
    depth = 0
    start = list(tokens).index("set") + 1
    for place, token in enumerate(tokens[start:], start):
        if not depth and token in _AFTER_SET:
            break
        depth += (token == "(") - (token == ")")
        assigned = tokens[place + 1 : place + 2] == ["="]
        listed = depth == 1 and tokens[start] == "("
        if (assigned and not depth) or listed:
            results.add(token)
    return frozenset(results)
