"""The page: the verdict on top, then each order with its timeline, its nodes and its details.

A pure function of the records. The page loads nothing: style and script are inline, and its content security policy
forbids the browser to load anything or to run any other script.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

from twopc.sim.report.causes import because_of
from twopc.sim.report.event_records import header_of, is_load, select
from twopc.sim.report.events import Remark, SessionOutcome
from twopc.sim.report.groups import ReportGroup, groups, skipped_twins
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.html.facts import facts
from twopc.sim.report.html.lanes import lanes
from twopc.sim.report.html.load import load
from twopc.sim.report.html.markup import Content, Markup, tag
from twopc.sim.report.html.nodes import cards
from twopc.sim.report.html.top import SIGNS, badge, header, marks
from twopc.sim.report.load import of as load_of
from twopc.sim.report.moments import TimelineRow, moments, states
from twopc.sim.report.phrases import took_text
from twopc.sim.report.recorded_orders import PlayedOrder
from twopc.sim.report.timeline import timeline
from twopc.sim.report.verdict import Verdict, verdict, word

_OUTCOMES = {"committed": ("✓", "good"), "in doubt": ("?", "bad")}
#: Number of lanes from which the timeline gets more of the width.
_MANY = 4
#: Maximum number of orders that are unfolded at first.
_OPEN_MAX = 3
#: Maximum numbers of orders drawn, if there is room for them, and of rows of one order; the page says what is
#: left out.
ORDERS_MAX = 60
CHARACTERS_MAX = 400_000
ROWS_MAX = 400


def page(records: Sequence[HistoryRecord]) -> str:
    """Return the whole document."""
    report = verdict(records)
    every = groups(records)
    drawn = _drawn(every)
    style, script = _asset("page.css"), _asset("page.js")
    if is_load(records):
        style += _asset("load.css")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{SIGNS[report['verdict']]} {report['scenario']}"),
        tag("style", Markup(style)),
    )
    body = tag(
        "body",
        header(report, every, header_of(records), drawn),
        tag("main", *_groups(every, drawn), *_skipped(records)),
        tag("footer", _footer(records)),
        tag("script", Markup(script)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """Return the content security policy: nothing may be loaded, and only the page's own script may run."""
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


# -- orders ------------------------------------------------------------------------------------------


def _drawn(every: Sequence[ReportGroup]) -> dict[str, Markup]:
    """Return as many orders as a page can hold, by name: failed ones first, then in the order of playing."""
    opened = _opened(every)
    orders = [(group, order) for group in every for order in group.drawn]
    numbers = {order.name: number for number, (_, order) in enumerate(orders, start=1)}
    results: dict[str, Markup] = {}
    room = CHARACTERS_MAX
    for group, order in sorted(orders, key=lambda each: not each[1].verdict["kind"]):
        number = numbers[order.name]
        markup = _order(group, order, number, opened=order.name in opened)
        room -= len(markup)
        if results and (room < 0 or len(results) == ORDERS_MAX):
            break
        results[order.name] = markup
    return results


def _groups(every: Sequence[ReportGroup], drawn: Mapping[str, Markup]) -> Iterator[Markup]:
    """Yield each order; of a generated or repeated order one of each behaviour, below the summary of the group."""
    for place, group in enumerate(every, start=1):
        orders = [drawn[order.name] for order in group.drawn if order.name in drawn]
        if len(group.drawn) == 1:
            yield from orders
        else:
            yield tag(
                "section", *_of_all(group, place), *orders, class_="group", id=f"group-{place}"
            )
    undrawn = sum(len(group.drawn) for group in every) - len(drawn)
    if undrawn:
        orders_are = "order is" if undrawn == 1 else "orders are"
        text = f"{undrawn:,} more {orders_are} in history.jsonl and not drawn here."
        yield tag("p", text, class_="left")


def _of_all(group: ReportGroup, place: int) -> Iterator[Markup]:
    """Yield the summary of all orders of one name."""
    name = word(group.kind)
    yield tag(
        "div",
        tag("h2", group.name, id=f"name-{place}"),
        badge(name),
        *marks(group.twin, group.cell),
        tag("span", took_text(group.elapsed_ms * 1000), class_="took"),
        class_="all",
    )
    if group.about:
        yield tag("p", group.about, class_="about")
    yield from _counted(group)


def _counted(group: ReportGroup) -> Iterator[Markup]:
    """Yield the counts of a group, and the number of orders not drawn because their behaviour is that of a drawn
    one.
    """
    yield tag("p", group.text(), class_="counts")
    like = len(group.orders) - len(group.drawn)
    if like:
        went = "order that was played went" if like == 1 else "orders that were played went"
        same = "the same way" if len(group.drawn) == 1 else "as one of those below"
        yield tag("p", f"{like:,} more {went} {same}.", class_="left")


def _skipped(records: Sequence[HistoryRecord]) -> Iterator[Markup]:
    for text in skipped_twins(records):
        yield tag("p", f"– {text}", class_="left")


