"""Comparison of two plays of the same order: where the second differs from the first.

The events of the behaviour are compared, each cause before its effects; times, gids and row versions are left out.
Pure functions of the records.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import zip_longest

from twopc.sim.report.behaviour import in_words
from twopc.sim.report.event_records import event_of
from twopc.sim.report.events import HistoryEvent
from twopc.sim.report.fold import causal
from twopc.sim.report.groups import ReportGroup
from twopc.sim.report.history import HistoryRecord, by_order

#: Number of equal events shown before and after a difference.
_AROUND = 3
_MARKS = {"equal": " ", "replace": "≠", "delete": "<", "insert": ">"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayDifference:
    """The first event in which two plays of an order differ."""

    order: str
    place: int
    """The number of common events before the difference."""
    one: str
    """The event in the first play; empty if the first play has no more events."""
    other: str
    common: tuple[str, ...]
    """The last common events before the difference."""
    one_seq: int
    """Number of the record in the first history; -1 if there is none."""

    def text(self, *, named: bool = True) -> str:
        """Return the difference in a few lines, after the order's name if `named`."""
        before = [f"    {each}" for each in self.common]
        if not before:
            before = ["    (from the beginning)"]
        one, other = self.one or "nothing more", self.other or "nothing more"
        name = [self.order] if named else []
        return "\n".join([*name, *before, f"  < {one}", f"  > {other}"])


def first_difference(
    one: Sequence[HistoryRecord], other: Sequence[HistoryRecord]
) -> PlayDifference | None:
    """Return the first difference between two plays of one order; None if they are alike."""
    left, right = _events(one), _events(other)
    for place, (own, others) in enumerate(zip_longest(left, right)):
        if (own and own[1]) == (others and others[1]):
            continue
        named = one or other
        return PlayDifference(
            order=named[0].order if named else "",
            place=place,
            one=own[1] if own else "",
            other=others[1] if others else "",
            common=tuple(text for _, text in left[max(0, place - _AROUND) : place]),
            one_seq=own[0].seq if own else -1,
        )
    return None


def differences(
    one: Sequence[HistoryRecord], other: Sequence[HistoryRecord]
) -> list[PlayDifference]:
    """Return the first difference of each order of two runs; an order in only one run differs from its start."""
    left, right = dict(by_order(one)), dict(by_order(other))
    results = []
    for name in dict.fromkeys((*left, *right)):
        difference = first_difference(left.get(name, []), right.get(name, []))
        if difference is not None:
            results.append(difference)
    return results


def parted(group: ReportGroup) -> str:
    """Return the differences between the repeats of an order and its first play; empty if there are none."""
    if not group.unstable:
        return ""
    first, *others = [of[0] for of in group.alike.values()]
    lines = []
    for other in others:
        difference = first_difference(first.records, other.records)
        if difference is not None:
            lines.append(f"< {first.name}\n> {other.name}\n{difference.text(named=False)}")
    return "\n".join(lines)


def side_by_side(
    one: Sequence[HistoryRecord], other: Sequence[HistoryRecord], *, width: int = 100
) -> str:
    """Return both plays of an order in two columns, with long equal stretches left out.

    In the middle ``≠`` marks a difference, ``<`` an event of the first play only, ``>`` one of the second only.
    """
    left = [text for _, text in _events(one)]
    right = [text for _, text in _events(other)]
    column = max(20, (width - 5) // 2)
    lines: list[str] = []
    blocks = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    for at, (what, i, j, k, m) in enumerate(blocks):
        rows = list(zip_longest(left[i:j], right[k:m], fillvalue=""))
        if what == "equal":
            rows = _shortened(rows, first=at == 0, last=at == len(blocks) - 1)
        for own, others in rows:
            mark = _MARKS[what]
            if what == "replace":
                mark = "≠" if own and others else "<" if own else ">"
            lines += _row(own, mark, others, column)
    return "\n".join(lines) + "\n"


def _events(records: Sequence[HistoryRecord]) -> list[tuple[HistoryEvent, str]]:
    return list(in_words(causal([event_of(record) for record in records])))


def _shortened(rows: list[tuple[str, str]], *, first: bool, last: bool) -> list[tuple[str, str]]:
    """Return equal rows shortened to a few rows next to each difference."""
    before = 0 if first else _AROUND
    behind = 0 if last else _AROUND
    left_out = len(rows) - before - behind
    if left_out <= 1:
        return rows
    text = f"… {left_out} alike"
    return [*rows[:before], (text, text), *rows[len(rows) - behind :]]


def _row(own: str, mark: str, others: str, column: int) -> Iterator[str]:
    left, right = textwrap.wrap(own, column) or [""], textwrap.wrap(others, column) or [""]
    for at, (one, other) in enumerate(zip_longest(left, right, fillvalue="")):
        yield f"{one:<{column}}  {mark if at == 0 else ' '}  {other}".rstrip()
