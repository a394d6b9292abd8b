"""The timeline of an order for the terminal: one lane for each session, time downwards.

A pure function of the order's events; `draw` prints it on a rich console.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twopc.sim.report.events import (
    AgentDelivery,
    AgentWork,
    AuthorNote,
    BranchSettlement,
    EchoDelivery,
    HistoryEvent,
    NodeIncident,
    PassedTransaction,
    SessionOutcome,
    SkippedTransaction,
    StepEnd,
    StepStart,
    StepSuccess,
    WaitStart,
)
from twopc.sim.report.fold import Fold
from twopc.sim.report.merge_reports import brings, summary
from twopc.sim.report.merge_sessions import conflict_text, generations, lineages_short, why_text
from twopc.sim.report.phrases import (
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

#: The lane of the agents, which belong to no session.
AGENTS = "agents"
#: The lane of recovery, which belongs to no session either.
RECOVERY = "recovery"
#: Maximum number of rows shown of a table after the last step.
_ROWS_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneEntry:
    """A line of a lane."""

    t_us: int
    """Microseconds since the order's first step; -1 for a further line of the entry before it."""
    seq: int
    """Number of the event with which the entry begins."""
    session: str
    text: str
    style: str = ""
    """Style: good, bad, wait, note, faint, or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The entries of an order, and the tables at its end."""

    lanes: tuple[tuple[str, str], ...]
    """Session and node of each lane, in the order of the scenario file."""
    entries: tuple[LaneEntry, ...]
    after: tuple[tuple[str, str], ...]
    """Table and nodes, with the rows at the end."""


def timeline(fold: Fold) -> Timeline:
    """Return the timeline of one order."""
    lanes = tuple(fold.sessions.items())
    if any(map(_is_of_agents, fold.events)):
        lanes = (*lanes, (AGENTS, ""))
    if fold.settlements:
        lanes = (*lanes, (RECOVERY, ""))
    return Timeline(
        lanes=lanes, entries=tuple(_TimelineText(fold).entries()), after=tuple(_after(fold))
    )


def _is_of_agents(event: HistoryEvent) -> bool:
    """Return whether an event is work of agents; a sync that changed nothing does not count."""
    if event.session:
        return False
    if isinstance(event, StepSuccess):
        return bool(event.step) and brings(event)
    is_of_step = isinstance(event, (StepEnd, WaitStart)) and bool(event.step)
    return is_of_step or isinstance(event, (AgentWork, NodeIncident))


