"""An order as a sequence diagram for the terminal, drawn with characters: one lane for each participant, time
downwards.

A pure function of the records; colour only repeats what the signs say.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from twopc.sim.report.phrases import moment_text
from twopc.sim.report.recorded_orders import PlayedOrder
from twopc.sim.report.sequence import Diagram, Note, SequenceMessage, sequence

#: Width of the time column before the first lane.
_LEFT = 10
#: Minimum width of a lane, whatever their number.
_LANE_MIN = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A line of the diagram."""

    text: str
    style: str = ""
    """Style, as of a `LaneEntry`."""


def diagram(order: PlayedOrder, columns: int = 100) -> list[Line]:
    """Return the lines of one order's diagram."""
    return list(_DiagramText(sequence(order), columns).lines())


class _DiagramText:
    def __init__(self, drawn: Diagram, columns: int) -> None:
        self._drawn = drawn
        self._names = [name for name, _ in drawn.participants]
        self._lane = max(_LANE_MIN, (columns - _LEFT) // max(1, len(self._names)))
        self._at = {name: _LEFT + at * self._lane for at, name in enumerate(self._names)}

    def lines(self) -> Iterator[Line]:
        yield from self._heads()
        if self._drawn.before:
            yield self._beside(self._names[0], f"… {self._drawn.before} earlier", "faint")
        for item in self._drawn.items:
            yield from self._note(item) if isinstance(item, Note) else self._message(item)
        if self._drawn.behind:
            yield self._beside(self._names[0], f"… {self._drawn.behind} later", "faint")

    def _heads(self) -> Iterator[Line]:
        heads = [textwrap.wrap(label, self._lane - 2) for _, label in self._drawn.participants]
        for row in range(max(len(head) for head in heads)):
            cells = [head[row] if row < len(head) else "" for head in heads]
            left = "ms" if row == 0 else ""
            text = "".join(cell.ljust(self._lane) for cell in cells)
            yield Line(text=f"{left:>{_LEFT - 3}}   {text}".rstrip())
        yield self._beside(self._names[0], "")

    def _note(self, note: Note) -> Iterator[Line]:
        lines = textwrap.wrap(note.text, self._lane - 3) or [""]
        indent = "  " if note.style == "faint" else ""
        if indent:
            lines = textwrap.wrap(note.text, self._lane - 5) or [""]
        for at, line in enumerate(lines):
            timed = note.t_us if at == 0 and note.style != "faint" else None
            yield self._beside(note.over, indent + line, note.style, timed)

    def _message(self, message: SequenceMessage) -> Iterator[Line]:
        """Yield a call's text above its arrow; an answer's text within the arrow if there is room."""
        left, right = sorted((self._at[message.source], self._at[message.target]))
        room = right - left - 3
        lane = next(name for name, at in self._at.items() if at == left)
        t_us: int | None = message.t_us
        inside = message.answer and len(message.text) <= room - 8
        if not inside:
            for line in textwrap.wrap(message.text, room):
                yield self._beside(lane, line, message.style, t_us)
                t_us = None
        yield self._arrow(message, message.text if inside else "", t_us)

    def _arrow(self, message: SequenceMessage, text: str, t_us: int | None) -> Line:
        source, target = self._at[message.source], self._at[message.target]
        left, right = min(source, target), max(source, target)
        dash = "╌" if message.answer else "─"
        canvas = list(self._lanes())
        for at in range(left + 1, right):
            canvas[at] = "┼" if canvas[at] == "│" and not text else dash
        canvas[source] = "├" if source < target else "┤"
        head = "✗" if message.lost or message.style == "bad" else ("▶" if source < target else "◀")
        canvas[target - 1 if source < target else target + 1] = head
        if text:
            begin = left + (right - left - len(text)) // 2
            canvas[begin - 1 : begin + len(text) + 1] = f" {text} "
        return Line(text=self._timed("".join(canvas), t_us), style=message.style)

    def _beside(self, lane: str, text: str, style: str = "", t_us: int | None = None) -> Line:
        """Return a line with all lanes and with text to the right of one of them."""
        canvas = list(self._lanes())
        at = self._at[lane] + 2
        canvas[at : at + len(text)] = text
        return Line(text=self._timed("".join(canvas), t_us), style=style)

    def _lanes(self) -> str:
        lanes = ("│".ljust(self._lane) for _ in self._names)
        return " " * _LEFT + "".join(lanes)

    def _timed(self, text: str, t_us: int | None) -> str:
        stamp = "" if t_us is None else moment_text(t_us)
        return f"{stamp:>{_LEFT - 3}}   {text[_LEFT:]}".rstrip()


def text(lines: Sequence[Line]) -> str:
    """Return the lines without colours."""
    return "".join(f"{line.text}\n" for line in lines)
