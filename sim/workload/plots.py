"""Plots of loads: latency and conflict rate over time, and a comparison if there are several loads.

Matplotlib is an optional dependency and slow to import; it is imported when the first plot is drawn.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twopc.sim.report.history import HistoryRecord, by_order
from twopc.sim.report.load import of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Message if Matplotlib is not installed.
NO_PLOTS = "no pictures were drawn: pip install 'twopc[plots]'"
#: Size in inches, and dots per inch.
_SIZE = (9.0, 6.0)
_DPI = 110
_COLOURS = {"p50": "#2b6cb0", "p99": "#c05621", "rejected": "#c53030", "rate": "#2f855a"}


def is_drawable() -> bool:
    """Whether Matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def write_plots(records: Sequence[HistoryRecord], directory: Path) -> list[Path]:
    """Write a plot of each load of a run, ``load.png``, ``load-2.png`` …, and ``loads.png``, which compares them."""
    loads = [(name, text) for name, each in by_order(records) if (text := of(each))]
    drawn = [(name, report) for name, report in loads if report["series"]]
    written = []
    for number, (name, summary) in enumerate(drawn, start=1):
        path = directory / ("load.png" if number == 1 else f"load-{number}.png")
        save(_over_time(name, summary), path)
        written.append(path)
    if len(drawn) > 1:
        path = directory / "loads.png"
        save(_side_by_side(drawn), path)
        written.append(path)
    return written


def save(drawn: Figure, path: Path) -> None:
    """Write a figure; the same figure gives the same bytes."""
    drawn.savefig(path, dpi=_DPI, metadata={"Software": None})


def figure(size: tuple[float, float] = _SIZE) -> Figure:
    """Return an empty figure without a window, drawn by Agg; its size is in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    made = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(made)
    return made


def _over_time(name: str, report: Mapping[str, Any]) -> Figure:
    drawn = figure()
    drawn.suptitle(name)
    series: Sequence[Mapping[str, float]] = report["series"]
    at = [each["at_s"] for each in series]
    latency, conflicts, rate = drawn.subplots(3, sharex=True)
    for percentile in ("p50", "p99"):
        results = [
            (each["at_s"], each[f"{percentile}_ms"])
            for each in series
            if f"{percentile}_ms" in each
        ]
        if results:
            times, values = zip(*results, strict=True)
            latency.plot(times, values, label=percentile, color=_COLOURS[percentile])
            latency.legend(loc="upper right")
    _label(latency, "commit (ms)")
    conflicts.plot(at, [*_conflict_rate(series)], color=_COLOURS["rejected"])
    _label(conflicts, "rejected (%)")
    rate.plot(at, [each["committed_per_s"] for each in series], color=_COLOURS["rate"])
    _label(rate, "committed per second")
    rate.set_xlabel("seconds since the load began")
    return drawn


def _conflict_rate(series: Sequence[Mapping[str, float]]) -> Iterator[float]:
    """Yield the rejected share of the attempts in percent; NaN, which is not drawn, for intervals without attempts."""
    for each in series:
        yield 100 * each["rejected"] / each["attempts"] if each["attempts"] else float("nan")


def _side_by_side(loads: Sequence[tuple[str, Mapping[str, Any]]]) -> Figure:
    """Return a figure that compares loads, for example cells of a matrix with uniform and with hot keys."""
    drawn = figure()
    latency, conflicts = drawn.subplots(2, sharex=True)
    names = [name for name, _ in loads]
    for percentile, shift in (("p50", -0.2), ("p99", 0.2)):
        heights = [
            summary["latencies_ms"].get("commit", {}).get(percentile, 0.0) for _, summary in loads
        ]
        places = [place + shift for place in range(len(loads))]
        latency.bar(places, heights, 0.4, label=percentile, color=_COLOURS[percentile])
    latency.legend(loc="upper left")
    _label(latency, "commit (ms)")
    rates = [
        100 * report["counts"]["rejected"] / max(1, report["counts"]["attempts"])
        for _, report in loads
    ]
    conflicts.bar(range(len(loads)), rates, 0.6, color=_COLOURS["rejected"])
    conflicts.set_xticks(range(len(loads)), names, rotation=15, ha="right")
    _label(conflicts, "rejected (%)")
    return drawn


def _label(axes: Axes, text: str) -> None:
    axes.set_ylabel(text)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
