"""Plots of a sweep, and the page that shows them.

The first key's values are on the axis, each value of the second key is a line, and the combinations of further keys
are plots side by side. Matplotlib takes a second to load, so it is imported when the first plot is drawn.
"""

from __future__ import annotations

import base64
import html
import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twopc.sim.spark.sweep.results import SweepRequest
from twopc.sim.spark.sweep.summary import PointSummary, Summary, table
from twopc.sim.workload.plots import figure, save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _HEIGHT = 6.0, 4.0
_COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#805ad5", "#c53030", "#4a5568", "#b7791f", "#0987a0")
_MARKS = {50.0: "o-", 99.0: "s--", 99.9: "^:"}
#: Points of one plot by line; the keys after the first define the lines.
_Lines = Mapping[str, Sequence[PointSummary]]


def write_plots(summary: Summary, folder: Path) -> list[Path]:
    """Write ``conflict_rate.png``, ``commit.png``, ``in_doubt.png`` and ``throughput.png``."""
    drawn: list[tuple[str, str, Callable[[Axes, str, str, Sequence[PointSummary]], None]]] = [
        ("conflict_rate", "rejected (%)", _conflicts),
        ("commit", "commit (ms)", _latency("commit")),
        ("in_doubt", "in doubt (ms)", _latency("in_doubt")),
        ("throughput", "committed per second", _throughput),
    ]
    written = []
    for name, label, draw in drawn:
        path = folder / f"{name}.png"
        _draw(summary, label, draw, path)
        written.append(path)
    return written


def _draw(
    summary: Summary, label: str, draw: Callable[[Axes, str, str, Sequence[PointSummary]], None], path: Path
) -> None:  # fmt: skip
    pictures = _pictures(summary.points)
    drawn = figure((_WIDTH * len(pictures), _HEIGHT))
    axes = drawn.subplots(1, len(pictures), sharey=True, squeeze=False)[0]
    keys = [key for key, _ in summary.points[0].point.settings]
    for each, (title, lines) in zip(axes, pictures.items(), strict=True):
        for colour, (line, points) in zip(itertools.cycle(_COLOURS), lines.items(), strict=False):
            draw(each, colour, line, points)
        each.set_title(title, fontsize=10)
        each.set_xlabel(keys[0] if keys else "the scenario as it is")
        each.set_ylabel(label)
        each.set_ylim(bottom=0)
        each.grid(alpha=0.3)
        if each.get_legend_handles_labels()[0]:
            each.legend(fontsize=8)
    save(drawn, path)


def _pictures(points: Sequence[PointSummary]) -> dict[str, dict[str, list[PointSummary]]]:
    """Return the points of each line of each plot, in the grid's order."""
    results: dict[str, dict[str, list[PointSummary]]] = {}
    for each in points:
        lines = [f"{key.rpartition('.')[2]} {value}" for key, value in each.point.settings]
        line, title = "".join(lines[1:2]), ", ".join(lines[2:])
        results.setdefault(title, {}).setdefault(line, []).append(each)
    return results


def _along(points: Sequence[PointSummary]) -> list[float] | list[str]:
    """Return the positions of the points on the axis: numbers if all values are numeric, else texts."""
    values = [each.point.settings[0][1] if each.point.settings else "" for each in points]
    try:
        return [float(value) for value in values]
    except ValueError:
        return values


def _line(axes: Axes, colour: str, style: str, label: str, points: Sequence[PointSummary], heights: Sequence[float | None]) -> None:  # fmt: skip
    known = [each if each is not None else float("nan") for each in heights]
    axes.plot(_along(points), known, style, color=colour, label=label or None)


def _conflicts(axes: Axes, colour: str, line: str, points: Sequence[PointSummary]) -> None:
    rates = [None if each.conflict_rate is None else 100 * each.conflict_rate for each in points]
    _line(axes, colour, "o-", line, points, rates)


def _throughput(axes: Axes, colour: str, line: str, points: Sequence[PointSummary]) -> None:
    _line(axes, colour, "o-", line, points, [each.committed_per_s for each in points])


def _latency(what: str) -> Callable[[Axes, str, str, Sequence[PointSummary]], None]:
    def draw(axes: Axes, colour: str, line: str, points: Sequence[PointSummary]) -> None:
        for percentile, style in _MARKS.items():
            heights = [each.latency_ms(what, percentile) for each in points]
            label = f"{line} p{percentile:g}".strip()
            _line(axes, colour, style, label, points, heights)

    return draw


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 80rem; padding: 0 1rem; color: #1a202c; }}
table {{ border-collapse: collapse; }} td, th {{ padding: .2rem .8rem; border-bottom: 1px solid #e2e8f0; text-align: left; }}
img {{ max-width: 100%; }} code {{ background: #edf2f7; padding: .1rem .3rem; }} pre {{ overflow: auto; }}
</style></head><body>
<h1>{title}</h1>
<p>{about}</p>
<pre>{table}</pre>
{failures}
{pictures}
</body></html>
"""


def write_page(summary: Summary, sweep: SweepRequest, pictures: Sequence[Path], path: Path) -> None:
    """Write one page that needs no other file and no network."""
    inlined = "\n".join(
        f'<p><img alt="{html.escape(each.stem)}" '
        f'src="data:image/png;base64,{base64.b64encode(each.read_bytes()).decode()}"></p>'
        for each in pictures
    )
    text = _PAGE.format(
        title=f"Sweep of {html.escape(sweep.scenario)}",
        about=f"{summary.trials:,} trials of {html.escape(sweep.file)}, {summary.failed:,} of them did not pass.",
        table=html.escape("\n".join(table(summary))),
        failures=_failures(summary),
        pictures=inlined,
    )
    path.write_text(text, encoding="utf-8")


def _failures(summary: Summary) -> str:
    if not summary.failures:
        return ""
    rows = "\n".join(
        f"<tr><td>{html.escape(str(each['parameters']))}</td><td>{each['seed']}</td>"
        f"<td>{html.escape(str(each['kind']))}: {html.escape(str(each['failure']))}</td>"
        f"<td><code>{html.escape(str(each['repro']))}</code></td></tr>"
        for each in summary.failures
    )
    return f"<h2>What did not pass</h2>\n<table>\n<tr><th>values</th><th>seed</th><th>why</th><th>again</th></tr>\n{rows}\n</table>"
