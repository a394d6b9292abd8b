"""The page: the verdict on top, then each order with its timeline, its nodes and its facts.

A pure function of the records. The page asks for nothing: style and script are inside, and its own policy
forbids the browser to load anything or to run any other script.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import Any

from sim.report.history import Record
from sim.report.html.facts import facts
from sim.report.html.lanes import lanes
from sim.report.html.markup import Content, Markup, join, tag
from sim.report.html.nodes import cards
from sim.report.moments import Moment, moments, states
from sim.report.played import Played, played
from sim.report.timeline import timeline
from sim.report.verdict import Verdict, verdict, word

_SIGNS = {"pass": "✓", "fail": "✗", "unknown": "?"}
_WORDS = {"pass": "passed", "fail": "failed", "unknown": "inconclusive"}
_STYLES = {"pass": "good", "fail": "bad", "unknown": "wait"}
_OUTCOMES = {"committed": ("✓", "good"), "in doubt": ("?", "bad")}
#: From so many lanes on, the timeline gets more of the width.
_MANY = 4
#: So many orders are unfolded from the beginning.
_OPEN_MAX = 3
#: So many orders are drawn, and so many rows of one; what is left out is said.
ORDERS_MAX = 60
ROWS_MAX = 400


def page(records: Sequence[Record]) -> str:
    """The whole document."""
    told = verdict(records)
    every = list(played(records))
    style, script = _asset("page.css"), _asset("page.js")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", f"{_SIGNS[told['verdict']]} {told['scenario']}"),
        tag("style", Markup(style)),
    )
    body = tag(
        "body",
        _header(told, every),
        tag("main", *_orders(every)),
        tag("footer", _footer(every)),
        tag("script", Markup(script)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _asset(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _policy(script: str) -> str:
    """Nothing may be loaded; only our own script may run."""
    digest = b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


# -- top ---------------------------------------------------------------------------------------------


def _header(told: Verdict, every: Sequence[Played]) -> Markup:
    header = every[0].header if every else {}
    return tag(
        "header",
        tag(
            "div",
            tag("h1", told["scenario"]),
            _badge(told["verdict"], f"{_WORDS[told['verdict']]}{_counted(told)}"),
            class_="title",
        ),
        tag("p", header["about"], class_="about") if header.get("about") else None,
        tag("p", _run(told, header), class_="meta"),
        _contents(told) if len(told["orders"]) > 1 else None,
    )


def _badge(word: str, text: str) -> Markup:
    return tag("span", f"{_SIGNS[word]} {text}", class_=f"badge {_STYLES[word]}")


def _counted(told: Verdict) -> str:
    """How many of several orders, if not all have passed."""
    counts = told["counts"]
    several = counts["failed"] and counts["orders"] > 1
    return f": {counts['failed']} of {counts['orders']} orders" if several else ""


def _run(told: Verdict, header: Any) -> Markup:
    publisher, subscribers = header.get("publisher", ""), header.get("subscribers", ())
    parts: list[Content] = [
        tag("code", told["file"]),
        f"Publisher {publisher}, {_plural(len(subscribers), 'Subscriber')} {', '.join(subscribers)}",
    ]
    if header.get("shipping"):
        parts.append(f"{header['shipping']} shipping, {header['commit'].replace('_', ' ')}")
    if told["invariants"]:
        parts.append("invariants: " + ", ".join(told["invariants"]).replace("_", " "))
    return join(*(tag("span", part) for part in parts))


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else f"{noun}s"


def _contents(told: Verdict) -> Markup:
    items = [
        tag(
            "li",
            tag("a", f"{_SIGNS[each['verdict']]} {each['name']}", href=f"#order-{number}"),
            tag("span", "; ".join(each["notes"])),
            class_=_STYLES[each["verdict"]],
        )
        for number, each in enumerate(told["orders"], start=1)
    ]
    return tag("nav", tag("ol", *items), aria_label="Orders")


# -- orders ------------------------------------------------------------------------------------------


def _orders(every: Sequence[Played]) -> Iterator[Markup]:
    opened = _opened(every)
    for number, order in enumerate(every[:ORDERS_MAX], start=1):
        yield _order(order, number, opened=number in opened)
    if len(every) > ORDERS_MAX:
        left = len(every) - ORDERS_MAX
        yield tag(
            "p", f"{left} more orders are in history.jsonl and not drawn here.", class_="left"
        )


def _opened(every: Sequence[Played]) -> set[int]:
    """Which orders are unfolded: what went wrong, or the first ones."""
    failed = [n for n, order in enumerate(every, start=1) if order.verdict["kind"]]
    return set((failed or list(range(1, len(every) + 1)))[:_OPEN_MAX])


def _order(order: Played, number: int, *, opened: bool) -> Markup:
    told = order.verdict
    summary = tag(
        "summary",
        tag("h2", order.name),
        _badge(told["verdict"], _WORDS[told["verdict"]]),
        tag("span", f"{told['elapsed_ms']:.0f} ms", class_="took"),
    )
    shown = moments(order, ROWS_MAX)
    left = len(moments(order)) - len(shown)
    body = (
        tag("p", order.about, class_="about") if order.about else None,
        _outcomes(order),
        *(_failure(order, failure) for failure in told["failures"]),
        _again(told) if told["failures"] else None,
        tag(
            "div",
            tag("div", lanes(order, shown, number), _left(left), class_="wide"),
            _beside(order, shown, number),
            class_="stage many" if len(timeline(order.records).lanes) >= _MANY else "stage",
        ),
        facts(order),
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


def _left(count: int) -> Content:
    if count <= 0:
        return None
    return tag("p", f"{count} later rows are in history.jsonl and not drawn here.", class_="left")


def _outcomes(order: Played) -> Content:
    """How each session's last transaction ended."""
    items = []
    for record in order.records:
        if record.kind == "outcome" and record.message != "none":
            sign, style = _OUTCOMES.get(record.message, ("–", "faint"))
            items.append(
                tag(
                    "li",
                    tag("b", record.session),
                    " ",
                    tag("span", f"{sign} {record.message}", class_=style),
                )
            )
    return tag("ul", *items, class_="outcomes", aria_label="Outcomes") if items else None


def _failure(order: Played, failure: Any) -> Markup:
    where = None
    if "line" in failure:
        file = order.header.get("file", "")
        where = tag("p", tag("code", f"{file}:{failure['line']}:{failure['column']}"))
    excerpt = failure.get("excerpt")
    told = word(failure["kind"])
    return tag(
        "div",
        tag("p", tag("b", f"{_SIGNS[told]} {failure['kind']}: "), failure["message"]),
        where,
        tag("pre", "\n".join(excerpt), tabindex=0) if excerpt else None,
        class_=f"failure {told}",
    )


def _again(told: Verdict) -> Content:
    if not told["repro"]:
        return None
    return tag("p", "Play it again: ", tag("code", told["repro"], class_="command"), class_="again")


def _beside(order: Played, shown: Sequence[Moment], number: int) -> Markup:
    """The slider, and the nodes at the moment that it stands for."""
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


def _footer(every: Sequence[Played]) -> Markup:
    versions: dict[str, None] = {}
    for order in every:
        for record in order.records:
            found = (record.data or {}).get("server_versions") if record.kind == "info" else None
            versions |= {_version(number): None for number in (found or {}).values()}
    played_on = f"Played on PostgreSQL {', '.join(versions)}. " if versions else ""
    return tag("p", f"{played_on}Drawn by twopc from history.jsonl, which holds every record.")


def _version(number: int) -> str:
    return f"{number // 10000}.{number % 10000}"
