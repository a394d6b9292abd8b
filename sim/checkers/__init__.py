"""Invariants of a played order, checked with its history alone.

Each check takes the records of one order and the settings that the scenario gives, and returns the violations as
texts that name the transaction, table and nodes. No check uses the scenario, a database, or expected outcomes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from twopc.sim.checkers.atomic import atomic, prepared_left
from twopc.sim.checkers.deliveries import each_change_applied_once, echoed
from twopc.sim.checkers.merge_changes import nothing_lost
from twopc.sim.checkers.records import LAST_SYNC, Check, is_cut, states
from twopc.sim.checkers.rows import (
    converged,
    no_lost_update,
    no_rows,
    sums,
    versions_move_forward,
)
from twopc.sim.report.history import HistoryRecord

__all__ = [
    "CHECKS",
    "DEFAULTS",
    "LAST_SYNC",
    "OF_MERGE",
    "Check",
    "atomic",
    "converged",
    "defaults",
    "each_change_applied_once",
    "echoed",
    "no_lost_update",
    "no_rows",
    "nothing_lost",
    "prepared_left",
    "sums",
    "unjudged",
    "versions_move_forward",
]

#: Checks by their names in scenarios.
CHECKS: Mapping[str, Check] = {
    "atomic": atomic,
    "prepared_left": prepared_left,
    "versions_move_forward": versions_move_forward,
    "converged": converged,
    "echoed": echoed,
    "no_lost_update": no_lost_update,
    "each_change_applied_once": each_change_applied_once,
    "nothing_lost": nothing_lost,
    "sum": sums,
    "sql": no_rows,
}
#: Default invariants where Subscribers' changes are propagated to the Publisher.
DEFAULTS = ("atomic", "prepared_left", "versions_move_forward", "converged", "echoed")
#: Default invariants of merge replication.
OF_MERGE = ("converged", "nothing_lost")


def defaults(*, merges: bool) -> tuple[str, ...]:
    """Return the names of the invariants that hold for every order unless the scenario says otherwise."""
    return OF_MERGE if merges else DEFAULTS


#: Checks that compare single rows; the others use sums and digests, which cover rows that the history has not kept.
_OF_ROWS = frozenset(
    {"versions_move_forward", "no_lost_update", "each_change_applied_once", "nothing_lost"}
)


def unjudged(names: Collection[str], records: Sequence[HistoryRecord]) -> str:
    """Return which of these checks have not seen every row, and of which tables; empty if each has."""
    known = [name for name in names if name in _OF_ROWS]
    counts: dict[str, int] = {}
    for _, table, _, record in states(records):
        if is_cut(record):
            counts[table] = max(counts.get(table, 0), record.rowcount or 0)
    if not known or not counts:
        return ""
    tables = ", ".join(f"{table} has {count} rows" for table, count in counts.items())
    return f"not judged: {', '.join(known)} ({tables}, of which only the first are kept)"
