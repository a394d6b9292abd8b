"""What is shown while a run goes on: a panel on a terminal, a line now and then elsewhere, JSON for tools.

Drawn from how everything stands; when and where it is printed, others decide.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from twopc.sim.report.history import ENDS, HistoryRecord
from twopc.sim.report.sentences import waits_for

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Without a terminal a line is printed whenever so much time has passed with nothing else to print.
HEARTBEAT_S = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RunProgress:
    """How a run stands."""

    case: str
    """The order that is being played."""
    sessions: Mapping[str, str]
    """What each session is doing, in a few words."""
    prepared: tuple[str, ...]
    """Branches that wait for a decision, by gid and node."""
    behind: Mapping[str, int]
    """How many committed transactions each Subscriber has not got yet."""


def standing(records: Sequence[HistoryRecord], subscribers: Sequence[str] = ()) -> RunProgress:
    """How an order stands after the records there are."""
    sessions: dict[str, str] = {}
    open_branches: dict[str, str] = {}
    committed: dict[str, str] = {}
    got: dict[str, set[str]] = {name: set() for name in subscribers}
    for record in records:
        if record.kind == "order":
            sessions = dict.fromkeys((record.data or {}).get("sessions", {}), "not begun")
        elif record.session in sessions:
            sessions[record.session] = _doing(record, sessions[record.session])
        if record.sql == "commit" and record.kind == "invoke":
            open_branches[record.session] = record.node
        elif record.kind in ENDS and record.kind != "in_doubt":
            open_branches.pop(record.session, None)
        if (record.data or {}).get("committed"):
            committed[record.gid or f"{record.session} {record.seq}"] = record.node
        elif record.kind in ("deliver", "suppress", "skip"):
            got.setdefault(record.node, set()).add(record.gid)
    return RunProgress(
        case=records[0].order if records else "",
        sessions=sessions,
        prepared=tuple(f"{session} at {node}" for session, node in open_branches.items()),
        behind={
            node: len([gid for gid, at in committed.items() if gid not in seen and at != node])
            for node, seen in got.items()
        },
    )


def _doing(record: HistoryRecord, before: str) -> str:
    if record.kind == "invoke":
        return f"runs {record.step or record.sql}"
    if record.kind == "unblocked":
        return f"runs {record.step}"
    if record.kind == "blocked":
        return f"{record.step} {waits_for(record.wait or {})}"
    if record.kind in ENDS:
        return "idle" if record.kind == "ok" else record.kind.replace("_", " ")
    return record.message if record.kind == "outcome" else before


def live(
    now: RunProgress, *, scenario: str, done: int, failed: int, elapsed_s: float
) -> RenderableType:
    """A panel of a few lines: sessions and their state, what is in doubt, who is behind."""
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
    """One line that says that a run still goes on, and at what."""
    waiting = [f"{name}: {doing}" for name, doing in now.sessions.items() if " waits " in doing]
    running = [
        f"{name} {doing}" for name, doing in now.sessions.items() if doing.startswith("runs ")
    ]
    what = "; ".join(waiting or running)
    return f"… {elapsed_s:.0f} s, {done} done; {scenario}: {now.case}" + (
        f" ({what})" if what else ""
    )


def as_json(event: str, **fields: Any) -> str:
    """One line for a tool: ``{"event": "order", "name": "alice first", "verdict": "pass"}``."""
    return json.dumps({"event": event, **fields}, ensure_ascii=False, default=str)
