"""What of a run had to come before what, and which of it might as well have come the other way round.

A *race* is of two events of which neither brought the other about, which depend on each other, and between which
nothing stands that depends on both. What happened before the first of them, followed by what the second needs of
all that came in between, is the beginning of a run that is to be tried, too (dynamic partial order reduction by
source sets, P. Abdulla, S. Aronis, B. Jonsson and K. Sagonas 2014).

It must not know what an event does.
"""

from __future__ import annotations

from collections.abc import Iterator

from twopc.sim.model.choosers import WRITE, Choice, Option, Strike


class EventLog:
    """The events of a run up to now, by their places."""

    def __init__(self) -> None:
        self._names: list[int] = []
        self._options: list[Option] = []
        self._stretches: list[int] = []
        self._seen: list[dict[str, int]] = []
        self._before: list[int] = []
        """Of each the places of those that had to come before it, as bits."""
        self._timers = 0
        """Places of timers."""
        self._places: dict[int, int] = {}
        """By stretch."""
        self._seers: dict[str, int] = {}
        """Places of those that have looked at something or changed it."""
        self._changers: dict[str, int] = {}
        """Of those that have changed it."""

    def cut(self, length: int) -> None:
        """Forget what came later."""
        for stretch in self._stretches[length:]:
            self._places.pop(stretch, None)
        kept = (1 << length) - 1
        for what in {what: None for seen in self._seen[length:] for what in seen}:
            self._seers[what] &= kept
            if what in self._changers:
                self._changers[what] &= kept
        del (
            self._names[length:],
            self._options[length:],
            self._stretches[length:],
            self._seen[length:],
            self._before[length:],
        )
        self._timers &= kept

    def add(
        self, option: Option, seen: dict[str, int], stretch: int
    ) -> Iterator[tuple[int, list[int]]]:
        """One more; its races: each a place, and names of which one must be followed there.

        Args:
            stretch: what its followers call it.
        """
        here, maker = len(self._names), -1
        if isinstance(option, Choice):
            maker = self._places.get(option.maker, -1)
        on = self._needs(seen, maker)
        before = on
        for place in _bits(on):
            before |= self._before[place]
        is_timer = isinstance(option, Choice) and option.is_timer
        self._names.append(option.name)
        self._options.append(option)
        self._stretches.append(stretch)
        self._seen.append(seen)
        for what, how in seen.items():
            self._seers[what] = self._seers.get(what, 0) | 1 << here
            if how == WRITE:
                self._changers[what] = self._changers.get(what, 0) | 1 << here
        self._before.append(before)
        self._places[stretch] = here
        if is_timer:  # nothing else could have happened
            self._timers |= 1 << here
            return
        races = on & ~self._timers
        for place in _bits(on):
            races &= ~self._before[place]
        if maker >= 0:
            races &= ~(1 << maker)
        for place in _bits(races):
            yield place, self._first(place, here)

    def absorbed(self, strike: Strike) -> Iterator[tuple[int, list[int]]]:
        """Events of which nothing is left if it goes wrong now, and on which nothing depends yet.

        Of each its place, and names of which one must be followed there, so that it goes wrong without the event.
        """
        absorbs, last = strike.absorbs, len(self._names) - 1
        if absorbs is None:
            return
        needed = 0
        for before in self._before:
            needed |= before
        for place in range(last, -1, -1):
            option = self._options[place]
            if needed >> place & 1 or not isinstance(option, Choice):
                continue
            if absorbs(option, self._seen[place]):
                yield place, self._first(place, last) if place < last else [strike.name]

    def _needs(self, seen: dict[str, int], maker: int) -> int:
        """Places of those on which it depends."""
        result = 1 << maker if maker >= 0 else 0
        for what, how in seen.items():
            result |= (self._seers if how == WRITE else self._changers).get(what, 0)
        return result

    def _first(self, place: int, here: int) -> list[int]:
        """Names of those that can come first of what happens up to `here` without what is at `place`."""
        results, some = [], 0
        for one in range(place + 1, here + 1):
            before = self._before[one]
            if before >> place & 1 and one != here:
                continue
            if not before & some:
                results.append(self._names[one])
            some |= 1 << one
        return results


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low
