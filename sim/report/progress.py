"""Progress of a run: a panel on a terminal, an occasional line elsewhere, JSON for tools.

Drawn from the current state; the callers decide when and where it is printed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twopc.sim.report.event_records import event_of
from twopc.sim.report.events import (
    AgentWork,
    DoubtfulStep,
    HistoryEvent,
    OrderStart,
    SessionOutcome,
    StepEnd,
    StepStart,
    StepSuccess,
    WaitEnd,
    WaitStart,
)
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.sentences import waits_for

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Without a terminal a line is printed after this time without other output.
HEARTBEAT_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """The current state of a run."""

    case: str
    """Name of the order that is being played."""
    sessions: Mapping[str, str]
    """The current activity of each session, in a few words."""
    prepared: tuple[str, ...]
    """The sessions that are committing, each with its node."""
    behind: Mapping[str, int]
    """Number of transactions that each Subscriber has not received yet, of those that another one has."""


def standing(records: Sequence[HistoryRecord], subscribers: Sequence[str]) -> RunProgress:
    """Return the state of an order after the records so far.

    Args:
        records: those of the order.
        subscribers: the names of the scenario's Subscribers.
    """
    sessions: dict[str, str] = {}
    open_branches: dict[str, str] = {}
    got: dict[str, set[str]] = {name: set() for name in subscribers}
    for event in map(event_of, records):
        if isinstance(event, OrderStart):
            sessions = dict.fromkeys(event.sessions, "not begun")
        elif event.session in sessions:
            sessions[event.session] = _doing(event, sessions[event.session])
        match event:
            case StepStart(sql="commit"):
                open_branches[event.session] = event.node
            case StepEnd():
                if not isinstance(event, DoubtfulStep):
                    open_branches.pop(event.session, None)
            case AgentWork():
                got.setdefault(event.node, set()).add(event.seqno)
    delivered = set[str]().union(*got.values())
    return RunProgress(
        case=records[0].order if records else "",
        sessions=sessions,
        prepared=tuple(f"{session} at {node}" for session, node in open_branches.items()),
        behind={node: len(delivered - seen) for node, seen in got.items()},
    )


def _doing(event: HistoryEvent, before: str) -> str:
    match event:
        case StepStart():
            return f"runs {event.step or event.sql}"
        case WaitEnd():
            return f"runs {event.step}"
        case WaitStart():
            return f"{event.step} {waits_for(event.wait)}"
        case StepSuccess():
            return "idle"
        case StepEnd():
            return event.kind.replace("_", " ")
        case SessionOutcome():
            return event.message
    return before


def live(
    now: RunProgress, *, scenario: str, done: int, failed: int, elapsed_s: float
) -> RenderableType:
    """Return a panel of a few lines: the sessions' activity, commits in progress, and Subscribers that lag behind."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    text = f"{done} done" + (f", {failed} failed" if failed else "")
    head = Text.assemble(
        (scenario, "bold"),
        f"  {now.case}  ",
        (f"{text} · {elapsed_s:.0f} s", "dim"),
        overflow="ellipsis",
    )
    grid = Table.grid(padding=(0, 2))
    for name, doing in now.sessions.items():
        style = "yellow" if " waits " in doing else "dim" if doing in ("idle", "not begun") else ""
        grid.add_row(Text(f"  {name}"), Text(doing, style=style))
    lines: list[RenderableType] = [head, grid]
    if now.prepared:
        lines.append(Text(f"  committing: {', '.join(now.prepared)}", style="yellow"))
    late = [f"{node} by {count}" for node, count in now.behind.items() if count]
    if late:
        lines.append(Text(f"  behind: {', '.join(late)}", style="dim"))
    return Group(*lines)


def heartbeat(now: RunProgress, *, scenario: str, done: int, elapsed_s: float) -> str:
    """Return one line that says what a run is doing."""
    waiting = [f"{name}: {doing}" for name, doing in now.sessions.items() if " waits " in doing]
    running = [
        f"{name} {doing}" for name, doing in now.sessions.items() if doing.startswith("runs ")
    ]
    what = "; ".join(waiting or running)
    return f"… {elapsed_s:.0f} s, {done} done; {scenario}: {now.case}" + (
        f" ({what})" if what else ""
    )


def as_json(event: str, **fields: Any) -> str:
    """Return one line for a tool: ``{"event": "order", "name": "alice first", "verdict": "pass"}``."""
    return json.dumps({"event": event, **fields}, ensure_ascii=False, default=str)
