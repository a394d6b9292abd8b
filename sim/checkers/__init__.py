"""Invariants of a played order, judged from its history alone.

Each check takes the records of one order and what the scenario says of it, and returns what is broken,
in words that name the transaction, table and nodes. None knows the scenario, a database, or what was
expected.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from twopc.sim.checkers.atomic import atomic, prepared_left
from twopc.sim.checkers.deliveries import each_change_applied_once, echoed
from twopc.sim.checkers.lost_updates import no_lost_update
from twopc.sim.checkers.merge_changes import nothing_lost
from twopc.sim.checkers.records import LAST_SYNC, Check, is_cut, states
from twopc.sim.checkers.rows import converged, no_rows, sums, versions_move_forward
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

#: By the names under which scenarios speak of them.
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
#: Those that hold for every order that does not say otherwise, where Subscribers' changes go to the Publisher.
DEFAULTS = ("atomic", "prepared_left", "versions_move_forward", "converged", "echoed")
#: Likewise where changes are merged.
OF_MERGE = ("converged", "nothing_lost")


def defaults(*, merges: bool) -> tuple[str, ...]:
    """The invariants that hold for every order that does not say otherwise."""
    return OF_MERGE if merges else DEFAULTS


#: Those that go by single rows; the others know what they need of rows that are not kept: sums, and digests.
_OF_ROWS = frozenset(
    {"versions_move_forward", "no_lost_update", "each_change_applied_once", "nothing_lost"}
)


def unjudged(names: Collection[str], records: Sequence[HistoryRecord]) -> str:
    """Which of these checks have not seen every row, and of which tables; empty: each has."""
    known = [name for name in names if name in _OF_ROWS]
    counts: dict[str, int] = {}
    for _, table, _, record in states(records):
        if is_cut(record):
            counts[table] = max(counts.get(table, 0), record.rowcount or 0)
    if not known or not counts:
        return ""
    tables = ", ".join(f"{table} has {count} rows" for table, count in counts.items())
    return f"not judged: {', '.join(known)} ({tables}, of which only the first are kept)"
