"""The verdict on a run, from its history alone: the verdicts on its orders, combined.

Orders that were generated from one name, its cells and its repeats are also judged together, as a group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twopc.sim.report.event_records import header_of
from twopc.sim.report.groups import groups
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.judgement import EXIT_CODES, Verdict, order_verdict, word, worst

__all__ = [
    "EXIT_CODES",
    "SCHEMA",
    "Verdict",
    "assemble",
    "order_verdict",
    "verdict",
    "word",
    "worst",
]

#: Changes when a reader of the previous version could misread a verdict.
SCHEMA = 1


def verdict(records: Sequence[HistoryRecord]) -> Verdict:
    """Return the content of ``verdict.json``."""
    every = groups(records)
    orders = sorted(
        (order for group in every for order in group.orders), key=lambda each: each.records[0].seq
    )
    return assemble(
        header_of(records),
        [order.verdict for order in orders],
        [group.verdict() for group in every],
    )


def assemble(
    header: Mapping[str, Any], orders: Sequence[Verdict], groups: Sequence[Verdict] = ()
) -> Verdict:
    """Return the verdict on a run from its header and the verdicts on its orders and groups."""
    failed = [order for order in orders if order["kind"]]
    wrong = [{"message": each["notes"], "kind": each["kind"]} for each in groups if each["kind"]]
    kind = worst([each["kind"] or "" for each in (*orders, *groups)])
    if not orders and not kind:
        kind = "unplayed"
    report: Verdict = {
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
        "first_failure": failed[0]["failures"][0] if failed else next(iter(wrong), None),
        "repro": failed[0]["repro"] if failed else None,
    }
    if groups:
        report["groups"] = list(groups)
    if "seed" in header:
        report["seed"] = header["seed"]
    return report
