"""Breadth-first search through all reachable states, as TLC does it.

This module must not depend on the protocol: states are hashable values, and a function returns
their successors.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


class TooManyStatesError(AssertionError):
    """The search has stopped: the configuration has more states than its test allows."""


@dataclass(slots=True, kw_only=True)
class BreadthSearch(Generic[S]):
    """The states in the order in which the search reached them."""

    states: list[S] = field(default_factory=list)
    generated: int = 0
    """Number of initial states and successors, including repeated ones."""
    diameter: int = 0
    """Number of states on the longest of the shortest paths from an initial state."""
    ways: list[list[int]] = field(default_factory=list)
    """For each state, the indexes of its successors *without* a fault."""

    @property
    def distinct(self) -> int:
        """Number of different states."""
        return len(self.states)

    def stuck(self, done: Callable[[S], bool]) -> list[S]:
        """Return the states from which no state that is `done` can be reached without a fault."""
        back: list[list[int]] = [[] for _ in self.states]
        for place, ways in enumerate(self.ways):
            for after in ways:
                back[after].append(place)
        front = [place for place, state in enumerate(self.states) if done(state)]
        good = set(front)
        while front:
            front = [p for after in front for p in back[after] if p not in good]
            front = list(dict.fromkeys(front))
            good.update(front)
        return [state for place, state in enumerate(self.states) if place not in good]


def explore(
    initial: Iterable[S],
    successors: Callable[[S], Iterable[tuple[S, bool]]],
    *,
    states_max: int = 1_000_000,
) -> BreadthSearch[S]:
    """Find all reachable states.

    Args:
        initial: the initial states.
        successors: returns the successors of a state, each with whether it requires a fault.
        states_max: raise `TooManyStatesError` for more states than this.
    """
    search: BreadthSearch[S] = BreadthSearch()
    places: dict[S, int] = {}
    for state in initial:
        search.generated += 1
        if state not in places:
            places[state] = len(search.states)
            search.states.append(state)
    start, end = 0, len(search.states)
    while start < end:
        search.diameter += 1
        for place in range(start, end):
            ways = []
            for after, fault in successors(search.states[place]):
                search.generated += 1
                result = places.get(after)
                if result is None:
                    result = places[after] = len(search.states)
                    search.states.append(after)
                if not fault:
                    ways.append(result)
            search.ways.append(ways)
        start, end = end, len(search.states)
        if end > states_max:
            raise TooManyStatesError(f"{end} states and no end")
    return search
