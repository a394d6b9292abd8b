"""Report the ages of waits when they were recorded: ``python -m tests.scenario.waiting DIR``.

DIR holds runs, as ``.twopc/runs`` does; play the catalogue on an idle machine first. Exit code 1:
more than 5 % of the waits were recorded later than 20 ms after they had begun.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from twopc.sim.report.history import HistoryRecord, read

LATE_US = 20_000
"""Maximum age at which 95 % of all waits must be recorded."""


def told_after_us(records: Iterable[HistoryRecord]) -> list[int]:
    """Return the age of each wait when it was recorded, in ascending order."""
    found = [
        (record.data or {}).get("seen_after_us") for record in records if record.kind == "blocked"
    ]
    return sorted(each for each in found if each)


def percentile(values: list[int], percent: int) -> int:
    """Return the smallest of sorted values that `percent` % of them do not exceed."""
    return values[max(0, -(-len(values) * percent // 100) - 1)]


def main(directory: str) -> int:
    """Print the median, the 95th percentile and the maximum; return the exit code."""
    every = sorted(
        value
        for path in Path(directory).rglob("history.jsonl")
        if not path.parent.is_symlink()
        for value in told_after_us(read(path))
    )
    if not every:
        sys.stdout.write(f"{directory}: nobody has waited\n")
        return 1
    late = percentile(every, 95)
    sys.stdout.write(
        f"{len(every)} waits, told after {percentile(every, 50) / 1000:.1f} ms (median), "
        f"{late / 1000:.1f} ms (95 %), {every[-1] / 1000:.1f} ms (the last)\n"
    )
    return int(late > LATE_US)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
