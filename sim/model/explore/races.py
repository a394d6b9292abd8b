"""Dependencies between the events of a run, and races between them.

A *race* consists of two events that depend on each other, neither of which caused the other, without an event
between them that depends on both. A further run is to be tried, which begins with everything before the first
event, followed by those later events that the second one needs (dynamic partial order reduction by source sets, P.
Abdulla, S. Aronis, B. Jonsson and K. Sagonas 2014).

Independent of the effects of events.
"""

from __future__ import annotations

from collections.abc import Iterator

from twopc.sim.model.choosers import WRITE, Choice, Option, Strike


class EventLog:
    """The events of a run so far, by place."""

    def __init__(self) -> None:
        self._names: list[int] = []
        self._options: list[Option] = []
        self._stretches: list[int] = []
        self._seen: list[dict[str, int]] = []
        self._before: list[int] = []
        """For each event, the places of the events that had to precede it, as bits."""
        self._timers = 0
        """Places of timers, as bits."""
        self._places: dict[int, int] = {}
        """Place by stretch."""
        self._seers: dict[str, int] = {}
        """For each object, the places of events that have read or changed it, as bits."""
        self._changers: dict[str, int] = {}
        """For each object, the places of events that have changed it, as bits."""

    def cut(self, length: int) -> None:
        """Forget all events from this place on."""
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
        """Add an event, and yield its races: a place, and names of options of which one must be followed there.

        Args:
            stretch: number by which events that this event causes refer to it.
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
        if is_timer:  # a timer fires only if no other event is possible
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
        """Yield the events that leave no trace if a fault strikes now, and on which no event depends yet.

        Each is a place, and names of options of which one must be followed there, so that the fault strikes without
        the event.
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
        """Return the places of the events on which an event depends, as bits."""
        result = 1 << maker if maker >= 0 else 0
        for what, how in seen.items():
            result |= (self._seers if how == WRITE else self._changers).get(what, 0)
        return result

    def _first(self, place: int, here: int) -> list[int]:
        """Return the names of the events up to `here` that can happen first without the event at `place`."""
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
