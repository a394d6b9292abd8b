"""Identity ranges: which values each node may give to rows of a column that counts. Pure.

Each Subscriber has two ranges (`@identity_range`): it goes over to the second in the middle of a statement, and
a session brings a further one once the first is used up to the threshold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from twopc.errors import ArticleError

#: Of a Subscriber, at least: one that is used, and the next.
RANGES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityRanges:
    """How many values a range holds, and when the next is allotted."""

    subscriber: int = 1000
    """Of a client subscription (``@identity_range``), in values."""
    publisher: int = 10_000
    """Of a server subscription, which may allot from it to others (``@pub_identity_range``), in values."""
    threshold_percent: int = 80
    """How much of a range is used up when another is allotted (``@threshold``)."""

    def problems(self) -> Iterator[tuple[str, str]]:
        """Sizes and thresholds that are none: each with the name of the value, and what is wrong with it."""
        for name, size in (("subscriber", self.subscriber), ("publisher", self.publisher)):
            if not 1 <= size <= 1_000_000:
                yield name, f"identity range {name} of {size} values: use 1 to 1000000"
        if not 1 <= self.threshold_percent <= 100:
            yield (
                "threshold_percent",
                f"identity threshold {self.threshold_percent} %: use 1 to 100",
            )

    def check(self, where: str) -> None:
        """Refuse sizes that are none.

        Raises:
            ArticleError: names the value.
        """
        for _, problem in self.problems():
            raise ArticleError(f"{where}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeIdentity:
    """The column of an article whose values are drawn from ranges; the same at every node."""

    column: str
    step: int
    """From one value to the next."""
    ranges: IdentityRanges


@dataclass(frozen=True, slots=True, kw_only=True)
class AllottedRange:
    """Values that a Subscriber may draw, step by step."""

    allotment: int
    """Its number at the Publisher."""
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldValues:
    """What a Subscriber tells a Publisher that was restored from a backup, of one article."""

    ranges: tuple[tuple[int, int], ...]
    """First and last value of each."""
    highest: int | None
    """Of all rows that it has; None: it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangesHeld:
    """What a Subscriber has of the ranges of one article."""

    left: int
    """Values that can still be drawn."""
    size: int
    """How many a range of this node has."""
    threshold_percent: int
    received: int | None
    """The last allotment that has arrived; None: none has, or all were withdrawn."""
    newest: int | None
    """The first value of that one, by which a Publisher that was restored from a backup is recognised."""

    @property
    def is_short(self) -> bool:
        """Also the last range is used up to the threshold: sessions that should have brought others did not."""
        return self.left <= self.size * (100 - self.threshold_percent) // 100

    @property
    def missing(self) -> int:
        """How many values it should be allotted now: whole ranges, until it has more than the threshold leaves."""
        kept = self.size * (100 * RANGES - self.threshold_percent) // 100
        ranges = 0
        while self.left + ranges * self.size <= kept:
            ranges += 1
        return ranges * self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRange:
    """A range that a Subscriber draws from, laid over the places that its sequence counts."""

    allotment: int
    """Its number at the Publisher."""
    first: int
    last: int
    first_place: int
    last_place: int


def runs(values: Iterable[int], step: int) -> list[tuple[int, int]]:
    """First and last value of each run of drawn values that stand step by step; others have drawn what lies between."""
    made: list[tuple[int, int]] = []
    for value in sorted(values):
        if made and value == made[-1][1] + step:
            made[-1] = made[-1][0], value
        else:
            made.append((value, value))
    return made


def laid(
    own: Sequence[OwnRange], allotted: Sequence[AllottedRange], counted: int, step: int
) -> tuple[OwnRange, ...]:
    """A Subscriber's ranges with those that have come; of those that it has already the number may be another.

    Args:
        counted: how many places its sequence has counted.
    """
    numbers = {each.first: each.allotment for each in allotted}
    known = [
        replace(each, allotment=numbers.pop(each.first)) if each.first in numbers else each
        for each in own
    ]
    place = 1 + max(counted, *(each.last_place for each in known), 0)
    for each in sorted(allotted, key=lambda each: each.allotment):
        if each.first in numbers:
            last = place + (each.last - each.first) // step
            known.append(
                OwnRange(
                    allotment=each.allotment,
                    first=each.first,
                    last=each.last,
                    first_place=place,
                    last_place=last,
                )
            )
            place = last + 1
    return tuple(known)


def value_at(own: Iterable[OwnRange], place: int, step: int) -> int | None:
    """What a Subscriber draws at a place of its sequence; None: no range is laid over it."""
    for each in own:
        if each.first_place <= place <= each.last_place:
            return each.first + (place - each.first_place) * step
    return None


def left_over(own: Iterable[OwnRange], counted: int) -> int:
    """How many values a Subscriber can still draw whose sequence has counted so many places."""
    return sum(max(0, each.last_place - max(each.first_place - 1, counted)) for each in own)


def is_among(value: int, ranges: Iterable[AllottedRange | OwnRange]) -> bool:
    """Whether a value lies in one of some ranges."""
    return any(each.first <= value <= each.last for each in ranges)


def shared_range(drawn: int, size: int, step: int) -> AllottedRange:
    """Without the protection: the range that every Subscriber gets, which is nobody's.

    Args:
        drawn: the last value that the Publisher has drawn.
    """
    return AllottedRange(allotment=1, first=drawn + step, last=drawn + RANGES * size * step)
