"""What a history says of each step: when it was sent, for whom it waited, how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from twopc.sim.report.history import ENDS, HistoryRecord

#: How steps end of which nothing is expected.
WELL = frozenset({"ok", "explain", "rolled_back", "skipped"})


@dataclass(slots=True)
class StepRun:
    """What became of one step."""

    invoked: int = -1
    """Which record of the history sent it."""
    ended: HistoryRecord | None = None
    blocked: list[HistoryRecord] = field(default_factory=list)


class Runs:
    """The steps of one case, by name."""

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
        self._runs.pop("", None)  # what an order does for a session by itself

    def of(self, step: str) -> StepRun:
        """One step's; empty if it was never sent."""
        return self._runs.get(step, StepRun())

    def named(self) -> list[tuple[str, StepRun]]:
        """Every step that was sent, in that order."""
        return list(self._runs.items())

    def any_of(self, *kinds: str) -> bool:
        """Whether there are records of one of these kinds."""
        return any(record.kind in kinds for record in self.records)

    def delivered(self, run: StepRun) -> int:
        """How many transactions a sync has brought."""
        return len(self._brought(run))

    def calls(self, run: StepRun) -> int:
        """How many calls of routines a sync has brought."""
        return sum(int((record.data or {}).get("calls", 0)) for record in self._brought(run))

    def _brought(self, run: StepRun) -> list[HistoryRecord]:
        assert run.ended is not None
        return [
            record
            for record in self.records
            if record.kind == "deliver" and run.invoked < record.seq < run.ended.seq
        ]
