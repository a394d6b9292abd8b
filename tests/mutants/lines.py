"""Which tests run a line of the product: what a run of the tests under coverage has recorded.

What a test starts as a process of its own is not seen, and what modules do when they are imported belongs to no test.
"""

from __future__ import annotations

import functools
import sqlite3
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from coverage import CoverageData

from tests.fix_slow import DURATIONS, function_of, read_durations


class Lines:
    """The tests of each line, as ``pytest --cov --cov-context=test`` has recorded them in a file."""

    def __init__(self, root: Path, recorded: Path) -> None:
        self._recorded = recorded
        self._data = CoverageData(str(recorded))
        self._data.read()
        self._durations = read_durations(root) if (root / DURATIONS).exists() else {}

    def tests(self, path: str, line: int) -> list[str]:
        """The tests that run a line, or the nearest before it that any test runs: quick ones first, then those that
        run little else.
        """
        by_line = self._by_line(path)
        nearest = max((each for each in by_line if each <= line), default=None)
        if nearest is None:
            return []
        return sorted(
            by_line[nearest],
            key=lambda test: (self._durations.get(function_of(test), 0), self._sizes[test], test),
        )

    @functools.cache  # noqa: B019 - lives as long as the program
    def _by_line(self, path: str) -> Mapping[int, set[str]]:
        """Each line that a test runs."""
        lines = {}
        for line, contexts in self._data.contexts_by_lineno(path).items():
            tests = {_test(context) for context in contexts if context}
            if tests:
                lines[line] = tests
        return lines

    @functools.cached_property
    def _sizes(self) -> Counter[str]:
        """How many lines each test runs; counted in the file itself, since to read all lines' tests takes minutes."""
        sizes: Counter[str] = Counter()
        with closing(sqlite3.connect(self._recorded)) as file:
            bits = "select context, numbits from line_bits join context on context.id = context_id"
            for context, lines in file.execute(bits):
                sizes[_test(context)] += int.from_bytes(lines).bit_count()
        return sizes


def _test(context: str) -> str:
    """A context is a test and its phase."""
    return context.rpartition("|")[0]
