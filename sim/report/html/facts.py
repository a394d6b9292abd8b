"""The details below an order's timeline: its refusals, its steps, and its diagrams as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from twopc.sim.report.diagram import diagram, text
from twopc.sim.report.events import (
    AuthorNote,
    ConflictNote,
    HistoryEvent,
    StepEnd,
    StepRefusal,
    StepSuccess,
)
from twopc.sim.report.fold import Fold, PlayedStep
from twopc.sim.report.html.markup import Content, Markup, join, signs, tag
from twopc.sim.report.kinds import KINDS_TABLE
from twopc.sim.report.merge_reports import figures
from twopc.sim.report.merge_sessions import generations, lineage_text
from twopc.sim.report.mermaid import mermaid
from twopc.sim.report.phrases import (
    because,
    call_text,
    counted,
    done_text,
    holder,
    moment_text,
    refusal,
    row_text,
    style_of,
)
from twopc.sim.report.recorded_orders import PlayedOrder
from twopc.sim.report.story import story
from twopc.sim.report.timeline import AGENTS

_COLUMNS = 110
#: Maximum number of steps listed with their times.
STEPS_MAX = 200


def facts(order: PlayedOrder) -> Markup:
    """Return the sections that are unfolded on demand."""
    return tag(
        "div",
        _story(order.fold),
        _refusals(order.fold),
        _sessions(order.fold),
        _conflicts(order.fold),
        _steps(order),
        _folded("Sequence diagram", tag("pre", signs(text(diagram(order, _COLUMNS))), tabindex=0)),
        _folded("The same in Mermaid", tag("pre", mermaid(order), tabindex=0, class_="source")),
        class_="facts",
    )


#: Maximum number of sentences shown of an order.
SENTENCES_MAX = 100


def _story(fold: Fold) -> Content:
    """Return the story of the order."""
    sentences = story(fold)
    if not sentences:
        return None
    left = len(sentences) - SENTENCES_MAX
    more = tag("p", f"and {left} more sentences", class_="faint") if left > 0 else None
    items = (tag("li", signs(each)) for each in sentences[:SENTENCES_MAX])
    return _folded("The story", tag("ol", *items, class_="story"), more)


def _folded(title: str, *content: Content) -> Markup:
    return tag("details", tag("summary", title), *content)


def _refusals(fold: Fold) -> Content:
    refused = fold.of(StepRefusal)
    if not refused:
        return None
    return _folded(counted(len(refused), "refusal"), *map(_refusal, refused))


def _sessions(fold: Fold) -> Content:
    """Return the merge sessions that moved generations, with the changes to them."""
    rows = []
    for ended in fold.of(StepEnd):
        by = ended.step if ended.session else AGENTS
        carried = {each["subscriber"]: figures(each) for each in ended.merge}
        for each in fold.merge_sessions.get(ended.seq, ()):
            texts = [moved.sentence for moved in generations(each)]
            if texts:
                names = f"{each.node} and {each.publisher}"
                how = carried.get(each.node, "ended early")
                cells = (by, names, join(*(tag("div", text) for text in texts)), how)
                rows.append(tag("tr", *(tag("td", cell) for cell in cells)))
    if not rows:
        return None
    heads = ("by", "session of", "generations", "rows")
    return _folded(counted(len(rows), "merge session"), _table(heads, rows, "sessions"))


def _table(heads: Sequence[str], rows: Sequence[Markup], name: str) -> Markup:
    head = tag("thead", tag("tr", *(tag("th", each, scope="col") for each in heads)))
    return tag("table", head, tag("tbody", *rows), class_=name)


def _terms(rows: Sequence[tuple[str, Any]]) -> Markup:
    """Return a list of facts, without those that have no value."""
    terms = [join(tag("dt", name), tag("dd", str(value))) for name, value in rows if value]
    return tag("dl", *terms)


def _conflicts(fold: Fold) -> Content:
    """Return the conflicts that merge sessions recorded, each with the row that is kept."""
    recorded = [each for several in fold.merge_conflicts.values() for each in several]
    if not recorded:
        return None
    return _folded(counted(len(recorded), "conflict"), *map(_conflict, recorded))


def _conflict(conflict: ConflictNote) -> Markup:
    rows = [
        ("type", conflict.type),
        ("row", f"{conflict.table} {row_text(conflict.key)}"),
        ("recorded at", conflict.node),
        ("change of", conflict.origin),
        ("won by", conflict.winner),
        ("what they stand on", lineage_text(conflict)),
        (
            "decided by",
            conflict.why or conflict.resolver or ("priority" if conflict.winner else None),
        ),
        ("row that is kept", row_text(conflict.loser) if conflict.loser else None),
        ("reason", conflict.reason),
    ]
    return tag("div", _terms(rows), class_="refusal")


def _postgres(kind: str) -> str:
    """Return PostgreSQL's name for the same conflict in logical replication; empty if it has none."""
    return " or ".join(KINDS_TABLE[kind][0]) if kind in KINDS_TABLE else ""


