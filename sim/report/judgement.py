"""How one order was judged, from its records, and what is worse than what.

Whoever plays an order writes how it was judged (a record of kind ``verdict``). What an order was expected
to do is not known here. A history that breaks off has orders without a verdict: nobody knows about them,
and so it is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twopc.sim.report.event_records import select
from twopc.sim.report.events import OrderJudgement
from twopc.sim.report.history import HistoryRecord

#: What can be wrong with an order or a run, the worst first, and the exit code for it. ``unfinished``:
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
    """``pass``, ``fail`` or ``unknown``, for a kind of failure."""
    return _WORDS.get(kind, "fail")


def worst(kinds: Sequence[str]) -> str:
    """The worst of several kinds of failure; empty if there is none."""
    return min(kinds, key=list(EXIT_CODES).index, default="")


def order_verdict(records: Sequence[HistoryRecord]) -> Verdict:
    """The part about one order, of its records."""
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
