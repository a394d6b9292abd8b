"""How a session goes on: in which order rows travel, in which portions, and what follows a failure. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from uuid import UUID

ROWS_MAX = 1000
"""Rows of a slice: the original's generation_leveling_threshold."""
BYTES_MAX = 8 * 2**20
"""Bytes of a slice's rows, unless one row has more."""
REPEATED_ROWS_MAX = 50_000
"""Rows of a slice of what has failed: those that exchange values of a key succeed together, or not at all."""
REPEATS_MAX = 5
"""How often a slice is tried again (NumDeadlockRetries)."""

#: Deadlock, serialization failure, a lock that did not come: time alone mends them.
_PASSING = {"40P01", "40001", "55P03"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRow:
    """A changed row on its way; only the ends look into lineage, column versions and row."""

    rowguid: UUID
    gone: bool
    lineage: str
    columns: str | None
    writer: int
    row: str | None
    """As text; None if it is gone."""
    leaves: bool = False
    """It is not gone, but has left the Subscriber's partition, and is gone there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Rows of one article that are applied in one commit."""

    artid: UUID
    gone: bool
    """All of them are deletions, or none is."""
    rows: Sequence[MergeRow]
    leaves: bool = False
    """They have left the Subscriber's partition, all of them, or none has."""


def ordered(parents: Mapping[UUID, Collection[UUID]]) -> tuple[UUID, ...]:
    """The articles, parents before their children; as they are given where they refer to each other in a circle.

    Args:
        parents: for each article those that it refers to, in the order of their nicknames.
    """
    sorter = TopologicalSorter({each: sorted(others) for each, others in parents.items()})
    try:
        return tuple(each for each in sorter.static_order() if each in parents)
    except CycleError:
        return tuple(parents)


def in_order(order: Sequence[UUID], changed: Mapping[UUID, Sequence[Slice]]) -> Iterator[Slice]:
    """What travels in one direction, in the order in which it is applied.

    Deletions of children come before those of their parents, and before all else; then rows of parents come
    before those of their children.

    Args:
        order: the articles, parents before their children.
        changed: slices of each.
    """
    for gone, articles in ((True, tuple(reversed(order))), (False, tuple(order))):
        for artid in articles:
            for leaves in (True, False) if gone else (False,):
                kind = gone, leaves
                yield from (p for p in changed.get(artid, ()) if (p.gone, p.leaves) == kind)


def slices(
    artid: UUID,
    rows: Sequence[MergeRow],
    *,
    rows_max: int = ROWS_MAX,
    bytes_max: int = BYTES_MAX,
) -> list[Slice]:
    """Rows of an article in portions.

    Args:
        rows: in any order that is the same at both ends.
    """
    wholes = [
        Slice(
            artid=artid,
            gone=gone,
            leaves=leaves,
            rows=[row for row in rows if (row.gone, row.leaves) == (gone, leaves)],
        )
        for gone, leaves in ((True, True), (True, False), (False, False))
    ]
    return [part for whole in wholes for part in _cut(whole, rows_max, bytes_max)]


def _cut(whole: Slice, rows_max: int, bytes_max: int) -> Iterator[Slice]:
    taken: list[MergeRow] = []
    size = 0
    for row in whole.rows:
        length = len(row.row or "") + len(row.lineage)
        if taken and (len(taken) >= rows_max or size + length > bytes_max):
            yield replace(whole, rows=tuple(taken))
            taken, size = [], 0
        taken.append(row)
        size += length
    if taken:
        yield replace(whole, rows=tuple(taken))


def is_repeated(sqlstate: str | None, attempts: int) -> bool:
    """Whether a slice that failed is tried again as it is, after so many attempts."""
    return sqlstate in _PASSING and attempts <= REPEATS_MAX
