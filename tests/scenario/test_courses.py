"""Tests of the courses of a generated order: which are returned, and how the others are counted."""

from __future__ import annotations

import pytest

from tests.scenario.locking import Toy
from tests.scenario.test_footprint import BEFORE, WORKED, scenario_of
from twopc.sim.scenario.ordering import RankedCourse, courses
from twopc.sim.scenario.ordering.courses import drawn
from twopc.sim.scenario.values import CaseLesson

#: Two tables, each written by one session: the sessions are independent.
APART = """\
  alice: {node: pub, steps: [a1: {sql: update t set n = 1}, a2: {sql: update t set n = 2}]}
  bob: {node: pub, steps: [b1: {sql: update u set n = 1}, b2: {sql: update u set n = 2}]}
"""
#: Four sessions that each write the same table ten times: far more orders than can be run.
MANY = "".join(
    f"  {name}: {{node: pub, steps: [{steps}]}}\n"
    for name in "abcd"
    for steps in [", ".join(f"{name}{at}: {{sql: update t set n = 1}}" for at in range(10))]
)


def told(text, generate="all", *, how="", seed=0, learned=True):
    """Return the ranks of an order's courses, and the final counts; the toy plays each course."""
    scenario = scenario_of(text, generate=generate)
    order = scenario.orders[0]
    told = courses(scenario, order, how=how, seed=seed)
    ranks = []
    while (course := told.next()) is not None:
        ranks.append(course[0])
        if learned:
            told.learn(course[0], Toy(scenario).play([item.step for item in course[1]]))
    return ranks, told.counts


def test_what_depends_on_nothing_is_run_once():
    ranks, counts = told(APART)
    assert ranks == [1]
    assert (counts.orders, counts.run, counts.left_out, counts.limit) == (6, 1, 0, "")


def test_without_reduction_all_are_run():
    for options in ({"generate": "{reduce: none}"}, {"how": "all"}):
        ranks, counts = told(APART, **options)
        assert ranks == [1, 2, 3, 4, 5, 6]
        assert (counts.run, counts.behaviours, counts.left_out) == (6, 1, 0)


def test_a_limit_is_said():
    ranks, counts = told(MANY, "{limit: 3}")
    assert ranks == [1, 2, 3]
    assert counts.limit == "limit 3"
    assert counts.left_out == counts.orders - 3
    assert counts.orders > 10**21


def test_a_limit_that_leaves_nothing_out_is_not_said():
    ranks, counts = told(APART, "{limit: 1}")
    assert (ranks, counts.limit, counts.left_out) == ([1], "", 0)


def test_the_limit_counts_what_is_played_to_its_end():
    """The limit counts only courses that are played to their end.

    Two of the six classes cannot be played; they are postponed until that is known.
    """
    ranks, counts = told(WORKED, BEFORE)
    assert ranks == [1, 2, 5, 6]
    assert (counts.run, counts.infeasible, counts.left_out) == (4, 12, 0)
    ranks, counts = told(WORKED, "{limit: 4}")
    assert len(ranks) == counts.run == 4
    assert (counts.infeasible, counts.left_out, counts.limit) == (20, 0, "")
    _, counts = told(WORKED, "{limit: 2}")
    assert counts.left_out + counts.infeasible + 2 < counts.orders, "each stands for others"
    assert counts.limit == "limit 2"


def test_several_at_once():
    """The counts are the same if several courses are played at once.

    Courses that look infeasible are postponed until the results of the others are known.
    """
    scenario = scenario_of(WORKED)
    every = courses(scenario, scenario.orders[0])
    given = []
    while (course := every.next()) is not None:
        given.append(course)
    assert len(given) == 4
    for rank, items in reversed(given):
        every.learn(rank, Toy(scenario).play([item.step for item in items]))
    assert every.next() is None
    assert every.counts == told(WORKED)[1]


def test_what_only_looked_infeasible_is_run():
    """A course that only looked infeasible is run.

    The texts do not show that the statements lock different rows, so that no session waits.
    """
    scenario = scenario_of(WORKED)
    every = courses(scenario, scenario.orders[0])
    ranks = []
    while (course := every.next()) is not None:
        ranks.append(course[0])
        every.learn(course[0], CaseLesson(behaviour="x"))
    assert len(ranks) == 6
    assert ranks != sorted(ranks)
    assert (every.counts.run, every.counts.infeasible, every.counts.behaviours) == (6, 0, 1)


