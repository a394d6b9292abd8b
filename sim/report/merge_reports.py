"""The figures of merge sessions: how many rows were uploaded and downloaded, and notable facts.

Pure functions of events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twopc.sim.report.events import StepEnd

#: Other notable facts of a session, by the field of its report that counts or states them.
_REMARKS = {
    "conflicts": "conflict",
    "deferred": "deferred",
    "retried": "to be tried again",
    "rejected": "undone",
    "resumed": "resumed",
    "anew": "anew, after a backup",
}


def brings(ended: StepEnd) -> bool:
    """Return whether the merge sessions of a sync changed anything or reported a notable fact."""
    return any(
        value
        for each in ended.merge
        for name, value in each.items()
        if name not in ("subscriber", "publisher")
    )


def summary(ended: StepEnd) -> str:
    """Return ``↑1 ↓2, 1 conflict``, with the name of each of several Subscribers; empty if there was no merge
    session.
    """
    several = len(ended.merge) > 1 or not ended.session
    return "; ".join(
        f"{each['subscriber']} {figures(each)}" if several else figures(each)
        for each in ended.merge
    )


def figures(report: Mapping[str, Any]) -> str:
    """Return the figures of one session: ``↑1 ↓2, 1 conflict``."""
    parts = [f"↑{report['uploaded']} ↓{report['downloaded']}"]
    for name, words in _REMARKS.items():
        value = report.get(name)
        if value is True:
            parts.append(words)
        elif value:
            noun = f"{words}s" if name == "conflicts" and value > 1 else words
            parts.append(f"{value} {noun}")
    return ", ".join(parts)
