"""Which tests execute a line of the product, as recorded by a run of the tests under coverage.

Processes that a test starts are not recorded, and code that modules execute when they are imported belongs to no test.
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
        """Return the tests that execute a line, or the nearest earlier line that any test executes.

        Quick tests come first, then those that execute few other lines.
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
        """Return the tests of each line that any test executes."""
        lines = {}
        for line, contexts in self._data.contexts_by_lineno(path).items():
            tests = {_test(context) for context in contexts if context}
            if tests:
                lines[line] = tests
        return lines

    @functools.cached_property
    def _sizes(self) -> Counter[str]:
        """How many lines each test executes.

        Counted in the file itself, since reading the tests of all lines takes minutes.
        """
        sizes: Counter[str] = Counter()
        with closing(sqlite3.connect(self._recorded)) as file:
            bits = "select context, numbits from line_bits join context on context.id = context_id"
            for context, lines in file.execute(bits):
                sizes[_test(context)] += int.from_bytes(lines).bit_count()
        return sizes


def _test(context: str) -> str:
    """Return the test of a context, which consists of a test and its phase."""
    return context.rpartition("|")[0]
