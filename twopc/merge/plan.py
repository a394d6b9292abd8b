"""How a session goes on: in which order rows travel, in which portions, and what follows a failure. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    rows: tuple[MergeRow, ...]

    @property
    def leaves(self) -> bool:
        """Its rows have left the Subscriber's partition."""
        return self.rows[0].leaves


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


def slices(
    order: Sequence[UUID],
    changed: Mapping[UUID, Sequence[MergeRow]],
    *,
    rows_max: int = ROWS_MAX,
    bytes_max: int = BYTES_MAX,
) -> Iterator[Slice]:
    """What travels in one direction, in the order in which it is applied.

    Deletions of children come before those of their parents, and before all else; then rows of parents come
    before those of their children.

    Args:
        order: the articles, parents before their children.
        changed: rows of each, in any order that is the same at both ends.
    """
    for gone, articles in ((True, tuple(reversed(order))), (False, tuple(order))):
        for artid in articles:
            for leaves in (True, False) if gone else (False,):
                rows = [r for r in changed.get(artid, ()) if (r.gone, r.leaves) == (gone, leaves)]
                yield from _cut(artid, rows, rows_max, bytes_max)


def _cut(artid: UUID, rows: Sequence[MergeRow], rows_max: int, bytes_max: int) -> Iterator[Slice]:
    taken: list[MergeRow] = []
    size = 0
    for row in rows:
        length = len(row.row or "") + len(row.lineage)
        if taken and (len(taken) >= rows_max or size + length > bytes_max):
            yield Slice(artid=artid, rows=tuple(taken))
            taken, size = [], 0
        taken.append(row)
        size += length
    if taken:
        yield Slice(artid=artid, rows=tuple(taken))


def is_repeated(sqlstate: str | None, attempts: int) -> bool:
    """Whether a slice that failed is tried again as it is, after so many attempts."""
    return sqlstate in _PASSING and attempts <= REPEATS_MAX
