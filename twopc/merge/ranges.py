"""Identity ranges: the values of an identity column that each node may use. Pure.

Each Subscriber has two ranges (`@identity_range`): it proceeds to the second even within a statement, and a session
brings a further range once the first is used up to the threshold.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from twopc.errors import ArticleError

#: Minimum number of ranges of a Subscriber: the current one and the next.
RANGES = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentityRanges:
    """Sizes of ranges, and the threshold at which the next is allotted."""

    subscriber: int = 1000
    """Number of values for a client subscription (``@identity_range``)."""
    publisher: int = 10_000
    """Number of values for a server subscription, which may allot from them to others (``@pub_identity_range``)."""
    threshold_percent: int = 80
    """Percentage of a range that is used up when another is allotted (``@threshold``)."""

    @property
    def kept(self) -> int:
        """Number of values that a republisher keeps for itself: two ranges of a client subscription, or one of its
        own ranges if that has fewer values.
        """
        return min(RANGES * self.subscriber, self.publisher)

    def problems(self) -> Iterator[tuple[str, str]]:
        """Yield invalid sizes and thresholds: the name of each, and the problem."""
        for name, size in (("subscriber", self.subscriber), ("publisher", self.publisher)):
            if not 1 <= size <= 1_000_000:
                yield name, f"identity range {name} of {size} values: use 1 to 1000000"
        if not 1 <= self.threshold_percent <= 100:
            yield (
                "threshold_percent",
                f"identity threshold {self.threshold_percent} %: use 1 to 100",
            )

    def check(self, where: str) -> None:
        """Check that sizes and threshold are valid.

        Raises:
            ArticleError: one of them is not; the message names it.
        """
        for _, problem in self.problems():
            raise ArticleError(f"{where}: {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeIdentity:
    """The column of an article whose values are drawn from ranges; the same at every node."""

    column: str
    step: int
    """Difference between one value and the next."""
    ranges: IdentityRanges


@dataclass(frozen=True, slots=True, kw_only=True)
class AllottedRange:
    """Values that a Subscriber may draw, in steps."""

    allotment: int
    """Number of the allotment at the Publisher."""
    first: int
    last: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldValues:
    """A Subscriber's report about one article to a Publisher that was restored from a backup."""

    ranges: tuple[tuple[int, int], ...]
    """First and last value of each range."""
    highest: int | None
    """The highest value in any row of the Subscriber; None if it has no rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangesHeld:
    """A Subscriber's state of the ranges of one article."""

    left: int
    """Number of values that can still be drawn."""
    size: int
    """Number of values in a range of this node."""
    threshold_percent: int
    received: int | None
    """The last allotment received; None if none was, or all were withdrawn."""
    newest: int | None
    """The first value of the last allotment, by which a Publisher that was restored from a backup is recognised."""

    @property
    def is_short(self) -> bool:
        """Whether even the last range is used up to the threshold, because sessions did not bring further ranges."""
        return self.left <= self.size * (100 - self.threshold_percent) // 100

    @property
    def missing(self) -> int:
        """Number of values to allot now: whole ranges, until more values are left than at the threshold."""
        kept = self.size * (100 * RANGES - self.threshold_percent) // 100
        ranges = 0
        while self.left + ranges * self.size <= kept:
            ranges += 1
        return ranges * self.size


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRange(AllottedRange):
    """A range from which a Subscriber draws, mapped to places counted by its sequence."""

    first_place: int
    last_place: int


def runs(values: Iterable[int], step: int) -> list[tuple[int, int]]:
    """Return first and last value of each run of drawn values in steps; other nodes have drawn the values between
    runs.
    """
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
    """Return a Subscriber's ranges extended by newly allotted ones; a range that it already has may get another
    number.

    Args:
        counted: number of places that its sequence has counted.
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
    """Return the value that a Subscriber draws at a place of its sequence; None if no range covers the place."""
    for each in own:
        if each.first_place <= place <= each.last_place:
            return each.first + (place - each.first_place) * step
    return None


def left_over(own: Iterable[OwnRange], counted: int) -> int:
    """Return the number of values that a Subscriber can still draw, given the places that its sequence has counted."""
    return sum(max(0, each.last_place - max(each.first_place - 1, counted)) for each in own)


def is_among(value: int, ranges: Iterable[AllottedRange]) -> bool:
    """Return whether a value lies in one of the ranges."""
    return any(each.first <= value <= each.last for each in ranges)


def shared_range(drawn: int, size: int, step: int) -> AllottedRange:
    """Return the range that every Subscriber gets if the protection is left out.

    Args:
        drawn: the last value that the Publisher has drawn.
    """
    return AllottedRange(allotment=1, first=drawn + step, last=drawn + RANGES * size * step)
