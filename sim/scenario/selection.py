"""Selection of orders by an expression: words with and, or, not and parentheses, as in pytest's ``-k``.

This module depends on names only.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from twopc.errors import ScenarioError


def selector(expression: str) -> Callable[[str], bool]:
    """Return a predicate of names for ``word``, ``not word``, ``a and b``, ``a or b`` or ``(…)``.

    A word matches if the name contains it, regardless of case.

    Raises:
        ScenarioError: the expression is not valid.
    """
    return _SelectionParser(expression).parse()


class _SelectionParser:
    """Recursive descent over ``or``, ``and``, ``not``, words and parentheses."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = re.findall(r"[()]|[^()\s]+", text)

    def parse(self) -> Callable[[str], bool]:
        matches = self._either()
        if self._tokens:
            raise self._error()
        return matches

    def _error(self) -> ScenarioError:
        return ScenarioError(
            f"-k {self._text!r}: write words with and, or, not and parentheses between them"
        )

    def _next(self, *words: str) -> bool:
        if self._tokens and self._tokens[0] in words:
            self._tokens.pop(0)
            return True
        return False

    def _either(self) -> Callable[[str], bool]:
        sides = [self._both()]
        while self._next("or"):
            sides.append(self._both())
        return lambda name: any(side(name) for side in sides)

    def _both(self) -> Callable[[str], bool]:
        sides = [self._one()]
        while self._next("and"):
            sides.append(self._one())
        return lambda name: all(side(name) for side in sides)

    def _one(self) -> Callable[[str], bool]:
        if self._next("not"):
            inner = self._one()
            return lambda name: not inner(name)
        if self._next("("):
            inner = self._either()
            if not self._next(")"):
                raise self._error()
            return inner
        if not self._tokens or self._tokens[0] in (")", "and", "or"):
            raise self._error()
        word = self._tokens.pop(0).lower()
        return lambda name: word in name.lower()
