"""Who carries out which transaction of a window, and in which order."""

from __future__ import annotations

import pytest
from pyspark.sql import Row

from twopc.sim.spark.replay.windows import Sync, Turn, assigned

#: Transactions 1 … 6 of the Publisher and Subscribers 1 and 2; 1, 3 and 6 share rows.
WINDOW = [Row(seqno=n, originator_id=of) for n, of in enumerate((None, 1, 2, 1, 2, None), 1)]
TOUCHES = [(1, 100), (2, 200), (3, 100), (3, 300), (4, 400), (5, 500), (6, 300)]


def by_lane(plan: list[Turn]) -> list[list[int]]:
    """Each lane's transactions in its order."""
    found: dict[int, list[tuple[int, int]]] = {}
    for each in plan:
        found.setdefault(each.lane, []).append((each.place, each.seqno))
    return sorted([seqno for _, seqno in sorted(of_lane)] for of_lane in found.values())


@pytest.mark.parametrize(
    ("sync", "expected"),
    [
        (Sync.commit, [[1, 2, 3, 4, 5, 6]]),
        (Sync.rows, [[1, 3, 6], [2, 4, 5]]),
    ],
)
def test_lanes(sync: Sync, expected: list[list[int]]) -> None:
    assert by_lane(assigned(sync, WINDOW, TOUCHES, 2)) == expected


def test_units() -> None:
    """Whose order is kept among themselves, by their first transaction."""
    found = {each.seqno: each.unit for each in assigned(Sync.rows, WINDOW, TOUCHES, 2)}
    assert found == {1: 1, 2: 2, 3: 1, 4: 4, 5: 5, 6: 1}
    assert {each.unit for each in assigned(Sync.commit, WINDOW, TOUCHES, 2)} == {0}
    assert len({each.unit for each in assigned(Sync.off, WINDOW, TOUCHES, 2)}) == 6


def test_a_node_keeps_its_order() -> None:
    """Three nodes in two lanes."""
    found = by_lane(assigned(Sync.session, WINDOW, TOUCHES, 2))
    assert len(found) == 2
    for of in (None, 1, 2):
        mine = [row.seqno for row in WINDOW if row.originator_id == of]
        assert any([each for each in lane if each in mine] == mine for lane in found)


def test_without_order_they_are_mixed() -> None:
    found = by_lane(assigned(Sync.off, WINDOW, TOUCHES, 1))
    assert sorted(found[0]) == [1, 2, 3, 4, 5, 6] != found[0]
