"""Classes of equivalent orders, which differ only in the order of independent steps; one order of each is played.

The functions are pure: they take names and a relation. Two dependent steps keep their order in all orders of a
class (a trace in concurrency theory), so that all of these have the same behaviour.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from twopc.sim.scenario.ordering.enumerate import Space

Dependent = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPrefix:
    """The first steps of an order."""

    steps: tuple[str, ...] = ()
    pasts: tuple[int, ...] = ()
    """For each step, itself and the steps that may have affected it, directly or indirectly, as bits."""
    places: tuple[int, ...]
    """Number of steps that each session has played."""
    asleep: frozenset[tuple[str, ...]] = frozenset()
    """Continuations that need not be tried next."""
    known: int = 0
    """Key of the prefix's class: equal for all prefixes of the class and for no others."""
    played: int = 0
    """The steps, as bits."""


class Classes:
    """Equivalence classes of a space's orders.

    A step that the space puts before another is treated as dependent on it, so that either all orders of a class
    are in the space or none.
    """

    def __init__(
        self, space: Space, dependent: Dependent, before: Sequence[tuple[str, str]]
    ) -> None:
        self._space = space
        self._steps = [step for steps in space.sessions for step in steps]
        self._number = {step: number for number, step in enumerate(self._steps)}
        fixed = {frozenset(pair) for pair in before}
        home = {step: number for number, steps in enumerate(space.sessions) for step in steps}
        self._rows = functools.cache(self._rows_of)
        self._dependencies: list[int] = []
        """For each step, itself and the steps on which it depends, as bits."""
        for one in self._steps:
            bits = 0
            for number, other in enumerate(self._steps):
                if home[one] == home[other] or {one, other} in fixed or dependent(one, other):
                    bits |= 1 << number
            self._dependencies.append(bits)

    def dependent(self, one: str, other: str) -> bool:
        """Return whether the order of two steps matters."""
        return bool(self._dependencies[self._number[one]] >> self._number[other] & 1)

    def prefixes(self, order: Sequence[str]) -> Iterator[OrderPrefix]:
        """Yield the first 0, 1, 2 … steps of an order, with the keys of their classes."""
        here = self.begin
        yield here
        for step in order:
            here = self._appended(here, step)
            yield here

    def key(self, order: Sequence[str]) -> int:
        """Return the key of an order's class: equal for all orders of the class and for no others."""
        return [*self.prefixes(order)][-1].known

    def size(self, order: Sequence[str], together: Sequence[Sequence[str]]) -> int:
        """Return the number of orders in the class of `order`."""
        pairs = [
            (one, other)
            for at, other in enumerate(order)
            for one in order[:at]
            if self.dependent(one, other)
        ]
        return Space(self._space.sessions, pairs, together).count

    # -- the first order of each class -------------------------------------------------------------

    @property
    def begin(self) -> OrderPrefix:
        """The empty prefix."""
        return OrderPrefix(places=self._space.start)

    def past(self, beginning: OrderPrefix, of: Iterable[str]) -> int:
        """Return a key of all prefixes in which the steps `of`, and the earlier steps that may have affected them,
        were played in the same way.
        """
        requested, result = frozenset(of), 0
        for step, past in zip(beginning.steps, beginning.pasts, strict=True):
            if step in requested:
                result |= past
        return beginning.known & self._rows(result)

    def _rows_of(self, steps: int) -> int:
        """Return the bits of `OrderPrefix.known` that belong to these steps."""
        width = len(self._steps)
        row = (1 << width) - 1
        return sum(row << (number * width) for number in range(width) if steps >> number & 1)

    def is_whole(self, beginning: OrderPrefix) -> bool:
        """Return whether a prefix is a complete order."""
        return len(beginning.steps) == len(self._steps)

    def going_on(self, beginning: OrderPrefix) -> Iterator[OrderPrefix]:
        """Yield, by rank, the continuations of a prefix that lead to the first orders of classes: by one step, or
        by several that must follow each other immediately.

        The search uses sleep sets: after all orders that begin with a step have been produced, that step need not
        come next again until a step on which it depends has been played.
        """
        asleep = beginning.asleep
        for block, after in self._space.blocks(beginning.places):
            if block in asleep or not self._space.ways(after):
                continue
            here = beginning
            for step in block:
                here = self._appended(here, step)
            still = frozenset(each for each in asleep if not self._any_dependent(each, block))
            yield replace(here, places=after, asleep=still)
            asleep |= {block}

    def firsts(self) -> Iterator[tuple[str, ...]]:
        """Yield the first order of each class, by rank."""
        return self._firsts(self.begin)

    def _firsts(self, beginning: OrderPrefix) -> Iterator[tuple[str, ...]]:
        if self.is_whole(beginning):
            yield beginning.steps
            return
        for longer in self.going_on(beginning):
            yield from self._firsts(longer)

    def _appended(self, here: OrderPrefix, step: str) -> OrderPrefix:
        number = self._number[step]
        played = here.played | 1 << number
        affecting = played & self._dependencies[number]
        past = 1 << number
        for each, before in zip(here.steps, here.pasts, strict=True):
            if affecting >> self._number[each] & 1:
                past |= before
        return replace(
            here,
            steps=(*here.steps, step),
            pasts=(*here.pasts, past),
            known=here.known | affecting << (number * len(self._steps)),
            played=played,
        )

    def _any_dependent(self, one: Sequence[str], other: Sequence[str]) -> bool:
        return any(self.dependent(a, b) for a in one for b in other)
