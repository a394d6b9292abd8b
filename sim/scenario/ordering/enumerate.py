"""Every order of several sequences that fulfils constraints: counted, told by rank, and listed.

Pure: names in, names out. What is counted is never listed for it: the number of ways to go on depends
only on how far each session is.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

Steps = Sequence[str]
Sessions = Sequence[Steps]
Pairs = Sequence[tuple[str, str]]


class Space:
    """The orders in which each session keeps its own.

    Args:
        sessions: their steps, each in its own order; a step's name occurs once.
        before: pairs of steps, the first of which comes before the second.
        together: steps that follow each other at once, as listed.

    Orders are told in the order of the sessions given: where two could go on, the one whose session
    stands first does so first. Ranks count from 1.
    """

    def __init__(
        self, sessions: Sessions, before: Pairs = (), together: Sequence[Steps] = ()
    ) -> None:
        self.sessions = tuple(tuple(steps) for steps in sessions)
        self._place = {
            step: (number, place)
            for number, steps in enumerate(self.sessions)
            for place, step in enumerate(steps)
        }
        needs: dict[str, dict[int, int]] = {}  # of one session only the last step matters
        for one, other in before:
            if one in self._place and other in self._place:
                number, place = self._place[one]
                of = needs.setdefault(other, {})
                of[number] = max(place, of.get(number, 0))
        self._needs = {step: tuple(of.items()) for step, of in needs.items()}
        self._follows: dict[str, set[str]] = {}
        """What must come at once after a step; two of them can not."""
        for group in together:
            inside = [step for step in group if step in self._place]
            for one, other in itertools.pairwise(inside):
                self._follows.setdefault(one, set()).add(other)
        self._followers = frozenset(step for after in self._follows.values() for step in after)
        bound = {
            *(step for step in needs),
            *(self.sessions[n][place] for of in needs.values() for n, place in of.items()),
            *self._follows,
            *self._followers,
        }
        self._bound = tuple(
            number for number, steps in enumerate(self.sessions) if bound.intersection(steps)
        )
        """The sessions that any constraint is about; the others may go on whenever they like."""
        self._bound_ways = functools.cache(self._ways_of_bound)
        self.ways = functools.cache(self._ways)

    @property
    def start(self) -> tuple[int, ...]:
        """How far each session is before anything."""
        return (0,) * len(self.sessions)

    def blocks(self, places: tuple[int, ...]) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
        """What could come next, each with how far the sessions are afterwards.

        One step, or several that must follow each other at once.
        """
        return self._blocks(places, range(len(self.sessions)))

    def _blocks(
        self, places: tuple[int, ...], sessions: Iterable[int]
    ) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
        for session in sessions:
            steps, place = self.sessions[session], places[session]
            if place == len(steps) or steps[place] in self._followers:
                continue
            block, after = [steps[place]], self._advance(places, steps[place])
            while after is not None and (following := self._follows.get(block[-1])):
                step = next(iter(following))
                after = self._advance(after, step) if len(following) == 1 else None
                block.append(step)
            if after is not None:
                yield tuple(block), after

    def _advance(self, places: tuple[int, ...], step: str) -> tuple[int, ...] | None:
        """How far the sessions are after `step`; None if it cannot come now."""
        session, place = self._place[step]
        ready = all(places[number] > needed for number, needed in self._needs.get(step, ()))
        if places[session] != place or not ready:
            return None
        return (*places[:session], place + 1, *places[session + 1 :])

    def _ways(self, places: tuple[int, ...]) -> int:
        """How many orders go on from there.

        Those of the sessions that are bound are counted step by step; into each of them the steps of the
        others are dealt, though not between those that must follow each other at once.
        """
        left = [len(steps) - place for steps, place in zip(self.sessions, places, strict=True)]
        bound = tuple(place if n in self._bound else 0 for n, place in enumerate(places))
        result = self._bound_ways(bound)
        units = sum(
            step not in self._followers
            for n in self._bound
            for step in self.sessions[n][places[n] :]
        )
        for number, steps in enumerate(left):
            if number not in self._bound:
                units += steps
                result *= math.comb(units, steps)
        return result

    def _ways_of_bound(self, places: tuple[int, ...]) -> int:
        if all(places[number] == len(self.sessions[number]) for number in self._bound):
            return 1
        return sum(self._bound_ways(after) for _, after in self._blocks(places, self._bound))

    @property
    def count(self) -> int:
        """How many orders there are."""
        return self.ways(self.start)

    def unrank(self, rank: int) -> tuple[str, ...]:
        """The order of a rank.

        Raises:
            IndexError: there are not so many.
        """
        if not 1 <= rank <= self.count:
            raise IndexError(f"there is no order {rank}, only {self.count}")
        before, places = rank - 1, self.start
        order: list[str] = []
        while len(order) < len(self._place):
            for block, after in self.blocks(places):
                if before < self.ways(after):
                    order += block
                    places = after
                    break
                before -= self.ways(after)
        return tuple(order)

    def rank(self, order: Steps) -> int:
        """The rank of an order.

        Raises:
            ValueError: it is none of these.
        """
        passed, places, at = 0, self.start, 0
        while at < len(order):
            for block, after in self.blocks(places):
                if tuple(order[at : at + len(block)]) == block and self.ways(after):
                    places, at = after, at + len(block)
                    break
                passed += self.ways(after)
            else:
                raise ValueError(f"{' '.join(order)} cannot be played so from '{order[at]}' on")
        if at != len(self._place):
            raise ValueError(f"{' '.join(order)} leaves out {len(self._place) - at} steps")
        return passed + 1

    def every(self) -> Iterator[tuple[str, ...]]:
        """All of them, by rank."""
        return self._from((), self.start)

    def _from(self, so_far: tuple[str, ...], places: tuple[int, ...]) -> Iterator[tuple[str, ...]]:
        if len(so_far) == len(self._place):
            yield so_far
            return
        for block, after in self.blocks(places):
            if self.ways(after):
                yield from self._from(so_far + block, after)
