"""Tests of reduction: of each class exactly one order is returned."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.scenario.test_ordering import BEFORE, WORKED, constraints
from twopc.sim.scenario.ordering.enumerate import Space
from twopc.sim.scenario.ordering.reduce import Classes


@st.composite
def related(draw):
    """Draw constraints, and which steps of different sessions depend on each other."""
    sessions, before, together = draw(constraints(steps_max=3))
    steps = [step for session in sessions for step in session]
    pairs = list(itertools.combinations(steps, 2))
    chosen = draw(st.sets(st.sampled_from(pairs))) if pairs else set()
    same = {pair for pair in pairs if pair[0][0] == pair[1][0]}
    relation = {frozenset(pair) for pair in chosen | same}
    return sessions, before, together, lambda a, b: frozenset((a, b)) in relation


def connected(orders, dependent):
    """Yield the classes of `orders`, by trying every swap of adjacent independent steps."""
    left = set(orders)
    while left:
        found, todo = set(), [left.pop()]
        while todo:
            order = todo.pop()
            found.add(order)
            for at in range(len(order) - 1):
                if not dependent(order[at], order[at + 1]):
                    other = (*order[:at], order[at + 1], order[at], *order[at + 2 :])
                    if other not in found:
                        todo.append(other)
        left -= found
        yield found


@settings(max_examples=80)
@given(related())
def test_a_class_is_exactly_what_swaps_connect(given_):
    sessions, _, _, dependent = given_
    space = Space(sessions)
    classes = Classes(space, dependent, ())
    keys = [
        {classes.key(order) for order in among} for among in connected(space.every(), dependent)
    ]
    assert all(len(each) == 1 for each in keys)
    assert len(set().union(*keys)) == len(keys)


@settings(max_examples=150)
@given(related())
def test_the_first_of_each_class(given_):
    sessions, before, together, dependent = given_
    space = Space(sessions, before, together)
    classes = Classes(space, dependent, before)
    by_class: dict[int, list] = {}
    for order in space.every():
        by_class.setdefault(classes.key(order), []).append(order)
    assert list(classes.firsts()) == [orders[0] for orders in by_class.values()]
    for orders in by_class.values():
        assert classes.size(orders[-1], together) == len(orders)


@settings(max_examples=80)
@given(related())
def test_constraints_split_no_class(given_):
    sessions, before, together, dependent = given_
    allowed = set(Space(sessions, before, together).every())
    classes = Classes(Space(sessions, before, together), dependent, before)
    keys: dict[frozenset, set[int]] = {}
    for among in connected(Space(sessions).every(), dependent):
        if inside := among & allowed:
            keys[frozenset(inside)] = {classes.key(order) for order in inside}
    assert all(len(each) == 1 for each in keys.values())
    assert len(set().union(*keys.values())) == len(keys)


def test_what_is_known_of_a_beginning():
    """Prefixes that differ only in the order of independent steps are recognised as the same."""
    writes = {"a_write", "a_end", "b_write", "b_end"}
    classes = Classes(Space(WORKED, BEFORE), lambda a, b: {a, b} <= writes, BEFORE)
    one = (*WORKED[0][:2], *WORKED[1][:2], "a_write", *WORKED[1][2:])
    other = (*WORKED[1][:2], *WORKED[0][:3], *WORKED[1][2:])
    known = [[each.known for each in classes.prefixes(order)][5:] for order in (one, other)]
    assert known[0] == known[1]
    begun = [list(classes.prefixes(order))[5] for order in (one, other)]
    assert classes.past(begun[0], ["a_read"]) == classes.past(begun[1], ["a_read"])
    assert classes.past(begun[0], ["a_read"]) != begun[0].known, "Bob's beginning cannot be felt"
    assert len(list(classes.firsts())) == 6
    sizes = [classes.size(order, ()) for order in classes.firsts()]
    assert sum(sizes) == 36
