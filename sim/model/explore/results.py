"""Settings and results of an exploration."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

#: A run: for each choice, the place of the chosen option among the possible ones.
Choices = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """Limits of a search: the faults in one run, and the extent of the search."""

    faults: int = 1
    of: tuple[str, ...] = ("coordinator",)
    """Kinds of faults: see `twopc.sim.model.explore.strikes.FAULTS`."""
    deviations: int = 2
    """Number of events that may be delayed until all others have happened. Only for a search by bounds."""
    depth: int = 1500
    """Number of choices after which a run counts as endless."""
    runs: int = 1_000_000
    seconds: float = 0.0
    """Time limit; 0 for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenInvariant:
    """A violated invariant, with the run that shows the violation."""

    invariants: tuple[str, ...]
    """All invariants that the run violates."""
    message: str
    """Description of the first violation."""
    choices: Choices
    trace: tuple[str, ...]
    """Started steps, faults, and events that were delayed behind others."""

    @property
    def events(self) -> int:
        """Number of steps, faults, and deviations from the order of virtual time."""
        return len(self.trace)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchFigures:
    """The figures of a search."""

    runs: int
    """Number of replays from the beginning."""
    states: int
    """Number of different states reached."""
    orders: int
    """Number of runs to an end; equivalent ones count once."""
    endings: tuple[str, ...]
    """Different endings, as texts."""
    crash_points: int
    """Number of different moments at which a fault struck."""
    pruned: int
    """Number of choices that were not followed because their continuation is known."""
    seconds: float
    exhausted: bool
    broken: BrokenInvariant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlantedBug:
    """A bug, its source, and the program that shows it."""

    name: str
    why: str
    source: str
    plant: Callable[[Any], Any]
    """Returns a wiring with the bug, made from a wiring."""
    program: str
    """Name of a program in `twopc.sim.model.explore.programs.PROGRAMS`."""
    budget: Budget
    breaks: Sequence[str]
    """Invariants of which the bug must violate one."""
