"""The identity column of a merged table at a node of the model: drawn values, allotted ranges, and their owners.

As with sequences, no change is undone when a transaction rolls back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from twopc.merge.ranges import (
    AllottedRange,
    IdentityRanges,
    OwnRange,
    RangesHeld,
    is_among,
    laid,
    left_over,
    runs,
    value_at,
)
from twopc.sim.model.values import RowChange, SqlError, Steps

_OWN = "in no identity range of this node"
_DRAWN = "allotted to another node, or not drawn yet"
_REMEDY = "Leave the column out, and the row gets the next value of this node"


@dataclass(frozen=True, slots=True, kw_only=True)
class AllottedTo:
    """A range, and the Subscriber that draws from it."""

    subscriber: str
    range: AllottedRange


@dataclass(slots=True, kw_only=True)
class ModelIdentity:
    """A node's knowledge of the values of one identity column."""

    node: str
    table: str
    column: str
    ranges: IdentityRanges
    is_copy: bool
    """Whether the column is at a Subscriber."""
    highest: int
    """Greatest value of the column's type."""
    step: int = 1
    size: int = 0
    """At a Subscriber: number of values in one of its ranges."""
    counted: int = 0
    """At the topmost Publisher: last value drawn; at a Subscriber: number of places drawn from its ranges."""
    passed: tuple[tuple[int, int], ...] = ()
    """At the topmost Publisher: values that nobody draws, since Subscribers of a restored Publisher hold them."""
    own: tuple[OwnRange, ...] = ()
    """Ranges from which a Subscriber draws."""
    allotted: tuple[AllottedTo, ...] = ()
    """Ranges of others. They stay after a subscription has ended, as no value is allotted twice."""

    @property
    def left(self) -> int:
        """Number of values that can still be drawn here."""
        if self.is_copy:
            return left_over(self.own, self.counted)
        return max(0, (self.highest - self.counted) // self.step)

    def draw(self) -> int:
        """Return the next value. 548 if a Subscriber has used up its ranges."""
        if not self.is_copy:
            if not self.left:
                raise SqlError(
                    "2200H",
                    f'nextval: reached maximum value of sequence "{self.table}_{self.column}_seq" ({self.highest})',
                )
            self.counted += self.step
            return self.counted
        while True:
            self.counted += 1
            value = value_at(self.own, self.counted, self.step)
            if value is not None:
                return value
            if not any(each.last_place > self.counted for each in self.own):
                raise self._used_up()

    def _used_up(self) -> SqlError:
        last = max(self.own, key=lambda each: each.last_place, default=None)
        named = (
            f", the last of them from {last.first} to {last.last}" if last else ": it has none now"
        )
        return SqlError(
            "2200H",
            f"table {self.table} has used up its identity ranges at {self.node} (548){named}",
            hint="A session of the Merge Agent allots new ones: twopc merge sync; begin the transaction again then. "
            "If it brings none, the Publisher has none to allot: twopc merge ranges.",
        )

    @property
    def held(self) -> RangesHeld:
        """The Subscriber's present ranges, as it reports them."""
        newest = max(self.own, key=lambda each: each.allotment, default=None)
        return RangesHeld(
            left=self.left,
            size=self.size,
            threshold_percent=self.ranges.threshold_percent,
            received=None if newest is None else newest.allotment,
            newest=None if newest is None else newest.first,
        )

    def allot(self, subscriber: str, count: int) -> Sequence[AllottedRange]:
        """Draw values for a Subscriber, or fewer if fewer are left, and return their ranges."""
        available = self.left - (self.ranges.kept if self.is_copy else 0)
        drawn = [self.draw() for _ in range(min(count, available))]
        made: list[AllottedRange] = []
        for first, last in runs(drawn, self.step):
            if not any(
                each.range.first <= last and each.range.last >= first for each in self.allotted
            ):
                number = 1 + max((each.range.allotment for each in self.allotted), default=0)
                made.append(AllottedRange(allotment=number, first=first, last=last))
                self._enter(subscriber, made[-1])
        return made

    def allotted_to(self, subscriber: str) -> list[AllottedRange]:
        """Return the ranges that were allotted to a Subscriber."""
        return [each.range for each in self.allotted if each.subscriber == subscriber]

    def _enter(self, subscriber: str, allotted: AllottedRange) -> None:
        self.allotted = (*self.allotted, AllottedTo(subscriber=subscriber, range=allotted))

    def learn(
        self, subscriber: str, held: Sequence[tuple[int, int]], highest: int | None
    ) -> Sequence[AllottedRange] | None:
        """``merge_learn_ranges``: register ranges that were allotted and whose record was lost.

        Returns:
            All of them, with their present numbers; None if another Subscriber has some of them, or the topmost
            Publisher has drawn some since it was restored.
        """
        if not self.is_copy:
            self._pass(max(highest or 0, *(last for _, last in held), 0))
        for each in self.allotted:
            if each.subscriber != subscriber and any(
                first <= each.range.last and last >= each.range.first for first, last in held
            ):
                return None
        known = {each.range.first for each in self.allotted}
        unknown = [(first, last) for first, last in held if first not in known]
        for first, last in unknown:
            if not self.is_copy and not any(a <= first and last <= b for a, b in self.passed):
                return None
        for first, last in unknown:
            number = 1 + max((each.range.allotment for each in self.allotted), default=0)
            self._enter(subscriber, AllottedRange(allotment=number, first=first, last=last))
        firsts = {first for first, _ in held}
        return [each for each in self.allotted_to(subscriber) if each.first in firsts]

    def _pass(self, highest: int) -> None:
        """Draw no value up to one that a Subscriber has."""
        if highest > self.counted:
            *earlier, (first, last) = self.passed or ((self.counted + self.step, self.counted),)
            if last != self.counted:
                earlier, first = [*self.passed], self.counted + self.step
            self.passed = (*earlier, (first, highest))
            self.counted = highest

    def receive(self, allotted: Sequence[AllottedRange]) -> None:
        """Add further ranges, to be used after the present ones. Idempotent."""
        self.own = laid(self.own, allotted, self.counted, self.step)

    def withdraw(self) -> None:
        """Remove all ranges from which values are drawn."""
        self.own = ()

    def refusal(self, value: int) -> SqlError | None:
        """Return the error if an application must not specify this value, else None. 548"""
        is_own = is_among(value, self.own) if self.is_copy else value <= self.counted
        if is_own and not is_among(value, [each.range for each in self.allotted]):
            return None
        hint = _REMEDY
        if not self.is_copy:
            hint += "; for values of your own move the sequence beyond them before (setval)"
        whose = _OWN if self.is_copy else _DRAWN
        return SqlError(
            "23514",
            f"value {value} of column {self.column} of table {self.table} is {whose} (548)",
            hint=f"{hint}.",
        )


class IdentityGuard:
    """``msmerge_idc_<artid>`` and ``msmerge_idu_<artid>``: a trigger that checks values that an application specifies.

    Args:
        identity: returns the node's present knowledge of the column, which restoring a backup replaces.
        place: place of the column in a row.
        passes: returns whether a role's changes are exempt.
    """

    when = "after statement"
    operations = frozenset({"ins", "upd"})
    fires = "always"

    def __init__(
        self,
        table: str,
        identity: Callable[[], ModelIdentity],
        place: int,
        passes: Callable[[str], bool],
    ) -> None:
        self.name = f"msmerge_idc_{table}"
        self._identity = identity
        self._place = place
        self._passes = passes

    def fire(self, tx: Any, table: str, changes: Sequence[RowChange]) -> Steps[None]:
        """Refuse values outside this node's ranges. 548"""
        yield from ()
        if self._passes(tx.session.role):
            return
        for change in changes:
            if change.new is None:
                continue
            value: Any = change.new[self._place]
            if change.old is not None and change.old[self._place] == value:
                continue
            refusal = self._identity().refusal(value)
            if refusal is not None:
                raise refusal
