"""The verdict on one order from its records, and the severity of kinds of failure.

The code that plays an order records its verdict (a record of kind ``verdict``). This module does not know what an
order was expected to do. A history that breaks off has orders without a verdict, which are reported as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twopc.sim.report.event_records import select
from twopc.sim.report.events import OrderJudgement
from twopc.sim.report.history import HistoryRecord

#: The kinds of failure of an order or a run, the worst first, with their exit codes. ``unfinished``:
#: the history breaks off; ``unstable``: an order that was repeated did not always go the same way;
#: ``unplayed``: nothing was played, as of a run whose only twin had to be skipped.
EXIT_CODES: Mapping[str, int] = {
    "safety": 1,
    "liveness": 6,
    "threshold": 7,
    "unstable": 3,
    "unfinished": 3,
    "unknown": 3,
    "unplayed": 5,
    "": 0,
}
_WORDS = {
    "": "pass",
    "unknown": "unknown",
    "unfinished": "unknown",
    "unstable": "unknown",
    "unplayed": "unknown",
}

Verdict = dict[str, Any]


def word(kind: str) -> str:
    """Return ``pass``, ``fail`` or ``unknown`` for a kind of failure."""
    return _WORDS.get(kind, "fail")


def worst(kinds: Sequence[str]) -> str:
    """Return the worst of several kinds of failure; empty if there is none."""
    return min(kinds, key=list(EXIT_CODES).index, default="")


def order_verdict(records: Sequence[HistoryRecord]) -> Verdict:
    """Return the verdict on one order from its records."""
    judged = next(select(reversed(records), OrderJudgement), None)
    if judged is not None:
        return dict(judged.verdict)
    playing = [record.t_us for record in records if record.session]
    return {
        "name": records[0].order,
        "verdict": word("unfinished"),
        "kind": "unfinished",
        "elapsed_ms": (playing[-1] - playing[0]) / 1000 if playing else 0.0,
        "notes": [],
        "failures": [{"message": "the history ends before its verdict", "kind": "unfinished"}],
        "repro": None,
    }
