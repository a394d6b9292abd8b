"""The timeline as a grid: a column for each session, a row for each event, a box for each step.

The height of a row depends on its text and not on its duration: the sequence of events and the waits matter. The
time stands beside each row.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from twopc.sim.report.events import AuthorNote, StepEnd
from twopc.sim.report.html.markup import Markup, join, signs, tag
from twopc.sim.report.moments import TimelineRow
from twopc.sim.report.phrases import moment_text, style_of
from twopc.sim.report.recorded_orders import PlayedOrder
from twopc.sim.report.timeline import AGENTS, RECOVERY, LaneEntry, timeline

#: The first row of the grid with an event: the names are above it.
_FIRST = 2
_NAMED = re.compile(r"(\w+): (.*)", re.DOTALL)


def lanes(order: PlayedOrder, moments: Sequence[TimelineRow], number: int) -> Markup:
    """Return the grid of one order; `number` distinguishes it from others on the page."""
    names = dict(timeline(order.fold).lanes)
    columns = {name: at + 2 for at, name in enumerate(names)}
    heads = [
        tag(
            "div",
            tag("b", name),
            tag("span", f" at {node}") if node else None,
            class_="head",
            style=f"grid-column:{columns[name]}",
        )
        for name, node in names.items()
    ]
    rails = [
        tag("div", class_="rail", style=f"grid-area:{_FIRST}/{at}/{_FIRST + len(moments)}")
        for at in columns.values()
    ]
    rows = [_row(at, moment, columns) for at, moment in enumerate(moments, start=1)]
    return tag(
        "div",
        tag("div", "ms", class_="head ms", aria_hidden="true"),
        *heads,
        *rails,
        *_boxes(order, moments, columns),
        tag("ol", *rows, aria_label="What happened"),
        class_="lanes",
        style=f"--lanes:{len(names)}",
        id=f"lanes-{number}",
        role="region",
        tabindex=0,
        aria_label=f"Timeline of {order.name}",
    )


def _row(at: int, moment: TimelineRow, columns: dict[str, int]) -> Markup:
    entry = moment.entry
    stamp = moment_text(entry.t_us) if entry.t_us >= 0 else ""
    more = [
        tag("div", _breakable(each.text), class_=f"more {each.style}".strip())
        for each in moment.more
    ]
    text = tag(
        "div",
        tag("span", f"{entry.session}: ", class_="unseen"),
        tag("div", _text(entry), class_=entry.style or None),
        *more,
        class_="say",
        style=f"grid-column:{columns.get(entry.session, 2)}",
    )
    return tag(
        "li",
        tag(
            "span",
            stamp,
            tag("span", " ms", class_="unseen") if stamp[-1:].isdigit() else None,
            class_="ms",
        ),
        text,
        style=f"grid-row:{at + _FIRST - 1}",
        data_moment=at,
    )


def _text(entry: LaneEntry) -> Markup:
    """Return the text with a step's name separated from its SQL."""
    match = _NAMED.fullmatch(entry.text) if entry.style in ("", "good") else None
    if match is None:
        return signs(entry.text)
    return join(tag("b", match[1]), " ", _code(match[2]))


def _breakable(text: str) -> Markup:
    """Return text that may be broken after the underscores of its names."""
    first, *others = text.split("_")
    return join(first, *(part for each in others for part in ("_", tag("wbr"), each)))


def _code(text: str) -> Markup:
    """Return the SQL, followed by its result, which begins with a sign."""
    match = re.search(r" (?=[✓→] ?)", text)
    if match is None:
        return tag("code", text)
    sql, message = text[: match.start()], text[match.end() :]
    return join(tag("code", sql), " ", tag("span", message, class_="result"))


def _boxes(
    order: PlayedOrder, moments: Sequence[TimelineRow], columns: dict[str, int]
) -> Iterator[Markup]:
    """Yield the boxes behind the text: the duration of each step, and the time for which the session was blocked."""
    for at, moment in enumerate(moments):
        lane = moment.entry.session
        if lane in (AGENTS, RECOVERY) and lane in columns:
            yield _box(f"step {moment.entry.style}".strip(), columns[lane], at, at)
    for step in order.fold.steps:
        column = columns.get(step.invoked.session)
        if column is None or not moments or step.invoked.seq > moments[-1].entry.seq:
            continue
        first, last = _place(moments, step.invoked.seq), _place(moments, step.until)
        yield _box("step open" if step.ended is None else "step", column, first, last)
        for blocked, until in step.waits:
            begun = _place(moments, blocked.seq)
            yield _box("wait", column, begun, max(begun, _place(moments, until - 1)))
        if step.ended is not None and _style(step.ended):
            yield _box(_style(step.ended), column, last, last)


def _style(ended: StepEnd) -> str:
    return "note" if isinstance(ended, AuthorNote) else style_of(ended)


def _box(name: str, column: int, first: int, last: int) -> Markup:
    area = f"grid-area:{first + _FIRST}/{column}/{last + _FIRST + 1}"
    return tag("div", class_=f"box {name}", style=area)


def _place(moments: Sequence[TimelineRow], seq: int) -> int:
    """Return the row to which a record belongs."""
    return min(bisect_left(moments, seq, key=lambda moment: moment.until), len(moments) - 1)
