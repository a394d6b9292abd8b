"""Which keys are picked, and how often."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from twopc.sim.workload.keys import picker

COUNT, DRAWS = 1000, 40_000


def drawn(how: str, count: int = COUNT) -> Counter[int]:
    """Return how often each key is picked."""
    of, picks = random.Random("7/keys"), picker(how, count)
    return Counter(picks.pick(of) for _ in range(DRAWS))


@pytest.mark.parametrize("count", [1, 2, 3, COUNT])
@pytest.mark.parametrize(
    "how", ["uniform", "latest", "zipfian 0.9", "zipfian 1.2", "hotspot 20%/80%"]
)
def test_every_key_is_there(how, count):
    found = drawn(how, count)
    assert set(found) <= set(range(1, count + 1))
    assert len(found) == count or count == COUNT


@pytest.mark.parametrize("theta", [0.5, 0.9, 0.99, 1, 1.5])
def test_zipfian(theta):
    """The first ranks have the frequency of the distribution; later ones are close to it."""
    found = drawn(f"zipfian {theta}")
    weights = [1 / rank**theta for rank in range(1, COUNT + 1)]
    for rank in (1, 2):
        wanted = DRAWS * weights[rank - 1] / sum(weights)
        assert found[rank] == pytest.approx(wanted, rel=0.15, abs=30)
    top, wanted_top = (
        sum(found[key] for key in range(1, 101)),
        DRAWS * sum(weights[:100]) / sum(weights),
    )
    assert top == pytest.approx(wanted_top, rel=0.1)


def test_hotspot():
    found = drawn("hotspot 20%/80%")
    assert sum(found[key] for key in range(1, 201)) == pytest.approx(0.8 * DRAWS, rel=0.03)


def test_uniform():
    found = drawn("uniform", 10)
    assert min(found.values()) > 0.9 * DRAWS / 10


def test_the_latest():
    """The newest rows are picked most often; rows that the load inserts are newer still."""
    found = drawn("latest")
    assert found[COUNT] > found[COUNT - 1] > found[COUNT // 2]
    of, picks = random.Random("7/keys"), picker("latest", COUNT)
    picks.made(COUNT + 5)
    picks.made(COUNT + 2)
    assert max(picks.pick(of) for _ in range(1000)) == COUNT + 5


def test_the_same_seed_picks_the_same():
    assert drawn("zipfian 0.9") == drawn("zipfian 0.9")
