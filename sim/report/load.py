"""The figures of a load, in words and as a table: a pure function of its records.

The code that plays a load writes the figures in one record of kind ``load``; `twopc.sim.workload.figures` defines
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twopc.sim.report.event_records import select
from twopc.sim.report.events import LoadFigures
from twopc.sim.report.history import HistoryRecord

#: Names of the latencies in reports.
TIMED = {
    "commit": "commit",
    "conflict": "refusal",
    "in_doubt": "prepared, in doubt",
    "sync": "sync",
}


def of(records: Sequence[HistoryRecord]) -> dict[str, Any]:
    """Return the figures of the load among the records; empty if there is none."""
    measured = next(select(reversed(records), LoadFigures), None)
    return dict(measured.figures) if measured is not None else {}


def in_short(report: Mapping[str, Any]) -> str:
    """Return the figures in one line: ``1,204 committed, 8.3% rejected, 240 per second, commit p99 12.4 ms``."""
    counts = report["counts"]
    lines = [f"{counts['committed']:,} committed", f"{share(report, counts['rejected'])} rejected"]
    lines += [f"{counts[kind]:,} {word}" for kind, word in _RARE if counts[kind]]
    if report["seconds"]:
        lines.append(f"{counts['committed'] / report['seconds']:,.0f} per second")
    commit = report["latencies_ms"].get("commit")
    if commit:
        lines.append(f"commit p50 {commit['p50']:.3g} ms, p99 {commit['p99']:.3g} ms")
    return ", ".join(lines)


_RARE = (("error", "errors"), ("in_doubt", "in doubt"), ("dropped", "dropped"))


def share(report: Mapping[str, Any], number: int) -> str:
    """Return a number of attempts as a share of all, in percent."""
    attempts = report["counts"]["attempts"]
    return f"{100 * number / attempts:.1f}%" if attempts else "0%"


def lines(report: Mapping[str, Any]) -> list[str]:
    """Return the figures as a table of text."""
    counts = report["counts"]
    results = [
        f"{counts['transactions']:,} transactions in {report['seconds']:.2f} s: "
        f"{counts['attempts']:,} attempts, {counts['committed']:,} committed, "
        f"{counts['retries']:,} tried again, {counts['given_up']:,} given up",
    ]
    for word, key in (("rejected", "rejected"), ("errors", "errors")):
        if report[key]:
            kinds = ", ".join(
                f"{kind or 'lost'} {number:,}" for kind, number in report[key].items()
            )
            results.append(f"{word}: {kinds}")
    if counts["dropped"]:
        results.append(f"dropped: {counts['dropped']:,} were to begin when no client was free")
    results += table(report["latencies_ms"])
    for each in report.get("thresholds", ()):
        measured = each["measured"] or "nothing to measure"
        results.append(f"{'✓' if each['kept'] else '✗'} {each['bound']}   ({measured})")
    return results


def sentences(report: Mapping[str, Any]) -> list[str]:
    """Return the figures in sentences."""
    counts, latencies = report["counts"], report["latencies_ms"]
    results = [
        f"{counts['transactions']:,} transactions were to begin within {report['seconds']:.1f} seconds, and "
        f"{counts['committed']:,} of them committed.",
        f"Of {counts['attempts']:,} attempts {share(report, counts['rejected'])} were refused; {counts['retries']:,} "
        "times a client tried again.",
    ]
    if counts["dropped"]:
        results.append(
            f"{counts['dropped']:,} did not begin, because no client was free to begin them."
        )
    if counts["error"]:
        results.append(f"{counts['error']:,} failed, most because a node was gone.")
    if counts["in_doubt"]:
        results.append(f"Of {counts['in_doubt']:,} the outcome was not known at once.")
    if "commit" in latencies:
        commit = latencies["commit"]
        results.append(
            f"Half of the commits were there within {commit['p50']:.3g} ms, 99 of 100 within "
            f"{commit['p99']:.3g} ms."
        )
    return results


def table(latencies: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the latencies in columns."""
    if not latencies:
        return []
    columns = list(next(iter(latencies.values())))
    rows = [["latency (ms)", *columns]]
    rows += [
        [TIMED.get(name, name), *(_number(each[column], column) for column in columns)]
        for name, each in latencies.items()
    ]
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        "  ".join(
            [row[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        )
        for row in rows
    ]


def _number(value: float, column: str) -> str:
    return f"{value:,.0f}" if column == "count" else f"{value:,.2f}"
