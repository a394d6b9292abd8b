"""Present state of each session of an order, from its records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.phrases import WORDS, holder, refusal
from twopc.sim.report.transactions import WRITES

_FAILED = ("rejected", "error", "timed_out", "rolled_back", "in_doubt")


class SessionStates:
    """State of the sessions of one order, updated record by record.

    Args:
        nodes: node of each session.
    """

    def __init__(self, nodes: Mapping[str, str]) -> None:
        self._nodes = nodes
        self._shown = dict.fromkeys(nodes, ("not begun", "faint"))
        self._open: dict[str, bool] = {}
        """Sessions with an open transaction, and whether it has changed rows."""
        self._rolls_to_savepoint: set[str] = set()

    def see(self, record: HistoryRecord) -> None:
        """Take one more record."""
        name, kind = record.session, record.kind
        if name not in self._shown:
            return
        if kind in ("invoke", "unblocked"):
            if kind == "invoke":
                self._note(record)
            what = record.sql if record.sql in WORDS else record.step
            self._shown[name] = (f"runs {what}", "")
        elif kind == "blocked":
            self._shown[name] = (f"{record.step} waits for {holder(record.wait or {})}", "wait")
        elif kind in _FAILED:
            self._shown[name] = (refusal(record), "bad")
        elif kind == "ok":
            self._shown[name] = self._done(record)
        elif kind == "outcome" and record.message in ("committed", "in doubt"):
            style = "good" if record.message == "committed" else "bad"
            self._shown[name] = (record.message, style)

    def _note(self, record: HistoryRecord) -> None:
        if "to" in record.sql.lower().split():
            self._rolls_to_savepoint.add(record.session)
        else:
            self._rolls_to_savepoint.discard(record.session)

    def _done(self, record: HistoryRecord) -> tuple[str, str]:
        name, tag = record.session, record.tag
        if tag == "BEGIN":
            self._open[name] = False
        elif tag == "ROLLBACK" and name not in self._rolls_to_savepoint:
            self._open.pop(name, None)
            return "rolled back", ""
        elif tag == "COMMIT" or (record.data or {}).get("committed"):
            self._open.pop(name, None)
            return "committed", "good"
        elif name in self._open and tag.startswith(WRITES) and record.rowcount:
            self._open[name] = True
        if name not in self._open:
            return "idle", ""
        return "in a transaction" + (", with changes" if self._open[name] else ""), ""

    def look(self, state: dict[str, dict[str, Any]]) -> None:
        """Add the present state of each session."""
        for name, (text, style) in self._shown.items():
            state[f"session/{name}"] = {"node": self._nodes[name], "text": text, "style": style}
