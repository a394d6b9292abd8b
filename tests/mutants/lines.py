"""Which tests run a line of the product: what a run of the tests under coverage has recorded.

What a test starts as a process of its own is not seen, and what modules do when they are imported belongs to no test.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from coverage import CoverageData

from tests.fix_slow import DURATIONS, function_of, read_durations


class Lines:
    """The tests of each line, as ``pytest --cov --cov-context=test`` has recorded them in a file."""

    def __init__(self, root: Path, recorded: Path) -> None:
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
        """Each line that a test runs; a context is a test and its phase."""
        lines = {}
        for line, contexts in self._data.contexts_by_lineno(path).items():
            tests = {context.rpartition("|")[0] for context in contexts if context}
            if tests:
                lines[line] = tests
        return lines

    @functools.cached_property
    def _sizes(self) -> Counter[str]:
        """How many lines each test runs."""
        sizes: Counter[str] = Counter()
        for path in self._data.measured_files():
            for tests in self._by_line(path).values():
                sizes.update(tests)
        return sizes
