"""The steps to which statements of PL/pgSQL are compiled, and blocks of steps.

A step is called as ``step(tx, context)`` and may wait. Its result directs the enclosing block: None to continue, a
word (``exit``, ``continue``), or ``("return", value)``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from twopc.lexer import tokens, unquoted
from twopc.sim.model.sql import parse
from twopc.sim.model.sql.bind import Context
from twopc.sim.model.sql.types import as_text
from twopc.sim.model.values import SqlError, Steps, UnsupportedError

Step = Callable[[Any, Context], Steps[Any]]

#: Conditions of EXCEPTION WHEN, by name.
CONDITIONS = {
    "unique_violation": "23505", "foreign_key_violation": "23503", "not_null_violation": "23502",
    "check_violation": "23514", "lock_not_available": "55P03", "deadlock_detected": "40P01",
    "serialization_failure": "40001", "division_by_zero": "22012", "raise_exception": "P0001",
    "no_data_found": "P0002", "too_many_rows": "P0003", "query_canceled": "57014",
    "numeric_value_out_of_range": "22003", "invalid_text_representation": "22P02",
    "feature_not_supported": "0A000", "object_not_in_prerequisite_state": "55000",
    "insufficient_privilege": "42501", "undefined_table": "42P01", "integrity_constraint_violation": "23000",
}  # fmt: skip


class StatementBlock:
    """A sequence of statements."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)

    def run(self, tx: Any, c: Context) -> Steps[Any]:
        """Run the statements until one of them leaves the block."""
        for step in self._steps:
            signal = yield from step(tx, c)
            if signal is not None:
                return signal
        return None


def gives(signal: Any) -> Step:
    """Return a step that has no effect but its result."""

    def run(tx: Any, c: Context) -> Steps[Any]:
        return signal
        yield  # makes the step a generator

    return run


def repeat(
    tx: Any, c: Context, block: StatementBlock, condition: Callable[[Context], Any] | None
) -> Steps[Any]:
    """Run the body of LOOP or WHILE until its condition fails or a statement leaves it."""
    while True:
        c.snap = tx.statement()
        if condition is not None and condition(c) is not True:
            return None
        signal = yield from block.run(tx, c)
        if signal == "exit":
            return None
        if isinstance(signal, tuple):
            return signal


def codes_of(text: str) -> frozenset[str]:
    """Return the SQLSTATEs of EXCEPTION WHEN; ``others`` may be among them."""
    results = set()
    for one in re.split(r"\s+or\s+", text.strip(), flags=re.I):
        word = one.strip().lower()
        if word.startswith("sqlstate"):
            results.add(unquoted(one.split(None, 1)[1].strip()))
        elif word == "others":
            results.add("others")
        elif word in CONDITIONS:
            results.add(CONDITIONS[word])
        else:
            raise UnsupportedError(text, f"the condition {word}")
    return frozenset(results)


def guarded(inner: StatementBlock, handlers: list[tuple[frozenset[str], StatementBlock]]) -> Step:
    """Return a step for a block with exception handlers, which is a subtransaction."""

    def run(tx: Any, c: Context) -> Steps[Any]:
        tx.savepoint("")
        sub = tx.sub
        try:
            signal = yield from inner.run(tx, c)
        except SqlError as error:
            state = error.sqlstate
            for codes, block in handlers:
                others = "others" in codes and state not in ("57014", "57P01")
                if state in codes or others or (state[:2] + "000") in codes:
                    while tx.sub is not sub.parent:
                        tx.drop()
                    c.variables["sqlerrm"], c.variables["sqlstate"] = error.message, state
                    return (yield from block.run(tx, c))
            raise
        tx.release("")
        return signal

    return run


def without_into(text: str) -> tuple[str, list[str], bool]:
    """Remove INTO from a statement; return the rest, the variables, and whether STRICT is given."""
    if parse.words(text)[0] == "insert":
        match = re.search(
            r"\breturning\b.*?(\binto\s+(strict\s+)?([\w\s,]+?))\s*\Z", text, re.I | re.S
        )
    else:
        match = re.search(
            r"(\binto\s+(strict\s+)?(\w+(?:\s*,\s*\w+)*))(?=\s+from\b|\s+where\b|\s*\Z|\s+\w)",
            text,
            re.I,
        )
    if match is None:
        return text, [], False
    targets = [one.strip().lower() for one in match[3].split(",")]
    return text[: match.start(1)] + text[match.end(1) :], targets, bool(match[2])


def raise_again(tx: Any, c: Context) -> Steps[Any]:
    """Execute RAISE without parameters."""
    raise SqlError(
        c.variables.get("sqlstate", "0Z002"), c.variables.get("sqlerrm", "RAISE without parameters")
    )
    yield  # makes the step a generator


def complaint(text: str, expression: Callable[[str], Callable[[Context], Any]]) -> Step:
    """Compile RAISE EXCEPTION."""
    body, _, using = text.partition(" using ") if " using " in text else (text, "", "")
    if text.lower().startswith("using "):
        body, using = "", text[6:]
    parts = _arguments(body)
    pattern, state = "", "P0001"
    if parts:
        first = parts[0]
        if first.lower().startswith("sqlstate"):
            state = unquoted(first.split(None, 1)[1].strip())
        elif first.startswith("'"):
            pattern = unquoted(first)
        elif first.lower() in CONDITIONS:
            state = CONDITIONS[first.lower()]
        else:
            raise UnsupportedError(text, "this form of RAISE")
    given = [expression(one) for one in parts[1:]]
    options = {}
    for one in _arguments(using):
        name, _, value = one.partition("=")
        options[name.strip().lower()] = expression(value)

    def run(tx: Any, c: Context) -> Steps[Any]:
        c.snap = tx.statement()
        values = iter([value(c) for value in given])
        message = re.sub(
            "%%|%", lambda m: "%" if m[0] == "%%" else _shown(next(values, None)), pattern
        )
        lines = {name: value(c) for name, value in options.items()}
        code = lines.get("errcode", state)
        raise SqlError(
            CONDITIONS.get(code, code),
            lines.get("message") or message or code,
            detail=lines.get("detail") or "",
            hint=lines.get("hint") or "",
            constraint=lines.get("constraint") or "",
        )
        yield  # makes the step a generator

    return run


def _shown(value: Any) -> str:
    return (
        "<NULL>"
        if value is None
        else "t"
        if value is True
        else "f"
        if value is False
        else as_text(value)
    )


def _arguments(text: str) -> list[str]:
    parts, start, depth = [], 0, 0
    for token in tokens(text):
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if token.text == "," and not depth:
            parts.append(text[start : token.start].strip())
            start = token.start + 1
    parts.append(text[start:].strip())
    return [part for part in parts if part]
