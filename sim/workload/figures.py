"""Figures of a load, collected while it runs: outcomes by kind, latencies, and both over time.

Every attempt is counted, whether it is retried or not. Latency is measured from the moment at which the transaction
was due to begin, so that time spent waiting for a free client is included.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hdrh.histogram import HdrHistogram

from twopc.sim.workload.ports import COMMITTED, ERROR, IN_DOUBT, REJECTED, AttemptOutcome

#: Latencies are kept in microseconds, up to an hour, to three digits.
_MAX_US = 3_600_000_000
_DIGITS = 3
#: Number of intervals into which `Figures.series` divides a load.
STRETCHES = 40
PERCENTILES = (50.0, 90.0, 99.0, 99.9)
#: Names of the histograms: see `Figures.histograms`.
TIMED = ("commit", "conflict", "in_doubt", "sync")


class Figures:
    """The figures of one load.

    Args:
        warmup_s: transactions that begin earlier than this, in seconds since the load began, are not counted.
    """

    def __init__(self, warmup_s: float = 0.0) -> None:
        self._warmup_s = warmup_s
        self.histograms = {name: HdrHistogram(1, _MAX_US, _DIGITS) for name in TIMED}
        """Latencies by name. ``commit``: from when a transaction was due to begin until its client learned of the
        commit; ``conflict``: from the start of an attempt until its client learned of the refusal; ``in_doubt``:
        how long a transaction's branches were prepared without knowing its outcome; ``sync``: the duration of
        each synchronisation.
        """
        self._counts: Counter[str] = Counter()
        self._why: dict[str, Counter[str]] = {REJECTED: Counter(), ERROR: Counter()}
        self._points: list[tuple[float, str, float]] = []
        """For each attempt: the time of its end, its outcome, and the latency in seconds if it committed."""
        self.seconds = 0.0
        """Seconds from the end of the warm-up until the last client finished."""

    def counts(self, began_s: float) -> bool:
        """Return whether a transaction that began at this time is counted."""
        return began_s >= self._warmup_s

    def started(self, began_s: float, *, dropped: bool = False) -> None:
        """Count a transaction that was due to begin; `dropped` if no client was free to begin it."""
        if self.counts(began_s):
            self._counts["transactions"] += 1
            self._counts["dropped"] += dropped

    def attempt(
        self,
        ended: AttemptOutcome,
        *,
        intended_s: float,
        began_s: float,
        now_s: float,
        is_retry: bool,
    ) -> None:
        """Count an attempt that has ended.

        Args:
            intended_s: when its transaction was due to begin for the first time.
            began_s: when this attempt began.
            is_retry: whether the transaction will be retried.
        """
        if not self.counts(intended_s):
            return
        self._counts["attempts"] += 1
        self._counts[{COMMITTED: "committed"}.get(ended.kind, ended.kind)] += 1
        latency = 0.0
        if ended.kind == COMMITTED:
            latency = now_s - intended_s
            self.time("commit", latency)
        elif ended.kind in self._why:
            self._why[ended.kind][ended.why] += 1
            if ended.kind == REJECTED:
                self.time("conflict", now_s - began_s)
            self._counts["retries" if is_retry else "given_up"] += 1
        self._points.append((now_s, ended.kind, latency))

    def synced(self, seconds: float, *, failed: bool = False) -> None:
        """Count a synchronisation of Subscribers that has succeeded or failed."""
        self._counts["sync_failures" if failed else "syncs"] += 1
        if not failed:
            self.time("sync", seconds)

    def time(self, what: str, seconds: float) -> None:
        """Record a latency in the named histogram."""
        self.histograms[what].record_value(min(max(1, round(seconds * 1e6)), _MAX_US))

    # -- results -----------------------------------------------------------------------------------

    def as_record(self) -> dict[str, Any]:
        """Return all figures as the data of a history record."""
        return {
            "seconds": round(self.seconds, 6),
            "counts": {name: self._counts[name] for name in _COUNTED},
            "rejected": dict(sorted(self._why[REJECTED].items())),
            "errors": dict(sorted(self._why[ERROR].items())),
            "latencies_ms": {
                name: _summary(each)
                for name, each in self.histograms.items()
                if each.get_total_count()
            },
            "histograms": {
                name: each.encode().decode()
                for name, each in self.histograms.items()
                if each.get_total_count()
            },
            "series": self.series(),
        }

    def series(self) -> list[dict[str, float]]:
        """Return the figures of each interval of the load: its start, and counts, outcomes and latencies of
        attempts.
        """
        end_s = max((at for at, *_ in self._points), default=0.0)
        width = (end_s - self._warmup_s) / STRETCHES
        if width <= 0:
            return []
        stretches: list[list[tuple[str, float]]] = [[] for _ in range(STRETCHES)]
        for at, kind, latency in self._points:
            place = min(int((at - self._warmup_s) / width), STRETCHES - 1)
            stretches[place].append((kind, latency))
        return [
            _stretch(self._warmup_s + place * width, width, of)
            for place, of in enumerate(stretches)
        ]

    def measure(self, metric: str, unit: str) -> float | None:
        """Return a figure by its name in a threshold, in the given unit; None if there are no data."""
        *name, last = metric.split(".")
        if len(name) > 1 and name[1] == "latency":
            # pN.N is split at its dot
            return self._latency(name[0], ".".join((*name[2:], last)), unit)
        kind, _, why = ".".join(name).partition(".")
        number = self._why[_WITH_REASONS[kind]][why] if why else self._counts[kind]
        if last == "count":
            return float(number)
        if unit == "/s":
            return number / self.seconds if self.seconds else None
        whole = self._counts["transactions" if kind in _OF_STARTS else "attempts"]
        return 100 * number / whole if whole else None

    def _latency(self, what: str, which: str, unit: str) -> float | None:
        histogram = self.histograms[what]
        if not histogram.get_total_count():
            return None
        if which == "mean":
            result = histogram.get_mean_value()
        elif which == "max":
            result = histogram.get_max_value()
        else:
            result = histogram.get_value_at_percentile(float(which[1:]))
        return float(result) / (1e6 if unit == "s" else 1e3)


_COUNTED = (
    "transactions", "attempts", "committed", "rejected", "error", "in_doubt", "retries", "given_up",
    "dropped", "syncs", "sync_failures",
)  # fmt: skip
_WITH_REASONS = {"rejected": REJECTED, "error": ERROR}
#: Figures whose share refers to the transactions that were due to begin; all others refer to the attempts.
_OF_STARTS = frozenset({"transactions", "dropped", "given_up"})
assert IN_DOUBT in _COUNTED


def _summary(histogram: HdrHistogram) -> dict[str, float]:
    """Return the count, mean, percentiles and maximum, in milliseconds."""
    results = {"count": histogram.get_total_count(), "mean": histogram.get_mean_value() / 1000}
    for percentile in PERCENTILES:
        results[f"p{percentile:g}"] = histogram.get_value_at_percentile(percentile) / 1000
    results["max"] = histogram.get_max_value() / 1000
    return {name: round(value, 3) for name, value in results.items()}


def _stretch(at_s: float, width_s: float, of: Sequence[tuple[str, float]]) -> dict[str, float]:
    latencies = sorted(latency for kind, latency in of if kind == COMMITTED)
    kinds: Mapping[str, int] = Counter(kind for kind, _ in of)
    report = {
        "at_s": at_s,
        "attempts": len(of),
        "committed": len(latencies),
        "rejected": kinds.get(REJECTED, 0),
        "errors": kinds.get(ERROR, 0) + kinds.get(IN_DOUBT, 0),
        "committed_per_s": len(latencies) / width_s,
    }
    if latencies:
        report["p50_ms"] = _rank(latencies, 0.5) * 1000
        report["p99_ms"] = _rank(latencies, 0.99) * 1000
    return {name: round(value, 3) for name, value in report.items()}


def _rank(ordered: Sequence[float], share: float) -> float:
    """Return the value at or below which this share of the ordered values lies."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]
