"""The cost of merge replication, and the speed of a session: ``python -m benchmarks.merge``.

Tracking is compared with the same table with only its column `rowguid`, and with a usual row trigger; sessions are
compared with PostgreSQL's logical replication, and with two usual loops: rows updated since the last time, by a
column `updated_at`, are written with executemany, or by COPY into a temporary table. The loops resolve no conflicts,
and miss deletions and late commits. Contents must be equal at the end, or the run is void.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable

from benchmarks import (
    merge_partitions,
    merge_rounds,
    merge_sessions,
    merge_snapshots,
    merge_tracking,
)
from benchmarks.figures import Figure, add_only, report, selected


async def main() -> None:
    """Measure, and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000, help="changed by a statement")
    parser.add_argument("--commits", type=int, default=20_000, help="of writers beside sessions")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--histories", type=int, default=10_000, help="drawn, in memory")
    add_only(parser)
    chosen = parser.parse_args()
    measures: dict[tuple[str, ...], Callable[[], Awaitable[list[Figure]]]] = {
        ("merge_track",): lambda: merge_tracking.tracking(chosen.rows, chosen.rounds),
        ("merge_track_one_row",): lambda: merge_tracking.one_row(chosen.rounds),
        ("merge_close", "merge_enumerate"): lambda: merge_tracking.closing(
            10 * chosen.rows, chosen.rounds
        ),
        ("merge_missed",): lambda: merge_tracking.missed(chosen.commits),
        ("merge_download", "merge_upload"): lambda: merge_sessions.speed(
            chosen.rows, chosen.rounds
        ),
        ("merge_idle_session",): merge_sessions.idle,
        ("merge_partition",): lambda: merge_partitions.sessions(chosen.rows, chosen.rounds),
        ("merge_evaluate", "merge_new_partition"): lambda: merge_partitions.closing(
            chosen.rows, chosen.rounds
        ),
        ("merge_snapshot_apply",): lambda: merge_snapshots.apply(10 * chosen.rows, chosen.rounds),
        ("merge_resume",): lambda: merge_snapshots.resume(chosen.rows),
        ("merge_on_demand",): lambda: merge_snapshots.on_demand(chosen.rows, chosen.rounds),
        ("merge_rounds",): lambda: merge_rounds.rounds(chosen.histories),
    }
    wanted = selected(parser, chosen.only, [name for names in measures for name in names])
    figures: list[Figure] = []
    for names, measure in measures.items():
        if any(name in wanted for name in names):
            figures += await measure()
    report("merge replication", figures)


if __name__ == "__main__":
    asyncio.run(main())
