"""Every planted bug must be found: ``python -m tests.explore.plants`` looks for all, and says how long it took.

python -m tests.explore.plants [NAME …]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from tests.explore.small import PROGRAMS
from twopc.sim.model.explore.results import BrokenInvariant, PlantedBug
from twopc.sim.model.explore.search import by_bounds
from twopc.sim.model.plants import PLANTS
from twopc.sim.model.wiring import Wiring

#: A trace that nobody can follow is of no use.
EVENTS_MAX = 12


def say(text: str) -> None:
    """A line, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def find(plant: PlantedBug) -> tuple[BrokenInvariant | None, int]:
    """What a search for it finds, and after how many runs."""
    found = by_bounds(PROGRAMS[plant.program], plant.plant(Wiring()), plant.budget)
    return found.broken, found.runs


def wrong(plant: PlantedBug, found: BrokenInvariant | None) -> str:
    """What is wrong with what was found; empty if nothing is."""
    if found is None:
        return "not found"
    if not set(found.invariants) & set(plant.breaks):
        return f"{found.invariants} are broken, none of {', '.join(plant.breaks)}: {found.message}"
    if found.events > EVENTS_MAX:
        return f"a trace of {found.events} events"
    return ""


def main(names: Sequence[str]) -> int:
    """Look for all, or for those named; 1 if one is not found."""
    bad = 0
    began = time.monotonic()
    for name in names or list(PLANTS):
        plant = PLANTS[name]
        start = time.monotonic()
        found, runs = find(plant)
        why = wrong(plant, found)
        bad += bool(why)
        shown = f"{' '.join(found.invariants)}, {found.events} events" if found is not None else ""
        say(f"{name:24} {why or shown:40} {runs:5} runs {time.monotonic() - start:6.1f} s")
        if found is not None and (why or names):
            say(f"    {found.message}")
            for line in found.trace:
                say(f"    {line}")
    say(
        f"{len(names or PLANTS)} planted bugs, {bad} not found as they should be, {time.monotonic() - began:.1f} s"
    )
    return min(bad, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