class _TimelineText:
    def __init__(self, fold: Fold) -> None:
        self._fold = fold
        self._events = [
            each
            for each in fold.events
            if (each.session and not isinstance(each, SessionOutcome))
            or _is_of_agents(each)
            or each.seq in fold.settlements
        ]
        self._start_us = self._events[0].t_us if self._events else 0
        self._names = {
            (each.session, each.step): each.sql if each.sql in WORDS else each.step
            for each in fold.of(StepStart)
        }

    def entries(self) -> Iterator[LaneEntry]:
        skip = -1
        for at, event in enumerate(self._events):
            if at == skip:
                continue
            following = self._events[at + 1] if at + 1 < len(self._events) else None
            match event:
                case BranchSettlement():
                    yield from self._settled(event)
                case HistoryEvent(session=""):
                    yield from self._of_agents(event)
                case StepStart() if isinstance(following, StepEnd) and _ends(following, event):
                    skip = at + 1
                    yield from self._whole(event, following)
                case StepStart():
                    yield self._entry(event, call_text(event))
                case StepEnd():
                    yield from self._end(event)
                case _:
                    yield from self._other(event)

    def _settled(self, event: BranchSettlement) -> Iterator[LaneEntry]:
        """Yield how recovery finished a transaction."""
        done = self._fold.settlements[event.seq]
        where = " and ".join(done.nodes)
        style = "good" if done.outcome == "committed" else ""
        yield self._entry(event, f"{settled_text(done)} at {where}", style)
        yield self._more(event, done.reason, "faint")

    def _of_agents(self, event: HistoryEvent) -> Iterator[LaneEntry]:
        """Yield the work of an agent: deliveries, transactions passed over or skipped, and errors."""
        match event:
            case AgentWork():
                yield from self._delivered(self._fold.deliveries[event.seq])
            case NodeIncident():
                yield self._entry(event, happening(event), happening_style(event))
            case WaitStart():
                yield from self._other(event)
            case StepSuccess():
                yield self._entry(event, f"✓ {summary(event)}")
                yield from self._merged(event)
            case StepEnd():
                yield self._entry(event, f"✗ {event.node}: stopped", "bad")
                yield self._more(event, event.message, "faint")
                yield from self._merged(event)

    def _delivered(self, done: AgentWork) -> Iterator[LaneEntry]:
        text, style, below = {
            EchoDelivery: (f"✗ → {done.node}: {done.text}", "bad", "its own, sent back: an echo"),
            AgentDelivery: (f"→ {done.node}: {done.text}", "", f"from {done.origin}"),
            PassedTransaction: (f"{done.node}: its own is not sent back", "faint", ""),
            SkippedTransaction: (f"✗ {done.node}: left out: {done.text}", "bad", done.message),
        }[type(done)]
        yield self._entry(done, text, style)
        if below:
            yield self._more(done, below, "faint")

    def _whole(self, invoked: StepStart, ended: StepEnd) -> Iterator[LaneEntry]:
        """Yield a step that ended before any other event."""
        if isinstance(ended, AuthorNote):
            yield self._entry(invoked, f"» {ended.message}", "note")
        elif isinstance(ended, StepSuccess):
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

    def _end(self, ended: StepEnd) -> Iterator[LaneEntry]:
        """Yield the end of a step that other events separate from its start."""
        name = self._names.get((ended.session, ended.step), ended.step)
        how = (
            done_text(ended, self._fold.effects)
            if isinstance(ended, StepSuccess)
            else refusal(ended)
        )
        yield self._entry(ended, f"{name} {how}".strip(), style_of(ended))
        if not isinstance(ended, StepSuccess):
            yield from self._why(ended)
        yield from self._merged(ended)

    def _merged(self, ended: StepEnd) -> Iterator[LaneEntry]:
        """Yield the changes of merge sessions to generations, and the conflicts that they recorded."""
        for session in self._fold.merge_sessions.get(ended.seq, ()):
            for moved in generations(session):
                yield self._more(ended, moved.short, "faint")
        for each in self._fold.merge_conflicts.get(ended.seq, ()):
            yield self._more(ended, f"✗ {conflict_text(each)}", "wait")
            for text in filter(None, (lineages_short(each), why_text(each))):
                yield self._more(ended, text, "faint")

    def _why(self, ended: StepEnd) -> Iterator[LaneEntry]:
        if why(ended):
            yield self._more(ended, why(ended), "faint")

    def _other(self, event: HistoryEvent) -> Iterator[LaneEntry]:
        for text, style in remarks(event)[:1]:
            yield self._entry(event, text, style)
        for text, style in remarks(event)[1:]:
            yield self._more(event, text, style)

    def _entry(self, event: HistoryEvent, text: str, style: str = "") -> LaneEntry:
        return LaneEntry(
            t_us=event.t_us - self._start_us,
            seq=event.seq,
            session=_lane(event),
            text=text,
            style=style,
        )

    def _more(self, event: HistoryEvent, text: str, style: str) -> LaneEntry:
        return LaneEntry(t_us=-1, seq=event.seq, session=_lane(event), text=text, style=style)


def _lane(event: HistoryEvent) -> str:
    return event.session or (RECOVERY if isinstance(event, BranchSettlement) else AGENTS)


def _ends(ended: StepEnd, invoked: StepStart) -> bool:
    return (ended.session, ended.step) == (invoked.session, invoked.step)


def _after(fold: Fold) -> Iterator[tuple[str, str]]:
    """Yield the tables at the end; nodes with the same rows are grouped."""
    groups: dict[tuple[str, str], list[str]] = {}
    for look in fold.looks("final"):
        rows = look.rows
        shown = ", ".join(row_text(row) for row in rows[:_ROWS_SHOWN]) or "no rows"
        left = look.rowcount - min(len(rows), _ROWS_SHOWN)
        text = shown + (f" and {left} more" if left > 0 else "")
        groups.setdefault((look.table, text), []).append(look.node)
    for (table, text), nodes in groups.items():
        yield f"{table} at {', '.join(nodes)}", text


#: The terminal style of each style.
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
