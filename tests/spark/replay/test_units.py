"""Units and lanes: what shares a key stays together, and lanes are about as long as each other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from twopc.sim.spark.replay.units import lanes, units

EDGES = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 20)), max_size=60)


@given(EDGES)
def test_units_are_the_connected_transactions(edges: list[tuple[int, int]]) -> None:
    found = units(edges)
    assert set(found) == {transaction for transaction, _ in edges}
    by_key: dict[int, set[int]] = {}
    for transaction, key in edges:
        by_key.setdefault(key, set()).add(found[transaction])
    assert all(len(of_key) == 1 for of_key in by_key.values())
    # and no more than that: grow each unit from its first transaction
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
    found = lanes(sizes, count)
    assert sorted(unit for lane in found for unit in lane) == sorted(sizes)
    assert len(found) <= count
    assert all(found)
    assert found == lanes(dict(reversed(sizes.items())), count)
    if sizes:
        longest = max(sum(sizes[unit] for unit in lane) for lane in found)
        assert longest <= sum(sizes.values()) / count + max(sizes.values())
