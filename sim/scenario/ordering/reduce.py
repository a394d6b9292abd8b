"""Orders that differ only in the turns of steps which cannot feel each other: one of each kind.

Pure: names and a relation between them. Two steps that depend on each other keep their order in every
order of a class (a trace, as concurrency theory calls it); so what happened is the same in all of them.
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
    """Of each step all that it can have felt, be it through others, and itself; as bits."""
    places: tuple[int, ...]
    """How far each session is."""
    asleep: frozenset[tuple[str, ...]] = frozenset()
    """What need not come next."""
    known: int = 0
    """What is the same for all beginnings of its class and no other."""
    played: int = 0
    """The steps, as bits."""


class Classes:
    """The classes of a space's orders.

    A step that the space puts before another is taken to depend on it; and so a class lies in the
    space wholly or not at all.
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
        self._felt: list[int] = []
        """Of each step those that it depends on and itself, as bits."""
        for one in self._steps:
            bits = 0
            for number, other in enumerate(self._steps):
                if home[one] == home[other] or {one, other} in fixed or dependent(one, other):
                    bits |= 1 << number
            self._felt.append(bits)

    def dependent(self, one: str, other: str) -> bool:
        """Whether two steps may not change their turns."""
        return bool(self._felt[self._number[one]] >> self._number[other] & 1)

    def prefixes(self, order: Sequence[str]) -> Iterator[OrderPrefix]:
        """The first 0, 1, 2 … steps of an order, with what is the same for all of its class."""
        here = self.begin
        yield here
        for step in order:
            here = self._on(here, step)
            yield here

    def key(self, order: Sequence[str]) -> int:
        """What is the same for all orders of its class and no other."""
        return [*self.prefixes(order)][-1].known

    def size(self, order: Sequence[str], together: Sequence[Sequence[str]]) -> int:
        """How many orders are in the class of `order`."""
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
        """Before anything."""
        return OrderPrefix(places=self._space.start)

    def past(self, beginning: OrderPrefix, of: Iterable[str]) -> int:
        """What is the same for all beginnings in which these steps, and whatever came before them and
        could be felt by them, were played in the same way."""
        requested, result = frozenset(of), 0
        for step, past in zip(beginning.steps, beginning.pasts, strict=True):
            if step in requested:
                result |= past
        return beginning.known & self._rows(result)

    def _rows_of(self, steps: int) -> int:
        """The bits of `OrderPrefix.known` that are about these steps."""
        width = len(self._steps)
        row = (1 << width) - 1
        return sum(row << (number * width) for number in range(width) if steps >> number & 1)

    def is_whole(self, beginning: OrderPrefix) -> bool:
        """Whether it is an order."""
        return len(beginning.steps) == len(self._steps)

    def going_on(self, beginning: OrderPrefix) -> Iterator[OrderPrefix]:
        """How the first orders of classes go on that begin so, by rank: by one step, or by several that
        must follow each other at once.

        By sleep sets: once everything that begins with a step has been told, that step need not come
        next again until something that it depends on has happened.
        """
        asleep = beginning.asleep
        for block, after in self._space.blocks(beginning.places):
            if block in asleep or not self._space.ways(after):
                continue
            here = beginning
            for step in block:
                here = self._on(here, step)
            still = frozenset(each for each in asleep if not self._feel(each, block))
            yield replace(here, places=after, asleep=still)
            asleep |= {block}

    def firsts(self) -> Iterator[tuple[str, ...]]:
        """The first order of each class, by rank."""
        return self._firsts(self.begin)

    def _firsts(self, beginning: OrderPrefix) -> Iterator[tuple[str, ...]]:
        if self.is_whole(beginning):
            yield beginning.steps
            return
        for longer in self.going_on(beginning):
            yield from self._firsts(longer)

    def _on(self, here: OrderPrefix, step: str) -> OrderPrefix:
        number = self._number[step]
        played = here.played | 1 << number
        felt = played & self._felt[number]
        past = 1 << number
        for each, before in zip(here.steps, here.pasts, strict=True):
            if felt >> self._number[each] & 1:
                past |= before
        return replace(
            here,
            steps=(*here.steps, step),
            pasts=(*here.pasts, past),
            known=here.known | felt << (number * len(self._steps)),
            played=played,
        )

    def _feel(self, one: Sequence[str], other: Sequence[str]) -> bool:
        return any(self.dependent(a, b) for a in one for b in other)
