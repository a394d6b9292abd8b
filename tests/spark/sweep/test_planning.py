"""Tests of planning the next trials."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from twopc.sim.spark.sweep.planning import BATCHES_A_CORE, TrialBatch, wave

TRIALS = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 40)), unique=True, min_size=1, max_size=200
)


@settings(max_examples=40)
@given(TRIALS, st.integers(1, 4), st.integers(1, 9))
def test_everything_is_played_once(todo: list[tuple[int, int]], cores: int, most: int) -> None:
    """Successive waves play every trial once, whatever durations are known."""
    left, cost = list(todo), dict[int, float]()
    played: list[tuple[int, int]] = []
    while left:
        batches = wave(left, cost, cores=cores, most=most)
        now = [(each.point, seed) for each in batches for seed in each.seeds]
        assert now
        assert all(len(each.seeds) <= most for each in batches)
        played += now
        left = [each for each in left if each not in now]
        cost |= {point: 0.1 * (point + 1) for point, _ in now}
    assert sorted(played) == sorted(todo)


def test_the_first_wave_tries_every_point() -> None:
    """The first wave plays a trial of each point, or of evenly spaced points if there are many."""
    todo = [(point, seed) for seed in range(9) for point in range(3)]
    assert {each.point for each in wave(todo, {}, cores=2, most=8)} == {0, 1, 2}
    many = [(point, 1) for point in range(100)]
    assert [each.point for each in wave(many, {}, cores=2, most=8)] == [0, 25, 50, 75]


def test_long_batches_first_and_single_trials_last() -> None:
    """Long batches are first and single trials last, so that all cores end together."""
    todo = [(point, seed) for point in (0, 1) for seed in range(100)]
    batches = wave(todo, {0: 0.5, 1: 1.0}, cores=2, most=8)
    assert batches[0] == TrialBatch(1, (0, 1))
    assert {len(each.seeds) for each in batches[-2:]} == {1}
    assert len(batches) <= BATCHES_A_CORE * 2 + 2 * 8
