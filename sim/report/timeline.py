"""The timeline of an order for the terminal: one lane a session, time downwards.

A pure function of the order's records; `draw` puts it on a rich console.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twopc.sim.report.fold import AgentDelivery, Fold
from twopc.sim.report.history import ENDS, HistoryRecord
from twopc.sim.report.merge_reports import brings, summary
from twopc.sim.report.merge_sessions import conflict_text, generations, lineages_short, why_text
from twopc.sim.report.phrases import (
    HAPPENINGS,
    WORDS,
    call_text,
    done_text,
    happening,
    happening_style,
    moment_text,
    refusal,
    remarks,
    row_text,
    settled_text,
    style_of,
    why,
)

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

#: The lane of the agents, who are nobody's session, and what is shown in it.
AGENTS = "agents"
#: The lane of recovery, which is nobody's session either.
RECOVERY = "recovery"
#: Rows of a table that are shown after the last step.
_ROWS_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneEntry:
    """One line of a lane."""

    t_us: int
    """Since the order's first step; -1 for a further line of the entry before it."""
    seq: int
    """The record with which it begins."""
    session: str
    text: str
    style: str = ""
    """"", or how it is to be read: good, bad, wait, note, faint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What happened, and how the tables stood at the end."""

    lanes: tuple[tuple[str, str], ...]
    """Session and node, in the order of the file."""
    entries: tuple[LaneEntry, ...]
    after: tuple[tuple[str, str], ...]
    """Table and nodes, and their rows."""


def timeline(fold: Fold) -> Timeline:
    """The timeline of one order."""
    lanes = tuple(fold.sessions.items())
    if any(_is_of_agents(fold, record) for record in fold.records):
        lanes = (*lanes, (AGENTS, ""))
    if fold.settlements:
        lanes = (*lanes, (RECOVERY, ""))
    return Timeline(
        lanes=lanes, entries=tuple(_TimelineText(fold).entries()), after=tuple(_after(fold))
    )


def _is_of_agents(fold: Fold, record: HistoryRecord) -> bool:
    """Something that agents did; that they found nothing to do is not worth a line."""
    failed = record.kind in ENDS - {"ok"} or record.kind == "blocked" or brings(record)
    text = record.seq in fold.deliveries or record.kind in HAPPENINGS
    return not record.session and (text or (bool(record.step) and failed))


