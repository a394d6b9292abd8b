"""Identity ranges: which values each node may give to rows of a column that counts. Pure.

Each Subscriber has two ranges (`@identity_range`): it goes over to the second in the middle of a statement, and
a session brings a further one once the first is used up to the threshold.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    def check(self, where: str) -> None:
        """Refuse sizes that are none.

        Raises:
            ArticleError: names the value.
        """
        for name, size in (("subscriber", self.subscriber), ("publisher", self.publisher)):
            if not 1 <= size <= 1_000_000:
                raise ArticleError(
                    f"{where}: identity range {name} of {size} values: use 1 to 1000000"
                )
        if not 1 <= self.threshold_percent <= 100:
            raise ArticleError(
                f"{where}: identity threshold {self.threshold_percent} %: use 1 to 100"
            )


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
