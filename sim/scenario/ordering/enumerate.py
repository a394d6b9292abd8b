"""Orders of several sequences under constraints: counted, selected by rank, and listed.

The functions are pure and take names only. Counting does not list the orders: the number of continuations depends
only on the number of steps that each session has played.
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
    """The interleavings of several sessions' steps that fulfil constraints.

    Args:
        sessions: their steps, each in its own order; a step's name occurs once.
        before: pairs of steps, the first of which comes before the second.
        together: steps that follow each other immediately, as listed.

    Orders are sorted by the order of `sessions`: where several sessions could continue, the one listed first
    continues first. Ranks count from 1.
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
        # the last required step of a session implies those before it
        needs: dict[str, dict[int, int]] = {}
        for one, other in before:
            if one in self._place and other in self._place:
                number, place = self._place[one]
                of = needs.setdefault(other, {})
                of[number] = max(place, of.get(number, 0))
        self._needs = {step: tuple(of.items()) for step, of in needs.items()}
        self._follows: dict[str, set[str]] = {}
        """Steps that must follow a step immediately; with two of them there is no order."""
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
        """Sessions with a step in any constraint; the others may continue at any point."""
        self._bound_ways = functools.cache(self._ways_of_bound)
        self.ways = functools.cache(self._ways)

    @property
    def start(self) -> tuple[int, ...]:
        """Number of steps played by each session at the beginning: zeros."""
        return (0,) * len(self.sessions)

    def blocks(self, places: tuple[int, ...]) -> Iterator[tuple[tuple[str, ...], tuple[int, ...]]]:
        """Yield each possible continuation with the numbers of steps that the sessions have played after it.

        A continuation is one step, or several that must follow each other immediately.
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
        """Return the sessions' numbers of played steps after `step`; None if the step is not possible now."""
        session, place = self._place[step]
        ready = all(places[number] > needed for number, needed in self._needs.get(step, ()))
        if places[session] != place or not ready:
            return None
        return (*places[:session], place + 1, *places[session + 1 :])

    def _ways(self, places: tuple[int, ...]) -> int:
        """Return the number of orders that continue from `places`.

        The orders of the sessions with constraints are counted step by step. The steps of each other session are
        then inserted into them, but not between steps that must follow each other immediately.
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
        """Number of orders."""
        return self.ways(self.start)

    def unrank(self, rank: int) -> tuple[str, ...]:
        """Return the order of a rank.

        Raises:
            IndexError: there are fewer orders.
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
        """Return the rank of an order.

        Raises:
            ValueError: the order does not belong to this space.
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
        """Yield all orders by rank."""
        return self._from((), self.start)

    def _from(self, so_far: tuple[str, ...], places: tuple[int, ...]) -> Iterator[tuple[str, ...]]:
        if len(so_far) == len(self._place):
            yield so_far
            return
        for block, after in self.blocks(places):
            if self.ways(after):
                yield from self._from(so_far + block, after)