def test_a_limit_that_infeasible_ones_have_used_up_is_not_used_up():
    scenario = scenario_of(WORKED, generate="{limit: 1}")
    every = courses(scenario, scenario.orders[0])
    rank, _ = every.next()
    assert every.next() is None
    every.learn(rank, CaseLesson(infeasible_at=3))
    assert every.next() is not None


def test_samples():
    ranks, counts = told(MANY, "{sample: 20 seed 7, limit: none}")
    assert len(ranks) == counts.run == 20
    assert ranks == sorted(ranks)
    assert counts.limit == "sample 20 seed 7"
    assert ranks == told(MANY, "{sample: 20 seed 7}", seed=1)[0], "it has its own seed"
    assert ranks != told(MANY, "{sample: 20 seed 8}")[0]
    assert told(MANY, how="sample:20", seed=7)[0] == ranks


def test_a_sample_of_which_several_are_the_same():
    ranks, counts = told(APART, "{sample: 6 seed 1}")
    assert (ranks, counts.left_out, counts.limit) == ([1], 0, "")


def test_a_sample_under_a_limit():
    ranks, counts = told(MANY, "{sample: 20 seed 7, limit: 4}")
    assert len(ranks) == 4
    assert counts.limit == "limit 4"


def test_drawn():
    assert drawn(3, 5, 0) == [1, 2, 3]
    assert drawn(10**30, 3, 1) == drawn(10**30, 3, 1) != drawn(10**30, 3, 2)
    assert all(1 <= rank <= 6 for rank in drawn(6, 5, 0))


def test_only_some_sessions():
    ranks, counts = told(APART, "{sessions: bob}", how="all")
    assert (ranks, counts.orders) == ([1], 1)


def test_learning_twice_of_one_counts_once():
    scenario = scenario_of(APART)
    every = courses(scenario, scenario.orders[0])
    rank, _ = every.next()
    for behaviour in ("x", "y"):
        every.learn(rank, CaseLesson(behaviour=behaviour))
    assert (every.counts.run, every.counts.behaviours) == (1, 1)


def test_one_course_by_its_rank():
    scenario = scenario_of(WORKED)
    one = RankedCourse(scenario, scenario.orders[0], 70)
    rank, items = one.next()
    assert rank == 70
    assert items[0].step == "b_begin"
    assert one.next() is None
    with pytest.raises(IndexError):
        RankedCourse(scenario, scenario.orders[0], 71)


def test_a_listed_order_is_one_course():
    scenario = scenario_of(WORKED)
    order = scenario.orders[0].model_copy(update={"generate": None, "steps": ("x",)})
    course = courses(scenario, order)
    assert course.counts.run == 0
    assert course.next() == (1, ("x",))
    assert course.next() is None
    course.learn(1, CaseLesson(behaviour="x"))
    assert (course.counts.orders, course.counts.run, course.counts.behaviours) == (1, 1, 1)


def busy(name: str, node: str) -> str:
    """Return a session with a transaction of many steps on three tables."""
    body = [
        f"{name}{at}: {{sql: {'update' if at % 2 else 'select n from'} {'tuv'[at % 3]}"
        f"{' set n = 1' if at % 2 else ''}}}"
        for at in range(8)
    ]
    return f"  {name}: {{node: {node}, steps: [{name}_b: begin, {', '.join(body)}, {name}_e: commit]}}\n"


def test_of_billions_of_orders_only_those_are_looked_at_that_may_be_feasible():
    text = busy("a", "sub1") + busy("b", "sub2") + busy("c", "pub")
    scenario = scenario_of(text, generate="{limit: 100}", tables="t u v")
    every = courses(scenario, scenario.orders[0])
    given = 0
    while (course := every.next()) is not None:
        given += 1
        every.learn(course[0], Toy(scenario).play([item.step for item in course[1]]))
    counts = every.counts
    assert counts.orders == 5_550_996_791_340
    assert given == counts.run == 100, "none was tried in vain"
    assert counts.limit == "limit 100"
