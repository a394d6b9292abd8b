"""The plan of a session: the order of rows, their division into slices, and retries after a failure. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from uuid import UUID

ROWS_MAX = 1000
"""Maximum rows of a slice: the original's generation_leveling_threshold."""
BYTES_MAX = 8 * 2**20
"""Maximum bytes of a slice's rows, unless a single row has more."""
REPEATED_ROWS_MAX = 50_000
"""Maximum rows of a slice that retries failed rows: rows that exchange values of a key can only succeed together."""
REPEATS_MAX = 5
"""Number of times that a slice is retried (NumDeadlockRetries)."""

#: Deadlock, serialization failure, lock timeout: transient errors, for which a retry can succeed.
_PASSING = {"40P01", "40001", "55P03"}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRow:
    """A changed row in a session; only the two nodes interpret lineage, column versions and row."""

    rowguid: UUID
    gone: bool
    lineage: str
    columns: str | None
    writer: int
    row: str | None
    """The row as text; None if it was deleted."""
    leaves: bool = False
    """Whether the row was not deleted, but has left the Subscriber's partition, and is deleted there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Rows of one article that are applied in one commit."""

    artid: UUID
    gone: bool
    """Whether the rows are deletions: all of them or none."""
    rows: Sequence[MergeRow]
    leaves: bool = False
    """Whether the rows have left the Subscriber's partition: all of them or none."""


def ordered(parents: Mapping[UUID, Collection[UUID]]) -> tuple[UUID, ...]:
    """Return the articles, parents before their children; in the given order if references form a cycle.

    Args:
        parents: for each article those that it references, in the order of their nicknames.
    """
    sorter = TopologicalSorter({each: sorted(others) for each, others in parents.items()})
    try:
        return tuple(each for each in sorter.static_order() if each in parents)
    except CycleError:
        return tuple(parents)


def in_order(order: Sequence[UUID], changed: Mapping[UUID, Sequence[Slice]]) -> Iterator[Slice]:
    """Yield the slices of one direction in the order in which they are applied.

    Deletions come first, those of children before those of their parents; then rows of parents come before those of
    their children.

    Args:
        order: the articles, parents before their children.
        changed: slices of each article.
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
    """Divide the rows of an article into slices.

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
    """Return whether a slice that failed is retried unchanged, after this number of attempts."""
    return sqlstate in _PASSING and attempts <= REPEATS_MAX
