"""What an exploration is told, and what it has found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

#: A run, exactly: of each choice the place of what was chosen among what could have been.
Choices = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """How much may go wrong in one run, and how far a search goes."""

    faults: int = 1
    of: tuple[str, ...] = ("coordinator",)
    """Kinds of faults: see `twopc.sim.model.explore.strikes.FAULTS`."""
    deviations: int = 2
    """So many things may be slow: whatever else can happen does so first. Only in a search by bounds."""
    depth: int = 1500
    """A run of more choices has no end."""
    runs: int = 1_000_000
    seconds: float = 0.0
    """0: as long as it takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenInvariant:
    """An invariant that does not hold, with the run that shows it."""

    invariants: tuple[str, ...]
    """All that are broken."""
    message: str
    """How the first of them shows."""
    choices: Choices
    trace: tuple[str, ...]
    """What was started, what went wrong, and what was slow: others had their turn first."""

    @property
    def events(self) -> int:
        """Steps, faults, and deviations from the order that time would have."""
        return len(self.trace)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFigures:
    """The figures of a search."""

    runs: int
    """Replays from the beginning."""
    states: int
    """Reached by one order or several."""
    orders: int
    """Runs to an end: of equivalent ones, one."""
    endings: tuple[str, ...]
    """The different ways in which it ended, in words."""
    crash_points: int
    """Different moments at which something went wrong."""
    pruned: int
    """Choices not followed, because what follows was seen."""
    seconds: float
    exhausted: bool
    broken: BrokenInvariant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    """A bug, where it comes from, and where it shows."""

    name: str
    why: str
    source: str
    plant: Callable[[Any], Any]
    """Makes a wiring of a wiring."""
    program: str
    """Of `twopc.sim.model.explore.programs.PROGRAMS`."""
    budget: Budget
    breaks: Sequence[str]
    """Invariants: it must break one of these."""