def _refusal(refused: StepRefusal) -> Markup:
    facts_ = refused.conflict
    rows = [
        ("kind", refused.refused_as),
        ("row", _row(facts_)),
        ("version it was made from", facts_.get("subscriber_version")),
        ("version at the Publisher", facts_.get("publisher_version")),
        ("row at the Publisher", _publisher_row(facts_)),
        ("PostgreSQL's name for it", _postgres(refused.refused_as)),
        ("SQLSTATE", refused.sqlstate),
        ("number", refused.number or None),
        ("message", refused.message),
        ("global transaction", refused.gid),
    ]
    why = because(refused)
    return tag(
        "div",
        tag("p", tag("b", f"{refused.step} of {refused.session or AGENTS}: "), why)
        if why
        else None,
        _terms(rows),
        class_="refusal",
    )


def _row(conflict: Mapping[str, Any]) -> str:
    key = conflict.get("key")
    article = conflict.get("article") or ""
    return f"{article} {row_text(key)}" if isinstance(key, Mapping) else str(article)


def _publisher_row(conflict: Mapping[str, Any]) -> str:
    row = conflict.get("publisher_row")
    return row_text(row) if isinstance(row, Mapping) else ""


def _steps(order: PlayedOrder) -> Markup:
    """Return the table of steps with the times of each, and a bar to scale."""
    heads = ("session", "step", "took", "waited", "for", "end", "when")
    nodes_of = order.fold.effects
    sent = order.fold.steps
    at_us = {each.seq: each.t_us for each in order.fold.events}
    scale = _Scale(at_us, sent)
    rows = [_step(step, nodes_of, scale) for step in sent[:STEPS_MAX]]
    left = len(sent) - len(rows)
    more = tag("p", f"and {left} more steps in history.jsonl", class_="faint") if left else None
    return _folded("Steps, and how long each took", _table(heads, rows, "steps"), more)


class _Scale:
    """A scale from the start of the first step to the end of the last one, in percent."""

    def __init__(self, at_us: Mapping[int, int], sent: Sequence[PlayedStep]) -> None:
        self._at_us = at_us
        self._first = min((step.invoked.t_us for step in sent), default=0)
        last = max((at_us[step.until] for step in sent), default=1)
        self._whole = max(1, last - self._first)

    def lasting(self, begin: HistoryEvent, until: int) -> int:
        """Return the microseconds from an event to another, which is given by its `seq`."""
        return self._at_us[until] - begin.t_us

    def part(self, name: str, begin: HistoryEvent, until: int) -> Markup:
        """Return a piece of a bar."""
        left = 100 * (begin.t_us - self._first) / self._whole
        width = 100 * self.lasting(begin, until) / self._whole
        return tag("div", class_=name, style=f"left:{left:.1f}%;width:{width:.1f}%")


def _step(step: PlayedStep, nodes_of: Mapping[str, Sequence[str]], scale: _Scale) -> Markup:
    invoked, ended = step.invoked, step.ended
    waited = sum(scale.lasting(blocked, until) for blocked, until in step.waits)
    holders = dict.fromkeys(holder(blocked.wait) for blocked, _ in step.waits)
    bar = [scale.part("took", invoked, step.until)]
    bar += [scale.part("waited", blocked, until) for blocked, until in step.waits]
    cells = (
        tag("td", invoked.session or AGENTS),
        tag("td", tag("code", call_text(invoked))),
        tag("td", "" if ended is None else _ms(ended.t_us - invoked.t_us), class_="number"),
        tag("td", _ms(waited) if step.waits else "", class_="number"),
        tag("td", "; ".join(holders)),
        tag("td", *_end(ended, nodes_of)),
        tag("td", tag("div", *bar, class_="bar", aria_hidden="true")),
    )
    return tag("tr", *cells)


def _end(ended: StepEnd | None, nodes_of: Mapping[str, Sequence[str]]) -> Iterator[Content]:
    if ended is None:
        yield tag("span", "no end", class_="bad")
    elif isinstance(ended, AuthorNote):
        yield tag("span", "a note", class_="note")
    elif isinstance(ended, StepSuccess):
        yield tag("span", done_text(ended, nodes_of), class_=style_of(ended) or None)
    else:
        yield tag("span", refusal(ended), class_=style_of(ended) or None)


def _ms(microseconds: int) -> str:
    text = moment_text(microseconds)
    return f"{text} ms" if text[-1].isdigit() else text