def _opened(every: Sequence[ReportGroup]) -> set[str]:
    """Return the names of the orders that are unfolded: the first failed ones, or else the first ones."""
    orders = [order for group in every for order in group.drawn]
    failed = [order for order in orders if order.verdict["kind"]]
    return {order.name for order in (failed or orders)[:_OPEN_MAX]}


def _order(group: ReportGroup, order: PlayedOrder, number: int, *, opened: bool) -> Markup:
    report = order.verdict
    several = len(group.drawn) > 1
    summary = tag(
        "summary",
        tag("h2", group.label(order) if several else group.name),
        badge(report["verdict"]),
        *(() if several else marks(order.fold.twin, order.fold.cell)),
        tag("span", took_text(report["elapsed_ms"] * 1000), class_="took"),
    )
    about = order.about and not several
    figures = load_of(order.records)
    body = (
        tag("p", order.about, class_="about") if about else None,
        *(_counted(group) if len(group.orders) > 1 and not several else ()),
        _outcomes(order),
        *(_failure(order, failure) for failure in report["failures"]),
        _repeat(report) if report["failures"] else None,
        *((load(order, figures),) if figures else _course(order, number)),
    )
    return tag(
        "details",
        summary,
        *body,
        class_="order",
        id=f"order-{number}",
        open=opened,
        data_order=number,
    )


def _course(order: PlayedOrder, number: int) -> tuple[Markup, ...]:
    """Return the events step by step, with the nodes beside them."""
    shown = moments(order, ROWS_MAX)
    left = len(moments(order)) - len(shown)
    many = len(timeline(order.fold).lanes) >= _MANY
    stage = tag(
        "div",
        tag("div", lanes(order, shown, number), _left(left), class_="wide"),
        _beside(order, shown, number),
        class_="stage many" if many else "stage",
    )
    return stage, facts(order)


def _left(count: int) -> Content:
    if count <= 0:
        return None
    return tag("p", f"{count} later rows are in history.jsonl and not drawn here.", class_="left")


def _outcomes(order: PlayedOrder) -> Content:
    """Return the outcome of each session's last transaction."""
    items = []
    for each in select(order.records, SessionOutcome):
        if each.message != "none":
            sign, style = _OUTCOMES.get(each.message, ("–", "faint"))
            items.append(
                tag(
                    "li",
                    tag("b", each.session),
                    " ",
                    tag("span", f"{sign} {each.message}", class_=style),
                )
            )
    return tag("ul", *items, class_="outcomes", aria_label="Outcomes") if items else None


def _failure(order: PlayedOrder, failure: Any) -> Markup:
    where = None
    if "line" in failure:
        file = failure.get("file") or order.header.get("file", "")
        where = tag("p", tag("code", f"{file}:{failure['line']}:{failure['column']}"))
    excerpt = failure.get("excerpt")
    report = word(failure["kind"])
    reasons = zip(("because", "however"), because_of(order.fold, failure), strict=True)
    why = [
        content for term, text in reasons if text for content in (tag("dt", term), tag("dd", text))
    ]
    return tag(
        "div",
        tag("p", tag("b", f"{SIGNS[report]} {failure['kind']}: "), failure["message"]),
        where,
        tag("pre", "\n".join(excerpt), tabindex=0) if excerpt else None,
        tag("dl", *why) if why else None,
        class_=f"failure {report}",
    )


def _repeat(report: Verdict) -> Content:
    if not report["repro"]:
        return None
    return tag(
        "p", "Play it again: ", tag("code", report["repro"], class_="command"), class_="again"
    )


def _beside(order: PlayedOrder, shown: Sequence[TimelineRow], number: int) -> Markup:
    """Return the slider, and the nodes at the selected moment."""
    slider = tag(
        "input",
        type="range",
        min=0,
        max=len(shown),
        value=len(shown),
        id=f"at-{number}",
        aria_label=f"Moment of {order.name}",
        aria_controls=f"nodes-{number}",
    )
    player = tag(
        "div",
        tag("button", "◀", type="button", aria_label="One moment back", data_by=-1),
        slider,
        tag("button", "▶", type="button", aria_label="One moment on", data_by=1),
        tag("output", for_=f"at-{number}", class_="now"),
        class_="player",
        hidden=True,
    )
    nodes = tag("div", cards(order, states(order, shown)), id=f"nodes-{number}")
    return tag(
        "aside",
        tag("h3", "The nodes ", tag("span", "after the last step", class_="when")),
        player,
        nodes,
        class_="beside",
        aria_label=f"Nodes during {order.name}",
    )


def _footer(records: Sequence[HistoryRecord]) -> Markup:
    versions: dict[str, None] = {}
    for remark in select(records, Remark):
        versions |= {_version(number): None for number in remark.server_versions.values()}
    played_on = f"Played on PostgreSQL {', '.join(versions)}. " if versions else ""
    return tag("p", f"{played_on}Drawn by twopc from history.jsonl, which holds every record.")


def _version(number: int) -> str:
    return f"{number // 10000}.{number % 10000}"
