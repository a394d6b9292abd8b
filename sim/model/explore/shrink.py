"""Shrinking a run that violates an invariant: choices that are not needed for the same violation are left out.

A run consists of its deviations from the order of virtual time. Each is left out in turn, larger parts first (delta
debugging, A. Zeller and R. Hildebrandt 2002).
"""

from __future__ import annotations

from dataclasses import replace

from twopc.sim.model.explore.programs import Script
from twopc.sim.model.explore.results import BrokenInvariant, Budget, Choices
from twopc.sim.model.explore.search import Search
from twopc.sim.model.explore.single import Program
from twopc.sim.model.explore.single import replay as played_again
from twopc.sim.model.wiring import Wiring


def shrink(
    program: Program, wiring: Wiring, budget: Budget, result: BrokenInvariant
) -> BrokenInvariant:
    """Return the shortest run found that violates the first invariant that `result` violates."""
    best = result
    parts = 2
    while True:
        places = [at for at, choice in enumerate(best.choices) if choice]
        if not places or parts > len(places):
            return best
        size = -(-len(places) // parts)
        for start in range(0, len(places), size):
            tried = _without(best.choices, places[start : start + size])
            shorter = played_again(program, wiring, budget, tried)
            if (
                shorter is not None
                and result.invariants[0] in shorter.invariants
                and shorter.events < best.events
            ):
                best, parts = shorter, 2
                break
        else:
            if parts >= len(places):
                return best
            parts = min(len(places), parts * 2)


def fewer(
    script: Script, wiring: Wiring, budget: Budget, result: BrokenInvariant, *, runs: int = 300
) -> tuple[Script, BrokenInvariant]:
    """Return the program and the violation with fewer clients, if some are not needed for the same violation."""
    bounds = replace(budget, deviations=2, runs=runs)
    for name in [*script.clients]:
        if len(script.clients) == 1:
            break
        clients = {one: client for one, client in script.clients.items() if one != name}
        smaller = replace(script, clients=clients)
        shorter = Search(smaller, wiring, bounds).by_bounds().broken
        if shorter is not None and result.invariants[0] in shorter.invariants:
            script, result = smaller, shorter
    return script, result


def _without(choices: Choices, places: list[int]) -> Choices:
    gone = frozenset(places)
    return tuple(0 if at in gone else choice for at, choice in enumerate(choices))


def choices_text(choices: Choices) -> str:
    """Return a run as a short text: ``17:2,40:1`` are the choices that are not the first option."""
    return ",".join(f"{at}:{choice}" for at, choice in enumerate(choices) if choice) or "-"


def read(text: str) -> Choices:
    """Return the choices that `choices_text` has written.

    Raises:
        ValueError: the text has another format.
    """
    if text.strip() in ("", "-"):
        return ()
    pairs = {int(at): int(choice) for at, choice in (one.split(":") for one in text.split(","))}
    return tuple(pairs.get(at, 0) for at in range(max(pairs) + 1))
