"""The top of the page: whether the run passed, its description, and links to the orders.

Also the badges beside every order's name.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from twopc.sim.report.groups import ReportGroup
from twopc.sim.report.html.markup import Content, Markup, join, tag
from twopc.sim.report.verdict import Verdict, word

SIGNS = {"pass": "✓", "fail": "✗", "unknown": "?"}
_WORDS = {"pass": "passed", "fail": "failed", "unknown": "inconclusive"}
_STYLES = {"pass": "good", "fail": "bad", "unknown": "wait"}


def header(
    report: Verdict, every: Sequence[ReportGroup], text: Mapping[str, Any], drawn: Container[str]
) -> Markup:
    """Return the part of the page before the first order.

    Args:
        report: the verdict of the run.
        text: the data of the history's header record.
        drawn: the orders that are on the page, to be linked to.
    """
    return tag(
        "header",
        tag(
            "div",
            tag("h1", report["scenario"]),
            badge(report["verdict"], _counted(every)),
            class_="title",
        ),
        tag("p", text["about"], class_="about") if text.get("about") else None,
        tag("p", _run(report, text), class_="meta"),
        _contents(every, drawn) if len(every) > 1 else None,
    )


def badge(verdict: str, more: str = "") -> Markup:
    """Return the badge of a verdict, as ``✓ passed``."""
    text = f"{SIGNS[verdict]} {_WORDS[verdict]}{more}"
    return tag("span", text, class_=f"badge {_STYLES[verdict]}")


def marks(twin: Mapping[str, Any], cell: Mapping[str, str]) -> Iterator[Markup]:
    """Yield the special conditions of an order: protections that are switched off, and the values of the matrix."""
    if twin:
        off = ", ".join(twin.get("protections", ())).replace("_", " ")
        must = str(twin.get("must_fail", "")).replace("_", " ")
        text = f"twin: {off} off, {must} must fail" if must else f"{off} off"
        yield tag("span", text, class_="badge twin")
    for name, value in cell.items():
        yield tag("span", f"{name} = {value}", class_="badge cell")


def _counted(every: Sequence[ReportGroup]) -> str:
    """Return how many of several orders failed; empty if none did."""
    failed = [group for group in every if group.kind]
    return f": {len(failed)} of {len(every)} orders" if failed and len(every) > 1 else ""


def _run(report: Verdict, text: Mapping[str, Any]) -> Markup:
    publisher, subscribers = text.get("publisher", ""), text.get("subscribers", ())
    noun = "Subscriber" if len(subscribers) == 1 else "Subscribers"
    parts: list[Content] = [
        tag("code", report["file"]),
        f"Publisher {publisher}, {noun} {', '.join(subscribers)}",
    ]
    if text.get("shipping"):
        parts.append(f"{text['shipping']} shipping, {text['commit'].replace('_', ' ')}")
    if report["invariants"]:
        parts.append("invariants: " + ", ".join(report["invariants"]).replace("_", " "))
    if "seed" in text:
        parts.append(f"seed {text['seed']}")
    return join(*(tag("span", part) for part in parts))


def _contents(every: Sequence[ReportGroup], drawn: Container[str]) -> Markup:
    """Return a line for each order; the line of several orders links to their summary."""
    items, number = [], 1
    for place, group in enumerate(every, start=1):
        name = word(group.kind)
        alone = len(group.drawn) == 1
        where = f"#order-{number}" if alone else f"#group-{place}"
        is_drawn = not alone or group.drawn[0].name in drawn
        number += len(group.drawn)
        items.append(
            tag(
                "li",
                tag("a", f"{SIGNS[name]} {group.name}", href=where if is_drawn else None),
                tag("span", group.text()),
                class_=_STYLES[name],
            )
        )
    return tag("nav", tag("ol", *items), aria_label="Orders")
