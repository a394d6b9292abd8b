"""Records of each step in a history: when the step was sent, what it waited for, how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from twopc.sim.report.history import ENDS, HistoryRecord

#: Outcomes accepted from steps without an expectation.
WELL = frozenset({"ok", "explain", "rolled_back", "skipped"})


@dataclass(slots=True)
class StepRun:
    """Records of one step."""

    invoked: int = -1
    """Sequence number of the record of the step's start; -1 if the step was never sent."""
    ended: HistoryRecord | None = None
    blocked: list[HistoryRecord] = field(default_factory=list)


class Runs:
    """Steps of one case, by name."""

    def __init__(self, records: Sequence[HistoryRecord]) -> None:
        self.records = records
        self._runs: dict[str, StepRun] = {}
        for record in records:
            run = self._runs.setdefault(record.step, StepRun())
            if record.kind == "invoke":
                run.invoked = record.seq
            elif record.kind == "blocked":
                run.blocked.append(record)
            elif record.kind in ENDS:
                run.ended = record
        self._runs.pop("", None)  # records of actions of the order itself

    def of(self, step: str) -> StepRun:
        """Return the records of one step, an empty `StepRun` if it was never sent."""
        return self._runs.get(step, StepRun())

    def named(self) -> list[tuple[str, StepRun]]:
        """Return every step that was sent, in the order of their first records."""
        return list(self._runs.items())

    def any_of(self, *kinds: str) -> bool:
        """Return whether there is a record of one of these kinds."""
        return any(record.kind in kinds for record in self.records)

    def delivered(self, run: StepRun) -> int:
        """Return the number of transactions that a sync has delivered."""
        return len(self._brought(run))

    def calls(self, run: StepRun) -> int:
        """Return the number of calls of routines that a sync has delivered."""
        return sum(int((record.data or {}).get("calls", 0)) for record in self._brought(run))

    def _brought(self, run: StepRun) -> list[HistoryRecord]:
        assert run.ended is not None
        return [
            record
            for record in self.records
            if record.kind == "deliver" and run.invoked < record.seq < run.ended.seq
        ]
