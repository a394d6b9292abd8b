"""What merge sessions have done, in figures: how many rows went up and down, and what was remarkable.

Pure functions of events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twopc.sim.report.events import StepEnd

#: What may be remarkable about a session besides, by the field of its report that counts it, or says so.
_REMARKS = {
    "conflicts": "conflict",
    "deferred": "deferred",
    "retried": "to be tried again",
    "rejected": "undone",
    "resumed": "resumed",
    "anew": "anew, after a backup",
}


def brings(ended: StepEnd) -> bool:
    """Whether the sessions of a sync have changed anything, or met anything remarkable."""
    return any(
        value
        for each in ended.merge
        for name, value in each.items()
        if name not in ("subscriber", "publisher")
    )


def summary(ended: StepEnd) -> str:
    """``↑1 ↓2, 1 conflict``; of several Subscribers each with its name; empty if it was no merge session."""
    several = len(ended.merge) > 1 or not ended.session
    return "; ".join(
        f"{each['subscriber']} {figures(each)}" if several else figures(each)
        for each in ended.merge
    )


def figures(report: Mapping[str, Any]) -> str:
    """Of one session: ``↑1 ↓2, 1 conflict``."""
    parts = [f"↑{report['uploaded']} ↓{report['downloaded']}"]
    for name, words in _REMARKS.items():
        value = report.get(name)
        if value is True:
            parts.append(words)
        elif value:
            noun = f"{words}s" if name == "conflicts" and value > 1 else words
            parts.append(f"{value} {noun}")
    return ", ".join(parts)
