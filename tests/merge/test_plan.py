"""The plan of a session: order, slices, first generation and retries."""

from __future__ import annotations

from uuid import UUID

import pytest

from twopc.errors import MergeError
from twopc.merge.marks import Acquaintance, Generation, Marks, acquaintance, start
from twopc.merge.plan import MergeRow, in_order, is_repeated, ordered, slices

GRANDPARENT, PARENT, CHILD = UUID(int=3), UUID(int=2), UUID(int=1)
ORDER = (GRANDPARENT, PARENT, CHILD)


def row(number: int, *, gone: bool = False, length: int = 1) -> MergeRow:
    """Return a row of a session."""
    return MergeRow(
        rowguid=UUID(int=number), gone=gone, lineage="", columns=None, writer=1,
        row=None if gone else "x" * length,
    )  # fmt: skip


def test_parents_come_first() -> None:
    """Parents precede children in any given order; a cycle keeps its order."""
    assert ordered({CHILD: [PARENT], PARENT: [GRANDPARENT], GRANDPARENT: []}) == ORDER
    assert ordered({CHILD: [PARENT], PARENT: [CHILD]}) == (CHILD, PARENT)


def test_deletions_come_before_all_else() -> None:
    """Deletions come first, of children before parents; then rows, of parents before children."""
    changed = {artid: slices(artid, [row(1), row(2, gone=True)]) for artid in ORDER}
    found = [(part.artid, part.rows[0].gone) for part in in_order(ORDER, changed)]
    assert found == [
        (CHILD, True), (PARENT, True), (GRANDPARENT, True),
        (GRANDPARENT, False), (PARENT, False), (CHILD, False),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [([1] * 7, [3, 3, 1]), ([5, 6, 1], [1, 2]), ([50, 1, 50], [1, 1, 1]), ([], [])],
)
def test_slices_are_cut_by_rows_and_by_bytes(lengths: list[int], expected: list[int]) -> None:
    """A slice has at most three rows or ten bytes here; a larger row has its own; none is lost."""
    rows = [row(number, length=length) for number, length in enumerate(lengths)]
    found = slices(CHILD, rows, rows_max=3, bytes_max=10)
    assert [len(part.rows) for part in found] == expected
    assert [each for part in found for each in part.rows] == rows


def marks(replica: int, neighbour: int, sent: int, received: int) -> Marks:
    """Return the marks of one node."""
    return Marks(
        replica=replica,
        neighbour=neighbour,
        sent=sent,
        received=Generation(number=received, guid=UUID(int=received)),
    )


def test_a_session_begins_at_the_lower_mark() -> None:
    """A session begins at the lower mark; a lost acknowledgement or a restore loses nothing."""
    assert start(marks(1, 2, 3, 0), marks(2, 1, 0, 5)) == 3
    assert start(marks(1, 2, 5, 0), marks(2, 1, 0, 3)) == 3
    assert start(Marks(replica=1, neighbour=2), Marks(replica=2, neighbour=1)) == 0


@pytest.mark.parametrize(
    ("known", "is_now", "relation"),
    [
        ((2,), (2,), Acquaintance.SAME),
        ((2,), (5, 2), Acquaintance.RENAMED),
        ((5, 2), (2,), Acquaintance.REWOUND),
        ((5, 2), (7, 2), Acquaintance.RENAMED),
        ((7, 5, 2), (5, 2), Acquaintance.REWOUND),
    ],
)
def test_a_neighbour_that_was_restored(
    known: tuple[int, ...], is_now: tuple[int, ...], relation: Acquaintance
) -> None:
    """A neighbour that was restored is recognised by the replica numbers that it has had."""
    here = Marks(replica=1, neighbour=known[0], neighbour_former=known[1:])
    there = Marks(replica=is_now[0], former=is_now[1:], neighbour=1)
    assert acquaintance("pub", here, "anna", there) is relation


def test_strangers_do_not_merge() -> None:
    """A database other than the known neighbour is refused."""
    with pytest.raises(MergeError, match="anna is not the database that pub has merged with"):
        acquaintance("pub", marks(1, 2, 0, 0), "anna", marks(3, 1, 0, 0))


def test_what_is_tried_again() -> None:
    """A transient error is retried five times, any other error not at all."""
    assert [is_repeated("40P01", attempts) for attempts in (1, 5, 6)] == [True, True, False]
    assert not is_repeated("23505", 1)
    assert not is_repeated(None, 1)
