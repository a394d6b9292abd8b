"""Present state of each session of an order, from its events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twopc.sim.report.events import (
    AuthorNote,
    HistoryEvent,
    SessionOutcome,
    StepEnd,
    StepStart,
    StepSuccess,
    UnsentStep,
    WaitEnd,
    WaitStart,
)
from twopc.sim.report.phrases import WORDS, holder, refusal
from twopc.sim.report.transactions import WRITES


class SessionStates:
    """State of the sessions of one order, updated event by event.

    Args:
        nodes: node of each session.
    """

    def __init__(self, nodes: Mapping[str, str]) -> None:
        self._nodes = nodes
        self._shown = dict.fromkeys(nodes, ("not begun", "faint"))
        self._open: dict[str, bool] = {}
        """Sessions with an open transaction, and whether it has changed rows."""
        self._rolls_to_savepoint: set[str] = set()

    def see(self, event: HistoryEvent) -> None:
        """Take one more event."""
        name = event.session
        if name not in self._shown:
            return
        match event:
            case StepStart():
                self._note(event)
                self._shown[name] = (f"runs {event.sql if event.sql in WORDS else event.step}", "")
            case WaitEnd():
                self._shown[name] = (f"runs {event.step}", "")
            case WaitStart():
                self._shown[name] = (f"{event.step} waits for {holder(event.wait)}", "wait")
            case StepSuccess():
                self._shown[name] = self._done(event)
            case UnsentStep() | AuthorNote():
                pass
            case StepEnd():
                self._shown[name] = (refusal(event), "bad")
            case SessionOutcome(message="committed"):
                self._shown[name] = (event.message, "good")
            case SessionOutcome(message="in doubt"):
                self._shown[name] = (event.message, "bad")

    def _note(self, sent: StepStart) -> None:
        if "to" in sent.sql.lower().split():
            self._rolls_to_savepoint.add(sent.session)
        else:
            self._rolls_to_savepoint.discard(sent.session)

    def _done(self, done: StepSuccess) -> tuple[str, str]:
        name, tag = done.session, done.tag
        if tag == "BEGIN":
            self._open[name] = False
        elif tag == "ROLLBACK" and name not in self._rolls_to_savepoint:
            self._open.pop(name, None)
            return "rolled back", ""
        elif tag == "COMMIT" or done.has_committed:
            self._open.pop(name, None)
            return "committed", "good"
        elif name in self._open and tag.startswith(WRITES) and done.rowcount:
            self._open[name] = True
        if name not in self._open:
            return "idle", ""
        return "in a transaction" + (", with changes" if self._open[name] else ""), ""

    def look(self, state: dict[str, dict[str, Any]]) -> None:
        """Add the present state of each session."""
        for name, (text, style) in self._shown.items():
            state[f"session/{name}"] = {"node": self._nodes[name], "text": text, "style": style}
