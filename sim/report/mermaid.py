"""An order as a Mermaid sequence diagram: text that GitHub, GitLab and editors can draw."""

from __future__ import annotations

import dataclasses
import re
import textwrap
from collections.abc import Iterator, Sequence

from twopc.sim.report.recorded_orders import PlayedOrder
from twopc.sim.report.sequence import Diagram, Item, Note, sequence

#: Maximum width of a line of a label.
_COLUMNS = 50
#: Mermaid's arrows; its colours are not distinguishable for every reader, nor in a dark theme.
_ARROWS = {"call": "->>", "answer": "-->>", "refused": "--x", "lost": "-x"}


def mermaid(order: PlayedOrder) -> str:
    """Return one ``sequenceDiagram``."""
    return "\n".join(_lines(sequence(order))) + "\n"


def markdown(orders: list[PlayedOrder]) -> str:
    """Return Markdown with one heading and one diagram for each order."""
    return "\n".join(
        f"### {_heading(order.name)}\n\n```mermaid\n{mermaid(order)}```\n" for order in orders
    )


def _lines(diagram: Diagram) -> Iterator[str]:
    yield "sequenceDiagram"
    ids = {name: f"p{at}" for at, (name, _) in enumerate(diagram.participants)}
    for name, label in diagram.participants:
        yield f"    participant {ids[name]} as {_text(label)}"
    everybody = f"p0,p{len(ids) - 1}"
    if diagram.before:
        yield f"    Note over {everybody}: {diagram.before} earlier steps are left out"
    for item in _merged(diagram.items):
        yield f"    {_item(item, ids)}"
    if diagram.behind:
        yield f"    Note over {everybody}: {diagram.behind} later steps are left out"


def _merged(items: Sequence[Item]) -> list[Item]:
    """Return the items; a faint note for the same lane as the note before it is appended to that note as a line."""
    merged: list[Item] = []
    for item in items:
        last = merged[-1] if merged else None
        if (
            isinstance(item, Note)
            and isinstance(last, Note)
            and (item.style, item.over) == ("faint", last.over)
        ):
            merged[-1] = dataclasses.replace(last, text=f"{last.text}\n{item.text}")
        else:
            merged.append(item)
    return merged


def _item(item: Item, ids: dict[str, str]) -> str:
    if isinstance(item, Note):
        return f"Note over {ids[item.over]}: {_text(item.text)}"
    kind = "answer" if item.answer else "call"
    if item.answer and item.style == "bad":
        kind = "refused"
    arrow = _ARROWS["lost" if item.lost else kind]
    return f"{ids[item.source]}{arrow}{ids[item.target]}: {_text(item.text)}"


def _text(text: str) -> str:
    """Return `text` escaped for Mermaid and broken into lines.

    The hourglass is left out, as few fonts have it.
    """
    lines = [
        line
        for part in text.removeprefix("⧗ ").split("\n")
        for line in textwrap.wrap(part, _COLUMNS, break_on_hyphens=False) or [" "]
    ]
    return "<br/>".join(_escaped(line) for line in lines)


def _escaped(text: str) -> str:
    """Return `text` with all but letters, digits and harmless punctuation replaced by character codes."""
    return re.sub(r"[^\w\s.,:=()*+/'✓✗⧗→«»?–-]", lambda result: f"#{ord(result[0])};", text)


def _heading(text: str) -> str:
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", " ".join(text.split()))