class _TimelineText:
    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._records = [
            record
            for record in fold.records
            if (record.session and record.kind != "outcome")
            or _is_of_agents(fold, record)
            or record.seq in fold.settlements
        ]
        self._start_us = self._records[0].t_us if self._records else 0
        self._names = {
            (record.session, record.step): record.sql if record.sql in WORDS else record.step
            for record in fold.records
            if record.kind == "invoke"
        }

    def entries(self) -> Iterator[LaneEntry]:
        skip = -1
        for at, record in enumerate(self._records):
            if at == skip:
                continue
            following = self._records[at + 1] if at + 1 < len(self._records) else None
            if record.kind == "settled":
                yield from self._settled(record)
            elif not record.session:
                yield from self._of_agents(record)
            elif record.kind == "invoke" and following is not None and _ends(following, record):
                skip = at + 1
                yield from self._whole(record, following)
            elif record.kind == "invoke":
                yield self._entry(record, call_text(record))
            elif record.kind in ENDS:
                yield from self._end(record)
            else:
                yield from self._other(record)

    def _settled(self, record: HistoryRecord) -> Iterator[LaneEntry]:
        """What recovery has done with a transaction."""
        done = self._fold.settlements[record.seq]
        where = " and ".join(done.nodes)
        style = "good" if done.outcome == "committed" else ""
        yield self._entry(record, f"{settled_text(done)} at {where}", style)
        yield self._more(record, done.reason, "faint")

    def _of_agents(self, record: HistoryRecord) -> Iterator[LaneEntry]:
        """What an agent brought, passed over, left out, or stopped at."""
        done = self._fold.deliveries.get(record.seq)
        if done is not None:
            yield from self._delivered(done)
        elif record.kind in HAPPENINGS:
            yield self._entry(record, happening(record), happening_style(record))
        elif record.kind == "blocked":
            yield from self._other(record)
        elif record.kind == "ok":
            yield self._entry(record, f"✓ {summary(record)}")
            yield from self._merged(record)
        else:
            yield self._entry(record, f"✗ {record.node}: stopped", "bad")
            yield self._more(record, record.message, "faint")
            yield from self._merged(record)

    def _delivered(self, done: AgentDelivery) -> Iterator[LaneEntry]:
        text, style, below = {
            "echo": (f"✗ → {done.node}: {done.commands}", "bad", "its own, sent back: an echo"),
            "deliver": (f"→ {done.node}: {done.commands}", "", f"from {done.origin}"),
            "suppress": (f"{done.node}: its own is not sent back", "faint", ""),
            "skip": (f"✗ {done.node}: left out: {done.commands}", "bad", done.record.message),
        }[done.kind]
        yield self._entry(done.record, text, style)
        if below:
            yield self._more(done.record, below, "faint")

    def _whole(self, invoked: HistoryRecord, ended: HistoryRecord) -> Iterator[LaneEntry]:
        """A step that ended before anything else happened."""
        if ended.kind == "explain":
            yield self._entry(invoked, f"» {ended.message}", "note")
        elif ended.kind == "ok":
            yield self._entry(
                invoked,
                f"{call_text(invoked)} {done_text(ended, self._fold.effects)}".strip(),
                style_of(ended),
            )
            yield from self._merged(ended)
        else:
            yield self._entry(invoked, call_text(invoked))
            yield self._more(ended, refusal(ended), style_of(ended))
            yield from self._why(ended)
            yield from self._merged(ended)

    def _end(self, record: HistoryRecord) -> Iterator[LaneEntry]:
        """The end of a step that something else came in between."""
        name = self._names.get((record.session, record.step), record.step)
        how = done_text(record, self._fold.effects) if record.kind == "ok" else refusal(record)
        yield self._entry(record, f"{name} {how}".strip(), style_of(record))
        if record.kind != "ok":
            yield from self._why(record)
        yield from self._merged(record)

    def _merged(self, record: HistoryRecord) -> Iterator[LaneEntry]:
        """What merge sessions did to generations, and the conflicts that they have recorded."""
        for session in self._fold.merge_sessions.get(record.seq, ()):
            for moved in generations(session):
                yield self._more(record, moved.short, "faint")
        for each in self._fold.merge_conflicts.get(record.seq, ()):
            yield self._more(record, f"✗ {conflict_text(each)}", "wait")
            for text in filter(None, (lineages_short(each), why_text(each))):
                yield self._more(record, text, "faint")

    def _why(self, record: HistoryRecord) -> Iterator[LaneEntry]:
        if why(record):
            yield self._more(record, why(record), "faint")

    def _other(self, record: HistoryRecord) -> Iterator[LaneEntry]:
        for text, style in remarks(record)[:1]:
            yield self._entry(record, text, style)
        for text, style in remarks(record)[1:]:
            yield self._more(record, text, style)

    def _entry(self, record: HistoryRecord, text: str, style: str = "") -> LaneEntry:
        return LaneEntry(
            t_us=record.t_us - self._start_us,
            seq=record.seq,
            session=_lane(record),
            text=text,
            style=style,
        )

    def _more(self, record: HistoryRecord, text: str, style: str) -> LaneEntry:
        return LaneEntry(t_us=-1, seq=record.seq, session=_lane(record), text=text, style=style)


def _lane(record: HistoryRecord) -> str:
    return record.session or (RECOVERY if record.kind == "settled" else AGENTS)


def _ends(record: HistoryRecord, invoked: HistoryRecord) -> bool:
    same = record.session == invoked.session and record.step == invoked.step
    return same and record.kind in ENDS


def _after(fold: Fold) -> Iterator[tuple[str, str]]:
    """The tables at the end, nodes with the same rows together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for record in fold.looks("final"):
        rows = record.rows or ()
        shown = ", ".join(row_text(row) for row in rows[:_ROWS_SHOWN]) or "no rows"
        left = (record.rowcount or 0) - min(len(rows), _ROWS_SHOWN)
        text = shown + (f" and {left} more" if left > 0 else "")
        groups.setdefault(((record.data or {})["table"], text), []).append(record.node)
    for (table, text), nodes in groups.items():
        yield f"{table} at {', '.join(nodes)}", text


#: How each style looks in a terminal.
STYLES = {
    "good": "green",
    "bad": "bold red",
    "wait": "yellow",
    "note": "italic cyan",
    "faint": "dim",
    "": "",
}


def draw(drawn: Timeline, console: Console) -> None:
    """Print the timeline."""
    from rich.padding import Padding
    from rich.text import Text

    console.print(Padding(_table(drawn), (0, 0, 0, 4)))
    for name, rows in drawn.after:
        console.print(Padding(Text.assemble(("after  ", "dim"), f"{name}: {rows}"), (0, 0, 0, 5)))


def _table(drawn: Timeline) -> Table:
    from rich import box
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, expand=True)
    table.add_column("ms", justify="right", style="dim", width=6, no_wrap=True)
    for name, node in drawn.lanes:
        table.add_column(
            Text(f"{name} at {node}" if node else name), ratio=3 if node else 2, overflow="fold"
        )
    names = [name for name, _ in drawn.lanes]
    for entry in drawn.entries:
        cells: list[RenderableType] = [""] * len(names)
        if entry.session in names:
            indent = 0 if entry.t_us >= 0 else 2
            text = Text(entry.text, style=STYLES[entry.style])
            cells[names.index(entry.session)] = Padding(text, (0, 0, 0, indent))
        table.add_row(moment_text(entry.t_us) if entry.t_us >= 0 else "", *cells)
    return table
