"""Conflicts of concurrent events of a run: both use a location, one of them changes it, and nothing orders them.

An event is ordered behind another if it depends on it, as recorded, or is caused by it, directly or through others.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.explore.commuting import Event
from tests.explore.footprints.accesses import (
    GROW,
    READ,
    WRITE,
    By,
    Location,
    Recorder,
    Used,
    name_of,
)
from tests.explore.footprints.places import place_of
from twopc.sim.model.choosers import Choice, ChoiceKernel, Option, _label_accesses

#: By object: how its use was notified, and at which place.
Notifications = dict[str, list[tuple[int, str]]]


class RecordingKernel(ChoiceKernel):
    """A kernel that records, for each event, what it uses and where the search is notified."""

    def __init__(self) -> None:
        super().__init__()
        self.used: list[Used] = []
        self.notified: list[Notifications] = []
        self._notified: Notifications = {}

    def fire(self, option: Option) -> dict[str, int]:
        """See `ChoiceKernel`."""
        self._notified = {}
        Recorder.begin()
        try:
            return super().fire(option)
        finally:
            self.used.append(Recorder.end())
            self.notified.append(self._notified)
            self._notified = {}

    def _record_access(self, what: str, changed: bool) -> None:
        now, Recorder.now = Recorder.now, None  # a notification uses nothing
        super()._record_access(what, changed)
        if now is not None:
            how = WRITE if changed else READ
            self._notified.setdefault(what, []).append((how, place_of(sys._getframe(1))))
        Recorder.now = now


def in_conflict(one: int, other: int) -> bool:
    """Whether two uses of a location do not commute."""
    either = one | other
    if either & WRITE:
        return True
    return bool((one & READ and other & GROW) or (one & GROW and other & READ))


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """Two concurrent events that conflict."""

    location: str
    functions: tuple[str, str]
    first: str
    second: str

    def __str__(self) -> str:
        return f"{self.location} | {' | '.join(self.functions)} ({self.first}; {self.second})"


@dataclass(slots=True)
class _Group:
    """The events of a run that use a location in one way, as bits."""

    location: str
    one: By
    other: By
    first: int
    second: int


@dataclass(slots=True, kw_only=True)
class RecordedRun:
    """The events of a run, what they have used, and the notifications of the search.

    Args:
        benign: uses that do not matter; see `tests.explore.footprints.benign`.
    """

    events: Sequence[Event]
    used: Sequence[Used]
    notified: Sequence[Notifications]
    benign: Mapping[str, str]
    needed: dict[str, None] = field(default_factory=dict)
    """Entries of the table without which there would be a conflict."""
    _against: list[int] = field(default_factory=list)
    """For each event, the earlier ones with which it conflicts, as bits."""
    _groups: list[_Group] = field(default_factory=list)
    _before: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._before = self._order([one.seen for one in self.events])
        self._against = [0] * len(self.events)
        for location, by_use in self._uses().items():
            self._compare(location, by_use)

    def conflicts(self) -> Iterator[Conflict]:
        """Yield the conflicts of concurrent events, each location and pair of functions once."""
        seen: set[tuple[str, str, str]] = set()
        for group in self._groups:
            key = (group.location, *_names(group.one)[:1], *_names(group.other)[:1])
            pair = None if key in seen else self._concurrent(group, self._before)
            if pair is not None:
                seen.add(key)
                first, second = (self.events[at].words for at in pair)
                functions = (" < ".join(_names(group.one)), " < ".join(_names(group.other)))
                yield Conflict(
                    location=group.location, functions=functions, first=first, second=second
                )

    def shown(self) -> Iterator[str]:
        """Yield the places that are needed: without their notifications there is a conflict."""
        open_ = [
            against & ~before for against, before in zip(self._against, self._before, strict=True)
        ]
        for name in sorted(self.reached()):
            seen = [self._without(name, at) for at in range(len(self.events))]
            if all(one is event.seen for one, event in zip(seen, self.events, strict=True)):
                continue  # others notify the search of the same
            before = self._order(seen)
            if before == self._before:
                continue
            for at, against in enumerate(self._against):
                if against & ~before[at] & ~open_[at]:
                    yield name
                    break

    def reached(self) -> set[str]:
        """Return the places from which the search was notified."""
        return {
            place
            for each_event in self.notified
            for each in each_event.values()
            for _, place in each
        }

    def _without(self, place: str, at: int) -> dict[str, int]:
        """Return the objects that an event has used, without the notifications of one place."""
        event = self.events[at]
        without = {}
        for what, each in self.notified[at].items():
            if any(one == place for _, one in each):
                without[what] = [how for how, one in each if one != place]
        if not without:
            return event.seen
        given = _given(event.option)
        seen = dict(event.seen)
        for what, left in without.items():
            how = max([*left, given.get(what, 0)])
            if how:
                seen[what] = how
            else:
                seen.pop(what, None)
        return event.seen if seen == event.seen else seen

    def _order(self, seen: Sequence[Mapping[str, int]]) -> list[int]:
        """Return, for each event, those that are ordered before it, as bits."""
        seers: dict[str, int] = defaultdict(int)
        changers: dict[str, int] = defaultdict(int)
        places_: dict[int, int] = {}
        results: list[int] = []
        for at, (event, used) in enumerate(zip(self.events, seen, strict=True)):
            on = 1 << places_[event.maker] if event.maker in places_ else 0
            for what, how in used.items():
                on |= (seers if how == WRITE else changers)[what]
            before, left = on, on
            while left:
                low = left & -left
                before |= results[low.bit_length() - 1]
                left ^= low
            results.append(before)
            for what, how in used.items():
                seers[what] |= 1 << at
                if how == WRITE:
                    changers[what] |= 1 << at
            places_[event.stretch] = at
        return results

    def _uses(self) -> dict[Location, dict[tuple[By, int], int]]:
        """Return, for each location that several events use, the events by function and use, as bits."""
        results: dict[Location, dict[tuple[By, int], int]] = defaultdict(lambda: defaultdict(int))
        for at, used in enumerate(self.used):
            for location, by in used.items():
                for function, how in by.items():
                    results[location][function, how] |= 1 << at
        return {
            location: uses
            for location, uses in results.items()
            if any(how != READ for _, how in uses)
        }

    def _compare(self, location: Location, uses: Mapping[tuple[By, int], int]) -> None:
        name = ""
        each = [*uses.items()]
        for place, ((one, how), first) in enumerate(each):
            for (other, also), second in each[place:]:
                if not in_conflict(how, also) or (first == second and not first & (first - 1)):
                    continue
                name = name or name_of(location)
                group = _Group(name, one, other, first, second)
                entry = _entry(self.benign, name, one, other)
                if entry:
                    if self._concurrent(group, self._before) is not None:
                        self.needed[entry] = None
                    continue
                self._groups.append(group)
                for these, those in ((first, second), (second, first)):
                    for at in _bits(these):
                        self._against[at] |= those & ((1 << at) - 1)

    @staticmethod
    def _concurrent(group: _Group, before: Sequence[int]) -> tuple[int, int] | None:
        """Return two events of a group that are not ordered."""
        for these, those in ((group.first, group.second), (group.second, group.first)):
            for at in _bits(these):
                left = those & ((1 << at) - 1) & ~before[at]
                if left:
                    return left.bit_length() - 1, at
        return None


def _bits(number: int) -> Iterator[int]:
    while number:
        low = number & -number
        yield low.bit_length() - 1
        number ^= low


def _given(option: Option) -> Mapping[str, int]:
    """Return what an event touches by its label, or by what a fault says of itself."""
    if isinstance(option, Choice):
        return _label_accesses(option.label)
    return dict.fromkeys(option.touches, WRITE)


def _names(by: By) -> tuple[str, str]:
    """Return the names of a function and its caller, without those of its parts."""
    return by[0].co_qualname, by[1].co_qualname


def _entry(benign: Mapping[str, str], location: str, one: By, other: By) -> str:
    """Return the entry by which a conflict does not matter; empty if there is none."""
    attribute = location.partition("[")[0]
    for where in (location, attribute, attribute.partition(".")[0]):
        if where in benign:
            return where
        for a, b in ((one, other), (other, one)):
            for first in _names(a):
                if (entry := f"{where} | {first}") in benign:
                    return entry
                for second in _names(b):
                    if (entry := f"{where} | {first} | {second}") in benign:
                        return entry
    return ""
