"""Counts and times of a load, and their comparison with thresholds."""

from __future__ import annotations

import pytest
from hdrh.histogram import HdrHistogram

from twopc.sim.report.load import in_short, lines
from twopc.sim.scenario.workload import Threshold
from twopc.sim.workload.figures import STRETCHES, Figures
from twopc.sim.workload.load_play import compared
from twopc.sim.workload.ports import AttemptOutcome


def some() -> Figures:
    """Return the figures of ten transactions.

    Seven commit at once, two at the second attempt, one never.
    """
    figures = Figures(warmup_s=1.0)
    committed, refused = (
        AttemptOutcome(kind="ok"),
        AttemptOutcome(kind="rejected", why="version_mismatch"),
    )
    for number in range(10):
        at = 1.0 + number
        figures.started(at)
        if number in (7, 8, 9):
            figures.attempt(
                refused, intended_s=at, began_s=at, now_s=at + 0.02, is_retry=number != 9
            )
        if number != 9:
            figures.attempt(
                committed,
                intended_s=at,
                began_s=at + 0.5,
                now_s=at + 0.01 * (number + 1),
                is_retry=False,
            )
    figures.started(0.5)
    figures.attempt(refused, intended_s=0.5, began_s=0.5, now_s=1.5, is_retry=False)
    figures.seconds = 10.0
    return figures


def test_what_is_told():
    told = some().as_record()
    assert told["counts"] == {
        "transactions": 10, "attempts": 12, "committed": 9, "rejected": 3, "error": 0, "in_doubt": 0,
        "retries": 2, "given_up": 1, "dropped": 0, "syncs": 0, "sync_failures": 0,
    }  # fmt: skip
    assert told["rejected"] == {"version_mismatch": 3}
    assert told["latencies_ms"]["commit"]["p50"] == pytest.approx(50, rel=0.01)
    assert told["latencies_ms"]["commit"]["max"] == pytest.approx(90, rel=0.01)
    assert told["latencies_ms"]["conflict"]["mean"] == pytest.approx(20, rel=0.01)
    assert in_short(told).startswith("9 committed, 25.0% rejected, 1 per second, commit p50 50 ms")
    assert lines(told)[1] == "rejected: version_mismatch 3"


def test_histograms_can_be_merged():
    """Histograms of several runs are merged into one, without a second rounding."""
    one = HdrHistogram.decode(some().as_record()["histograms"]["commit"])
    both = HdrHistogram(1, 3_600_000_000, 3)
    both.add(one)
    both.add(one)
    assert both.get_total_count() == 18
    assert both.get_value_at_percentile(50) == one.get_value_at_percentile(50)


def test_over_time():
    series = some().series()
    assert len(series) == STRETCHES
    assert sum(each["attempts"] for each in series) == 12
    assert sum(each["rejected"] for each in series) == 3
    assert [each["at_s"] for each in series] == sorted(each["at_s"] for each in series)


@pytest.mark.parametrize(
    ("bound", "measured", "kept"),
    [
        ("rejected.version_mismatch.rate < 26%", "25%", True),
        ("rejected.version_mismatch.rate < 25%", "25%", False),
        ("rejected.rate <= 0.3/s", "0.3/s", True),
        ("rejected.row_missing.count == 0", "0", True),
        ("committed.rate >= 1/s", "0.9/s", False),
        ("commit.latency.p99 < 80ms", "90.05ms", False),
        ("commit.latency.p99.9 < 0.1s", "0.09005s", True),
        ("in_doubt.latency.max < 80ms", None, False),
        ("in_doubt.count == 0", "0", True),
        ("given_up.rate != 10%", "10%", False),
    ],
)
def test_bounds(bound, measured, kept):
    threshold = Threshold.model_validate(bound)
    assert compared(some(), [threshold]) == [
        {"bound": bound.replace("0.1s", "0.1s"), "measured": measured, "kept": kept}
    ]


def test_nothing_happened():
    told = Figures().as_record()
    assert told["series"] == []
    assert told["latencies_ms"] == {}
    assert in_short(told) == "0 committed, 0% rejected"
