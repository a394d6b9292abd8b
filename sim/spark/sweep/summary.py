"""Summary of a sweep: counts and merged histograms for each point of its grid, never averaged percentiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hdrh.histogram import HdrHistogram

from twopc.sim.report.judgement import EXIT_CODES
from twopc.sim.spark.sweep.grid import Point
from twopc.sim.spark.sweep.trial import BROKEN, add

PERCENTILES = (50.0, 99.0, 99.9)
_COUNTED = ("committed", "rejected", "errors", "in_doubt", "attempts")
_TIMED = ("commit", "in_doubt", "conflict")
#: Number of failed trials that are shown; all of them are in the results.
FAILURES_SHOWN = 20


@dataclass(slots=True)
class PointSummary:
    """Totals of all trials of one point."""

    point: Point
    trials: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    virtual_s: float = 0.0
    wall_s: float = 0.0
    histograms: dict[str, HdrHistogram] = field(default_factory=dict)

    def take(self, row: Mapping[str, Any]) -> None:
        """Add a trial."""
        self.trials += 1
        self.verdicts[row["verdict"]] += 1
        self.counts.update({name: row[name] or 0 for name in _COUNTED})
        self.virtual_s += row["virtual_s"] or 0.0
        self.wall_s += row["wall_s"] or 0.0
        for name in _TIMED:
            if row[f"{name}_hdr"]:
                add(self.histograms, name, row[f"{name}_hdr"])

    @property
    def conflict_rate(self) -> float | None:
        """Rejected attempts divided by all attempts."""
        attempts = self.counts["attempts"]
        return self.counts["rejected"] / attempts if attempts else None

    @property
    def committed_per_s(self) -> float | None:
        """Committed transactions per second of virtual time."""
        return self.counts["committed"] / self.virtual_s if self.virtual_s else None

    def latency_ms(self, what: str, percentile: float) -> float | None:
        """Return a percentile of the latencies of all trials; None if nothing was timed."""
        histogram = self.histograms.get(what)
        if histogram is None or not histogram.get_total_count():
            return None
        return float(histogram.get_value_at_percentile(percentile)) / 1000

    def shown_ms(self, what: str, percentile: float) -> str:
        """Return a percentile of the latencies as text."""
        value = self.latency_ms(what, percentile)
        return "–" if value is None else f"{value:.3g} ms"

    def shown_rate(self) -> str:
        """Return the committed transactions per second as text."""
        return "–" if self.committed_per_s is None else f"{self.committed_per_s:,.0f}"

    def as_json(self) -> dict[str, Any]:
        """Return the totals as JSON for tools."""
        return {
            "settings": dict(self.point.settings),
            "trials": self.trials,
            "verdicts": dict(self.verdicts),
            **{name: self.counts[name] for name in _COUNTED},
            "conflict_rate": self.conflict_rate,
            "committed_per_s": self.committed_per_s,
            "virtual_s": round(self.virtual_s, 6),
            "latencies_ms": {
                what: {f"p{each:g}": self.latency_ms(what, each) for each in PERCENTILES}
                for what in _TIMED
                if what in self.histograms
            },
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Summary of a sweep."""

    points: tuple[PointSummary, ...]
    failures: tuple[Mapping[str, Any], ...]
    """The first rows of trials that did not pass, by point and seed."""
    failed: int
    exit_code: int
    """Exit code of the worst verdict: `twopc.sim.report.judgement.EXIT_CODES`, or 70 if a trial broke off."""
    missing: int = 0
    """Number of requested trials that were not played."""

    @property
    def trials(self) -> int:
        """Number of trials."""
        return sum(each.trials for each in self.points)

    @property
    def cpu_s(self) -> float:
        """Total duration of the trials, over all cores."""
        return sum(each.wall_s for each in self.points)


def summarised(
    points: Sequence[Point], rows: Iterable[Mapping[str, Any]], *, expected: int = 0
) -> Summary:
    """Return the summary of all results.

    Args:
        expected: number of requested trials.
    """
    result = [PointSummary(point) for point in points]
    failing: list[Mapping[str, Any]] = []
    kinds = set[str]()
    for row in rows:
        result[row["point"]].take(row)
        kinds.add(row["kind"])
        if row["kind"]:
            failing.append({name: row[name] for name in _TOLD})
    failing.sort(key=lambda row: (row["point"], row["seed"]))
    codes = [70 if kind == BROKEN else EXIT_CODES[kind] for kind in kinds]
    return Summary(
        points=tuple(result),
        failures=tuple(failing[:FAILURES_SHOWN]),
        failed=len(failing),
        exit_code=min(codes, key=_WORST.index, default=0),
        missing=max(0, expected - sum(each.trials for each in result)),
    )


_TOLD = ("point", "seed", "parameters", "verdict", "kind", "failure", "repro")
_WORST = (70, *EXIT_CODES.values())


def table(summary: Summary) -> list[str]:
    """Return the points as lines of text in columns."""
    keys = [key for key, _ in summary.points[0].point.settings]
    heads = [*keys, "trials", "ok", "conflict rate", "commit p50", "p99", "in doubt p99", "committed/s"]  # fmt: skip
    rows = [
        [
            *(value for _, value in each.point.settings),
            f"{each.trials:,}",
            f"{each.verdicts['pass']:,}",
            "–" if each.conflict_rate is None else f"{100 * each.conflict_rate:.1f} %",
            each.shown_ms("commit", 50),
            each.shown_ms("commit", 99),
            each.shown_ms("in_doubt", 99),
            each.shown_rate(),
        ]
        for each in summary.points
    ]
    return aligned([heads, *rows])


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows as lines of text, with their cells in columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
