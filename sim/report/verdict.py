"""The verdict of a run, from its history alone.

Whoever plays an order writes how it was judged (a record of kind ``verdict``); here those records are
put together. What an order was expected to do is not known here. A history that breaks off has orders
without a verdict: nobody knows about them, and so it is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sim.report.history import Record, by_order

#: Changes when a reader of the previous version could misread a verdict.
SCHEMA = 1
#: What can be wrong with an order or a run, the worst first, and the exit code for it. ``unfinished``:
#: the history breaks off.
EXIT_CODES: Mapping[str, int] = {"safety": 1, "liveness": 6, "unfinished": 3, "unknown": 3, "": 0}
_WORDS = {"": "pass", "unknown": "unknown", "unfinished": "unknown"}

Verdict = dict[str, Any]


def word(kind: str) -> str:
    """``pass``, ``fail`` or ``unknown``, for a kind of failure."""
    return _WORDS.get(kind, "fail")


def worst(kinds: Sequence[str]) -> str:
    """The worst of several kinds of failure; empty if there is none."""
    return min(kinds, key=list(EXIT_CODES).index, default="")


def verdict(records: Sequence[Record]) -> Verdict:
    """What stands in ``verdict.json``."""
    header = records[0].data or {} if records else {}
    return assemble(header, [order_verdict(of) for _, of in by_order(records)])


def order_verdict(records: Sequence[Record]) -> Verdict:
    """The part about one order, of its records."""
    for record in reversed(records):
        if record.kind == "verdict":
            return dict(record.data or {})
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


def assemble(header: Mapping[str, Any], orders: Sequence[Verdict]) -> Verdict:
    """The verdict of a run, of what its header says and what became of each order."""
    failed = [order for order in orders if order["kind"]]
    kind = worst([order["kind"] or "" for order in orders])
    return {
        "schema": SCHEMA,
        "scenario": header.get("scenario", ""),
        "file": header.get("file", ""),
        "verdict": word(kind),
        "kind": kind or None,
        "exit_code": EXIT_CODES[kind],
        "invariants": list(header.get("invariants", ())),
        "counts": {
            "orders": len(orders),
            "passed": len(orders) - len(failed),
            "failed": len(failed),
        },
        "orders": list(orders),
        "first_failure": failed[0]["failures"][0] if failed else None,
        "repro": failed[0]["repro"] if failed else None,
    }
