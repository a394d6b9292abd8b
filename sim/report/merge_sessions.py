"""Merge sessions in sentences, and the conflicts that they recorded.

Pure functions of events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from twopc.sim.report.events import ConflictNote, MergeSessionEnd
from twopc.sim.report.merge_reports import figures
from twopc.sim.report.phrases import row_text


def conflict_text(conflict: ConflictNote) -> str:
    """Describe a conflict: ``customer {id: 1}: update_update, anna has won, {phone: 3} is kept``."""
    where = f"{conflict.table} {row_text(conflict.key)}: {conflict.type}"
    origin = conflict.origin
    if conflict.winner:
        if conflict.loser:
            kept = f"{row_text(conflict.loser)} of {origin} is kept"
        elif conflict.type == "update_wins":
            kept = f"{origin} had deleted it"
        else:
            kept = f"nothing of {origin} is kept"
        return f"{where}, {conflict.winner} has won, {kept}"
    return f"{where} at {conflict.node}, of {origin} ({conflict.reason_code})"


def sentence(report: Mapping[str, Any], who: str) -> str:
    """Describe the work of one session in a sentence; `who`: the sync to which the session belongs."""
    up, down = report["uploaded"], report["downloaded"]
    text = f"{who} merge session of {report['subscriber']} brings {_rows(up)} up and {_rows(down)} down"
    remarks = figures(report).split(", ")[1:]
    return f"{text} ({', '.join(remarks)})" if remarks else text


def lineage_text(conflict: ConflictNote) -> str:
    """Describe the lineages of a conflict's two rows and their consequence; empty if unknown."""
    stood = conflict.stands_on
    if not stood:
        return ""
    brought, held = (row_text(stood[each]) for each in ("incoming", "held"))
    text = f"the row that {conflict.incoming} brings stands on {brought}, that of {conflict.node} on {held}"
    if stood["incoming"] == stood["held"]:
        return (
            f"{text}: on the same changes, and yet they differ: an end was restored from a backup"
        )
    return f"{text}: neither has seen the other's change"


def lineages_short(conflict: ConflictNote) -> str:
    """Return the lineages as ``brought: {anna: 1}, held: {ben: 1}``; empty if unknown."""
    stood = conflict.stands_on
    if not stood:
        return ""
    same = ": an end was restored" if stood["incoming"] == stood["held"] else ""
    return f"brought: {row_text(stood['incoming'])}, held: {row_text(stood['held'])}{same}"


def why_text(conflict: ConflictNote) -> str:
    """Describe why the winner of a conflict won; empty if unknown."""
    return f"{conflict.winner} wins: {conflict.why}" if conflict.why else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationsMoved:
    """The changes of a merge session to the generations of one sender, as parts of sentences."""

    sender: str
    receiver: str
    closed: str
    """The generations that the sender closed, as ``generation 2``; empty if none."""
    arrived: str
    """The generations that the receiver received, as ``generations 1 to 2``; empty if none."""
    acknowledged: str
    """The generations that the receiver newly acknowledged; empty if none."""
    part: str
    """The generation of which only a part has arrived; empty if none."""

    @property
    def is_any(self) -> bool:
        """Whether the session changed anything."""
        return bool(self.closed or self.arrived or self.acknowledged or self.part)

    @property
    def sentence(self) -> str:
        """A sentence: ``anna closes generation 2; pub receives generations 1 to 2 and acknowledges``."""
        text = f"{self.sender} closes {self.closed}" if self.closed else ""
        owned = "" if self.closed else f"{self.sender}'s "
        if self.arrived:
            same = self.arrived == self.closed
            text += f", which {self.receiver} receives" if same else ""
            text += "" if same else f"; {self.receiver} receives {owned}{self.arrived}"
            has_answer = bool(self.acknowledged)
            text += " and acknowledges" if has_answer else f", and {self.sender} is not told"
        elif self.acknowledged:
            text += f"; {self.receiver} acknowledges {self.sender}'s {self.acknowledged}"
        if self.part:
            part = "it" if self.part == self.closed else owned + self.part
            text += f"; a part of {part} is at {self.receiver}"
        return text.removeprefix("; ")

    @property
    def short(self) -> str:
        """A short form: ``anna closes generation 2, generations 1 to 2 → pub ✓``."""
        text = f"{self.sender} closes {self.closed}" if self.closed else f"{self.sender}'s "
        sent = self.arrived or self.acknowledged
        if sent:
            text += ("" if sent == self.closed else ", " * bool(self.closed) + sent) + (
                f" → {self.receiver}{' ✓' if self.acknowledged else ', not acknowledged'}"
            )
        if self.part:
            text += f"{', ' if self.closed or sent else ''}a part of {self.part} → {self.receiver}"
        return text


def generations(session: MergeSessionEnd) -> list[GenerationsMoved]:
    """Return the changes of a merge session to the generations of either end; none for an end without changes."""
    return [each for way in (session.up, session.down) if (each := _moved(way)).is_any]


def _moved(way: Mapping[str, Any]) -> GenerationsMoved:
    has, knows = way["arrived"][1], way["acknowledged"][1]
    return GenerationsMoved(
        sender=way["from"],
        receiver=way["to"],
        closed=_between(*way["closed"]),
        arrived=_between(*way["arrived"]),
        acknowledged=_between(*way["acknowledged"]) if knows == has else "",
        part="" if way["coming"] is None else f"generation {way['coming']}",
    )


def _between(before: int, after: int) -> str:
    """Return ``generations 2 to 3``; empty if there is no new generation."""
    if after <= before:
        return ""
    return f"generation {after}" if after == before + 1 else f"generations {before + 1} to {after}"


def _rows(count: int) -> str:
    return f"{count or 'no'} row{'' if count == 1 else 's'}"
