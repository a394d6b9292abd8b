"""Runs of programs in which each event's use of the model's state is recorded.

Only to be imported after `install`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.explore.commuting import Runs
from tests.explore.footprints.accesses import READ, Recorder, note
from tests.explore.footprints.benign import BENIGN
from tests.explore.footprints.conflicts import RecordedRun, RecordingKernel
from tests.explore.footprints.install import unnoted
from tests.explore.generated import generated
from twopc.sim.model.coordinator import _Open


def _note_tests_of_open_transactions() -> None:
    """Have recovery's tests of whether a transaction is open use the engine's own list of them.

    It tests copies of the list; what uses the list itself is benign for this reason.
    """
    test = _Open.__contains__

    def tests(self: Any, key: Any) -> bool:
        note(self._notify.__self__.engine.active, key[1], READ)
        return test(self, key)

    _Open.__contains__ = tests  # type: ignore[method-assign]


_note_tests_of_open_transactions()


@dataclass(slots=True, kw_only=True)
class Survey:
    """What the runs of some programs have shown."""

    conflicts: dict[str, str] = field(default_factory=dict)
    """Conflicts of concurrent events, each with the run that has it."""
    reached: dict[str, None] = field(default_factory=dict)
    """Places from which the search was notified."""
    shown: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Places without which there is a conflict, each with the runs that have it."""
    needed: dict[str, None] = field(default_factory=dict)
    """Entries of the table of benign uses without which there is a conflict."""

    def add(self, name: str, run: RecordedRun) -> None:
        """Add a run."""
        for conflict in run.conflicts():
            self.conflicts.setdefault(str(conflict), name)
        for place in run.shown():
            self.shown[place].append(name)
        self.reached |= dict.fromkeys(sorted(run.reached()))
        self.needed |= run.needed

    def as_json(self) -> dict[str, Any]:
        """Return the results as values of JSON."""
        return {
            "conflicts": [f"{name}: {what}" for what, name in self.conflicts.items()],
            "reached": [*self.reached],
            "shown": self.shown,
            "needed": [*self.needed],
            "unnoted": sorted(unnoted),
        }


def recorded(name: str) -> RecordedRun:
    """Play a run, named by a program's seed and the number of a draw: ``12.0``.

    ``12.0:flush of``: see `Runs.drawn` for the words.
    """
    Recorder.forget()
    name, _, holds = name.partition(":")
    seed, _, draw = name.partition(".")
    program = generated(int(seed))
    events, run = Runs(program.script, program.kinds, RecordingKernel).drawn(
        Random(f"{seed} {draw or 0}"), holds
    )
    kernel, first = run.kernel, -len(events) or None
    assert isinstance(kernel, RecordingKernel)
    return RecordedRun(
        events=events, used=kernel.used[first:], notified=kernel.notified[first:], benign=BENIGN
    )


def survey(names: Iterable[str]) -> Survey:
    """Play runs; see `recorded`."""
    result = Survey()
    for name in names:
        result.add(name, recorded(name))
    return result
