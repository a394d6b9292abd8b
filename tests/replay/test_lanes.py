"""Which transactions keep their order, and the lanes in which they are carried out."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twopc.sim.replay.engine import RecordedTransaction
from twopc.sim.replay.lanes import Sync, lanes, spread, units

#: Transactions 1 … 6 of the Publisher and Subscribers 1 and 2; 1, 3 and 6 share rows.
WINDOW = [
    RecordedTransaction(number=number, node="", session=of, work=None)
    for number, of in enumerate(("", "1", "2", "1", "2", ""), 1)
]
TOUCHES = [(1, 100), (2, 200), (3, 100), (3, 300), (4, 400), (5, 500), (6, 300)]


def numbers(sync: Sync, count: int, *, knows_rows: bool = True) -> list[list[int]]:
    """Return the transactions of each lane, in its order."""
    found = lanes(sync, WINDOW, count, touches=TOUCHES if knows_rows else None)
    return [[each.number for each in lane] for lane in found]


def test_what_keeps_its_order() -> None:
    assert numbers(Sync.commit, 2) == [[1, 2, 3, 4, 5, 6]]
    assert numbers(Sync.rows, 2) == [[1, 3, 6], [2, 4, 5]]
    # the rows that they share are unknown
    assert numbers(Sync.rows, 2, knows_rows=False) == [[1, 2, 3, 4, 5, 6]]


def test_the_unit_of_a_transaction() -> None:
    """Transactions that keep their order among themselves have the number of the first of them."""
    (one, two) = lanes(Sync.rows, WINDOW, 2, touches=TOUCHES)
    assert {each.number: each.unit for each in (*one, *two)} == {1: 1, 2: 2, 3: 1, 4: 4, 5: 5, 6: 1}
    (all_of_them,) = lanes(Sync.commit, WINDOW, 2)
    assert {each.unit for each in all_of_them} == {1}
    found = lanes(Sync.off, WINDOW, 2)
    assert len({each.unit for lane in found for each in lane}) == 6


def test_a_session_keeps_its_order() -> None:
    """A session keeps its order: three sessions in two lanes, and in three."""
    found = numbers(Sync.session, 2)
    assert len(found) == 2
    for of in ("", "1", "2"):
        mine = [each.number for each in WINDOW if each.session == of]
        assert any([each for each in lane if each in mine] == mine for lane in found)
    assert sorted(numbers(Sync.session, 3)) == [[1, 6], [2, 4], [3, 5]]


def test_without_order_they_are_mixed() -> None:
    (found,) = numbers(Sync.off, 1)
    assert sorted(found) == [1, 2, 3, 4, 5, 6] != found


EDGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), max_size=60)


@given(EDGES)
def test_units_are_the_connected_transactions(edges: list[tuple[int, int]]) -> None:
    found = units(edges)
    assert set(found) == {transaction for transaction, _ in edges}
    by_key: dict[int, set[int]] = {}
    for transaction, key in edges:
        by_key.setdefault(key, set()).add(found[transaction])
    assert all(len(of_key) == 1 for of_key in by_key.values())
    # and no others: grow each unit from its first transaction
    for unit in set(found.values()):
        reached, keys = {unit}, set()
        while True:
            keys = {key for transaction, key in edges if transaction in reached}
            further = {transaction for transaction, key in edges if key in keys}
            if further <= reached:
                break
            reached |= further
        assert reached == {transaction for transaction, of in found.items() if of == unit}
        assert min(reached) == unit


@given(st.dictionaries(st.integers(0, 99), st.integers(1, 50), max_size=30), st.integers(1, 8))
def test_lanes_have_every_unit_once_and_are_even(sizes: dict[int, int], count: int) -> None:
    found = spread(sizes, count)
    assert sorted(unit for lane in found for unit in lane) == sorted(sizes)
    assert len(found) <= count
    assert all(found)
    assert found == spread(dict(reversed(sizes.items())), count)
    if sizes:
        longest = max(sum(sizes[unit] for unit in lane) for lane in found)
        assert longest <= sum(sizes.values()) / count + max(sizes.values())
