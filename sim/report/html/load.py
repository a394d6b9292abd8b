"""The section of a load: its figures, and their course over time, drawn as inline SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twopc.sim.report.event_records import select
from twopc.sim.report.events import LoadParameters
from twopc.sim.report.html.markup import Content, Markup, tag
from twopc.sim.report.load import TIMED, in_short, share
from twopc.sim.report.recorded_orders import PlayedOrder

#: Size of a chart in its own units; it is drawn at the available width.
_WIDTH, _HEIGHT = 420, 150
_LEFT, _RIGHT, _TOP, _BOTTOM = 46, 6, 10, 20

_Series = Sequence[Mapping[str, float]]
_Points = Sequence[tuple[float, float]]


def load(order: PlayedOrder, report: Mapping[str, Any]) -> Markup:
    """Return the section of a load, except for the verdict."""
    return tag(
        "div",
        tag("p", in_short(report), class_="counts"),
        _charts(report["series"]),
        _latencies(report["latencies_ms"]),
        _ends(report),
        _thresholds(report.get("thresholds", ())),
        _drawn(order),
        class_="load",
    )


# -- charts ------------------------------------------------------------------------------------------


def _charts(series: _Series) -> Content:
    if not series:
        return None
    rejected = [
        (each["at_s"], 100 * each["rejected"] / each["attempts"])
        for each in series
        if each["attempts"]
    ]
    return tag(
        "div",
        _chart("commit, ms", {"p50": _of(series, "p50_ms"), "p99": _of(series, "p99_ms")}),
        _chart("rejected, % of the attempts", {"rejected": rejected}),
        _chart("committed per second", {"committed": _of(series, "committed_per_s")}),
        class_="charts",
    )


def _of(series: _Series, name: str) -> list[tuple[float, float]]:
    return [(each["at_s"], each[name]) for each in series if name in each]


def _chart(title: str, lines: Mapping[str, _Points]) -> Markup:
    """Return a chart over the seconds of the load; the text names each line with its highest value."""
    every = [point for points in lines.values() for point in points]
    top = max((value for _, value in every), default=0.0) or 1.0
    first, last = (min(at for at, _ in every), max(at for at, _ in every)) if every else (0.0, 1.0)
    words = ", ".join(
        f"{name} at most {max(value for _, value in points):,.4g}"
        for name, points in lines.items()
        if points
    )
    drawn = [
        tag(
            "polyline",
            class_=f"line {name}",
            points=" ".join(_places(points, (first, last), top)),
        )
        for name, points in lines.items()
    ]
    keys = [tag("span", name, class_=f"key {name}") for name in lines if len(lines) > 1]
    caption = tag("figcaption", title, *keys)
    svg = tag(
        "svg",
        *_axes(first, last, top),
        *drawn,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label=f"{title} over time: {words}",
    )
    return tag("figure", caption, svg)


def _places(points: _Points, span: tuple[float, float], top: float) -> Iterator[str]:
    first, last = span
    across, up = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
    for at, value in points:
        x = _LEFT + across * (at - first) / ((last - first) or 1.0)
        yield f"{x:.1f},{_TOP + up * (1 - value / top):.1f}"


def _axes(first: float, last: float, top: float) -> Iterator[Markup]:
    low = _HEIGHT - _BOTTOM
    yield tag("path", class_="axis", d=f"M{_LEFT} {_TOP}V{low}H{_WIDTH - _RIGHT}")
    yield tag("path", class_="grid", d=f"M{_LEFT} {_TOP}H{_WIDTH - _RIGHT}")
    yield tag("text", f"{top:,.3g}", x=_LEFT - 6, y=_TOP + 4, class_="end")
    yield tag("text", "0", x=_LEFT - 6, y=low + 4, class_="end")
    yield tag("text", f"{first:.3g} s", x=_LEFT, y=_HEIGHT - 3)
    yield tag("text", f"{last:.3g} s", x=_WIDTH - _RIGHT, y=_HEIGHT - 3, class_="end")


# -- tables ------------------------------------------------------------------------------------------


def _latencies(latencies: Mapping[str, Mapping[str, float]]) -> Content:
    if not latencies:
        return None
    columns = list(next(iter(latencies.values())))
    head = tag("tr", tag("th", "latency, ms"), *(tag("th", each) for each in columns))
    rows = [
        tag(
            "tr",
            tag("td", TIMED.get(name, name)),
            *(
                tag("td", f"{each[at]:,.0f}" if at == "count" else f"{each[at]:,.2f}")
                for at in columns
            ),
        )
        for name, each in latencies.items()
    ]
    return tag("table", head, *rows, class_="figures")


def _ends(report: Mapping[str, Any]) -> Markup:
    """Return the ends of attempts, with the number of each."""
    counts = report["counts"]
    rows = [("committed", counts["committed"])]
    for word, key in (("rejected", "rejected"), ("error", "errors")):
        rows += [
            (f"{word}: {(why or 'no answer').replace('_', ' ')}", number)
            for why, number in report[key].items()
        ]
    if counts["in_doubt"]:
        rows.append(("in doubt", counts["in_doubt"]))
    head = tag("tr", *(tag("th", each) for each in ("attempts ended", "number", "of all")))
    return tag(
        "table",
        head,
        *(
            tag("tr", tag("td", what), tag("td", f"{number:,}"), tag("td", share(report, number)))
            for what, number in rows
        ),
        class_="figures",
    )


def _thresholds(compared: Sequence[Mapping[str, Any]]) -> Content:
    if not compared:
        return None
    items = [
        tag(
            "li",
            tag("span", "✓ " if each["kept"] else "✗ ", class_="good" if each["kept"] else "bad"),
            tag("code", each["bound"]),
            f" {each['measured'] or 'nothing to measure'}",
        )
        for each in compared
    ]
    return tag("ul", *items, class_="outcomes", aria_label="Thresholds")


def _drawn(order: PlayedOrder) -> Content:
    """Return the parameters of the load."""
    result = next(select(order.records, LoadParameters), None)
    if result is None or not result.parameters:
        return None
    pairs = [
        content
        for name, value in result.parameters.items()
        if value is not None
        for content in (tag("dt", name.replace("_", " ")), tag("dd", _short(name, value)))
    ]
    return tag("details", tag("summary", "What was drawn"), tag("dl", *pairs))


def _short(name: str, value: Any) -> str:
    if name == "clients" and isinstance(value, list):
        return ", ".join(f"{value.count(node)} at {node}" for node in dict.fromkeys(value))
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {each}" for key, each in value.items() if each is not None)
    return str(value)
