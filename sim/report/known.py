"""What the records of an order say, by step, session and node: for whoever looks for a reason.

A pure function of the records, put together once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twopc.sim.report.changes import Author, Change, Changes, changed_text
from twopc.sim.report.history import ENDS, Record
from twopc.sim.report.sentences import listed

#: Because of what, and what speaks against it; empty where nothing is known for sure.
Reasons = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stale:
    """A change of a row that had another version at the Publisher than at the Subscriber that changed it."""

    made: Change
    held: Change
    """What the Subscriber had."""
    lost: Change
    """What the Publisher had."""


class Known:
    """What the records of an order say, by step, session and node."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self.changes = Changes(records)
        self.ended = {
            record.step: record for record in records if record.kind in ENDS and record.step
        }
        self.waits: dict[str, Record] = {}
        for record in records:
            if record.kind == "blocked":
                self.waits.setdefault(record.step, record)
        self.outcomes = {
            record.session: record.message for record in records if record.kind == "outcome"
        }
        self.stuck = next((each for each in records if each.kind == "stuck"), None)
        first = next((each for each in records if each.kind == "order"), None)
        self.twin: Mapping[str, Any] = ((first.data if first else None) or {}).get("twin") or {}

    def refusals(self, session: str = "") -> list[Record]:
        """The steps that were refused, of one session or of all."""
        return [
            record
            for record in self.records
            if record.kind in ("rejected", "error") and session in ("", record.session)
        ]

    def last_of(self, session: str) -> Author | None:
        """The last transaction that a session committed."""
        of = [each for each in self.changes.authors if each.session == session]
        return of[-1] if of else None

    def stale(self, author: Author) -> list[Stale]:
        """The rows that it changed on a copy that was out of date."""
        found = []
        for made in self.changes.made_by(author):
            versions = self.changes.of(made.table, made.key)
            earlier = [each for each in versions if each.number == made.number - 1]
            copies = [
                held
                for node in author.nodes or (author.node,)
                if (held := self.changes.held(node, made.table, made.key, before=author.seq))
            ]
            if earlier and copies and all(one.version != earlier[0].version for one in copies):
                found.append(Stale(made=made, held=copies[0], lost=earlier[0]))
        return found

    def said(self, stale: Stale) -> Reasons:
        """A lost update in words."""
        step = self.changes.step_of(stale.made)
        off = listed(sorted(self.twin.get("protections", ())) or [""])
        without = f", with {off} switched off" if off else ""
        held, lost = stale.held.label, stale.lost.label
        because = (
            f"the Publisher's row {stale.made.name} was {lost} when {step} arrived with {held}, and it "
            f"was accepted{without}"
        )
        maker = self.changes.step_of(stale.lost)
        if not maker:
            return because, ""
        what = f"{held} → {lost}: {changed_text(stale.lost)}"
        return because, f"{maker} ({what}) had been committed before: that change is lost"
