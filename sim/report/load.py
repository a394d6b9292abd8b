"""What a load came to, in words and as a table: a pure function of its records.

Whoever plays a load writes its figures in one record of kind ``load``; what they are, `twopc.sim.workload.figures` says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twopc.sim.report.history import HistoryRecord

#: How the latencies are called for a reader.
TIMED = {
    "commit": "commit",
    "conflict": "refusal",
    "in_doubt": "prepared, in doubt",
    "sync": "sync",
}


def of(records: Sequence[HistoryRecord]) -> dict[str, Any]:
    """The figures of the load among the records; empty if there is none."""
    for record in reversed(records):
        if record.kind == "load":
            return dict(record.data or {})
    return {}


def in_short(told: Mapping[str, Any]) -> str:
    """One line: ``1,204 committed, 8.3% rejected, 240 per second, commit p99 12.4 ms``."""
    counts = told["counts"]
    said = [f"{counts['committed']:,} committed", f"{share(told, 'rejected')} rejected"]
    said += [f"{counts[kind]:,} {word}" for kind, word in _RARE if counts[kind]]
    if told["seconds"]:
        said.append(f"{counts['committed'] / told['seconds']:,.0f} per second")
    commit = told["latencies_ms"].get("commit")
    if commit:
        said.append(f"commit p50 {commit['p50']:.3g} ms, p99 {commit['p99']:.3g} ms")
    return ", ".join(said)


_RARE = (("error", "errors"), ("in_doubt", "in doubt"), ("dropped", "dropped"))


def share(told: Mapping[str, Any], kind: str) -> str:
    """How much of all attempts ended so, in percent."""
    attempts = told["counts"]["attempts"]
    return f"{100 * told['counts'][kind] / attempts:.1f}%" if attempts else "0%"


def lines(told: Mapping[str, Any]) -> list[str]:
    """The figures as a table of text."""
    counts = told["counts"]
    found = [
        f"{counts['transactions']:,} transactions in {told['seconds']:.2f} s: "
        f"{counts['attempts']:,} attempts, {counts['committed']:,} committed, "
        f"{counts['retries']:,} tried again, {counts['given_up']:,} given up",
    ]
    for word, key in (("rejected", "rejected"), ("errors", "errors")):
        if told[key]:
            kinds = ", ".join(f"{kind or 'lost'} {number:,}" for kind, number in told[key].items())
            found.append(f"{word}: {kinds}")
    if counts["dropped"]:
        found.append(f"dropped: {counts['dropped']:,} were to begin when no client was free")
    found += table(told["latencies_ms"])
    for each in told.get("thresholds", ()):
        measured = each["measured"] or "nothing to measure"
        found.append(f"{'✓' if each['kept'] else '✗'} {each['bound']}   ({measured})")
    return found


def sentences(told: Mapping[str, Any]) -> list[str]:
    """The figures for somebody who reads no tables."""
    counts, latencies = told["counts"], told["latencies_ms"]
    found = [
        f"{counts['transactions']:,} transactions were to begin within {told['seconds']:.1f} seconds, and "
        f"{counts['committed']:,} of them committed.",
        f"Of {counts['attempts']:,} attempts {share(told, 'rejected')} were refused; {counts['retries']:,} "
        "times a client tried again.",
    ]
    if counts["dropped"]:
        found.append(
            f"{counts['dropped']:,} did not begin, because no client was free to begin them."
        )
    if counts["error"]:
        found.append(f"{counts['error']:,} failed, most because a node was gone.")
    if counts["in_doubt"]:
        found.append(f"Of {counts['in_doubt']:,} the outcome was not known at once.")
    if "commit" in latencies:
        commit = latencies["commit"]
        found.append(
            f"Half of the commits were there within {commit['p50']:.3g} ms, 99 of 100 within "
            f"{commit['p99']:.3g} ms."
        )
    return found


def table(latencies: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Latencies in columns."""
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
