"""Counts, ranks and lists of orders agree with those of all permutations."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from twopc.sim.scenario.ordering.enumerate import Space

LETTERS = "abcd"


@st.composite
def constraints(draw, steps_max=4):
    """Draw up to four sessions of a few steps, and constraints that may contradict each other."""
    lengths = draw(st.lists(st.integers(0, steps_max), min_size=1, max_size=4))
    while sum(lengths) > 7:
        lengths = lengths[:-1] if len(lengths) > 1 else [7]
    sessions = [[f"{LETTERS[i]}{n}" for n in range(length)] for i, length in enumerate(lengths)]
    steps = [step for session in sessions for step in session]
    if len(steps) < 2:
        return sessions, [], []
    pair = st.permutations(steps).map(lambda each: tuple(each[:2]))
    before = draw(st.lists(pair, max_size=3))
    together = draw(
        st.lists(
            st.permutations(steps).flatmap(lambda each: st.sampled_from([each[:2], each[:3]])),
            max_size=2,
        )
    )
    return sessions, before, together


def brute(sessions, before, together):
    """Yield all orders, by trying all permutations."""
    steps = [step for session in sessions for step in session]
    for order in itertools.permutations(steps):
        at = {step: place for place, step in enumerate(order)}
        fits = (
            all(at[a] < at[b] for each in sessions for a, b in itertools.pairwise(each))
            and all(at[a] < at[b] for a, b in before)
            and all(at[a] + 1 == at[b] for each in together for a, b in itertools.pairwise(each))
        )
        if fits:
            yield order


@settings(max_examples=150)
@given(constraints())
def test_as_many_as_there_are(given_):
    wanted = list(brute(*given_))
    assert Space(*given_).count == len(wanted)
    assert sorted(Space(*given_).every()) == sorted(wanted)


@settings(max_examples=100)
@given(constraints())
def test_rank_and_unrank_are_each_others_inverse(given_):
    space = Space(*given_)
    for rank, order in enumerate(space.every(), start=1):
        assert space.unrank(rank) == order
        assert space.rank(order) == rank


@settings(max_examples=100)
@given(constraints())
def test_told_in_the_order_of_the_file(given_):
    sessions = given_[0]
    place = {step: at for at, step in enumerate(s for each in sessions for s in each)}
    told = [[place[step] for step in order] for order in Space(*given_).every()]
    assert told == sorted(told)


WORKED = (("a_begin", "a_read", "a_write", "a_end"), ("b_begin", "b_read", "b_write", "b_end"))
BEFORE = (("a_read", "b_write"), ("b_read", "a_write"))


def test_two_sessions_of_four_steps():
    assert Space(WORKED).count == 70
    assert Space(WORKED, BEFORE).count == 36
    assert Space(WORKED, BEFORE).unrank(1)[:4] == ("a_begin", "a_read", "b_begin", "b_read")
    assert Space(WORKED).unrank(70) == (*WORKED[1], *WORKED[0])


def test_far_more_than_could_be_listed():
    sessions = [[f"{name}{n}" for n in range(12)] for name in "abcd"]
    space = Space(sessions)
    assert space.count == math.factorial(48) // math.factorial(12) ** 4
    middle = space.count // 2
    assert space.rank(space.unrank(middle)) == middle


def test_sessions_that_nothing_binds_are_counted_at_once():
    """Sessions without constraints are counted without enumerating their orders.

    Nine sessions of nine steps would have ten to the ninth states; a constraint binds two of them.
    """
    sessions = [[f"{name}{n}" for n in range(9)] for name in "abcdefghi"]
    free = math.factorial(81) // math.factorial(9) ** 9
    assert Space(sessions).count == free
    bound = Space(sessions, [("a8", "b0")])
    assert bound.count == free // math.comb(18, 9)
    assert bound.rank(bound.unrank(bound.count // 3)) == bound.count // 3


@pytest.mark.parametrize("rank", [0, 71, -1])
def test_there_is_no_such_rank(rank):
    with pytest.raises(IndexError, match=f"no order {rank}, only 70"):
        Space(WORKED).unrank(rank)


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (("a_read",), "from 'a_read' on"),
        (("a_begin", "a_read", "a_write"), "from 'a_write' on"),
        (("a_begin",), "leaves out 7 steps"),
    ],
)
def test_what_is_no_order_has_no_rank(order, said):
    with pytest.raises(ValueError, match=said):
        Space(WORKED, BEFORE).rank(order)


def test_constraints_that_contradict_leave_nothing():
    assert Space(WORKED, [("a_end", "b_begin"), ("b_end", "a_begin")]).count == 0
    assert list(Space(WORKED, (), [("a_begin", "a_write")]).every()) == []
    assert list(Space(WORKED, (), [("a_begin", "b_begin"), ("a_begin", "a_read")]).every()) == []


def test_what_is_together_may_be_of_several_sessions():
    orders = list(Space((("a", "b"), ("x", "y")), (), [("a", "x")]).every())
    assert orders == [("a", "x", "b", "y"), ("a", "x", "y", "b")]


def test_who_does_nothing_is_in_no_ones_way():
    assert Space(((), ("a",), ())).count == 1
    assert Space(()).count == 1
    assert list(Space(()).every()) == [()]
