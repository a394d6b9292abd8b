"""Tests of cases: those of a file, their names, and those that a selection contains."""

from __future__ import annotations

import pytest

from twopc.errors import ScenarioError
from twopc.sim.scenario.cases import groups
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.values import CaseLesson, Selection

FILE = """\
twopc: 1
name: two
about: x
tags: [conflict, teaching]
topology: {publisher: pub, subscribers: [sub1]}
tables: {t: {columns: {id: int primary key, n: int}, rows: [{id: 1, n: 1}]}}
sessions:
  alice: {node: sub1, steps: [a_begin: begin, a_write: {sql: update t set n = 2}, a_end: commit]}
  bob: {node: pub, steps: [b_begin: begin, b_write: {sql: update t set n = 3}, b_end: commit]}
orders:
  - {name: alice first, steps: [a_begin, a_write, a_end, b_begin, b_write, b_end]}
  - {name: every order, generate: {before: ["a_begin < b_begin"]}}
"""
TWIN = "twin: {protections: {version_check: off}, must_fail: no_lost_update}\n"
TWINS = """\
twin:
  - {order: alice first, protections: {marker: off, version_check: off}, must_fail: converged}
  - {order: alice first, protections: {marker: off, version_check: off}, must_fail: echoed}
  - {order: every order, protections: {marker: off}, must_fail: echoed}
"""
MATRIX = "matrix: {isolation.pub: [read committed, serializable], shipping: [eager, lazy]}\n"


def named(text, **selection):
    return [group.name for group in groups(parse(text), Selection(**selection))]


def test_orders_then_twins():
    assert named(FILE + TWIN) == [
        "alice first",
        "every order",
        "twin of alice first: version_check off",
    ]
    assert named(FILE + TWINS)[2:] == [
        "twin of alice first: marker and version_check off",
        "twin of alice first: marker and version_check off, echoed",
        "twin of every order: marker off",
    ]
    assert named(FILE + TWIN, twins=False) == ["alice first", "every order"]


def test_each_order_in_each_cell_and_a_twin_in_the_first():
    assert named(FILE + TWIN + MATRIX) == [
        "alice first [read committed, eager]",
        "alice first [read committed, lazy]",
        "alice first [serializable, eager]",
        "alice first [serializable, lazy]",
        "every order [read committed, eager]",
        "every order [read committed, lazy]",
        "every order [serializable, eager]",
        "every order [serializable, lazy]",
        "twin of alice first: version_check off [read committed, eager]",
    ]


def test_the_values_of_a_cell_are_put_in():
    loaded = parse(FILE + MATRIX)
    group = groups(loaded)[3]
    assert group.scenario.topology.shipping == "lazy"
    assert group.scenario.level(group.order, "pub") == "serializable"
    assert any(group.order is each for each in group.scenario.orders)


def cases(text, **selection):
    found = []
    for group in groups(parse(text), Selection(**selection)):
        while (course := group.courses.next()) is not None:
            found.append(group.case(*course))
            group.courses.learn(course[0], CaseLesson(behaviour=str(course[0])))
    return found


def test_a_listed_case():
    (case,) = cases(FILE, orders=("alice first",))
    assert (case.name, case.group, case.at, case.number) == (
        "alice first",
        "alice first",
        ("orders", 0),
        0,
    )
    assert not case.is_generated
    assert case.items[0].step == "a_begin"


def test_generated_cases_have_their_ranks():
    every = cases(FILE, orders=("every order",))
    assert [case.name for case in every] == [f"every order #{case.number}" for case in every]
    assert [case.number for case in every][:2] == [1, 3]  # order 2 is equivalent to order 1
    assert all(case.is_generated and case.group == "every order" for case in every)
    assert {case.at for case in every} == {("orders", 1)}
    assert len({case.items for case in every}) == len(every)


def test_names_carry_cell_and_repeat():
    group = groups(parse(FILE + MATRIX), Selection(orders=("every order [serializable, lazy]",)))[0]
    case = group.case(*group.courses.next(), repeat=2, seed=7)
    assert case.name == "every order #1 [serializable, lazy] (2)"
    assert (case.repeat, case.seed, case.cell.label) == (2, 7, "serializable, lazy")


def test_where_a_twin_stands():
    assert [g.at for g in groups(parse(FILE + TWIN))][2:] == [("twin",)]
    loaded = parse(FILE + TWINS)
    found = groups(loaded)[2:]
    assert [g.at for g in found] == [("twin", 0), ("twin", 1), ("twin", 2)]
    case = found[0].case(*found[0].courses.next())
    assert case.off == {"marker", "version_check"}
    assert case.order.name == "alice first"
    assert loaded.document.mark((*case.at, "must_fail")).line == 14


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("alice first", ["alice first"]),
        ("every order", ["every order"]),
        ("every order #2", ["every order"]),
        ("every order #2 (3)", ["every order"]),
        ("every order #9999", []),
        ("alice first #1", []),
        ("nobody", []),
        ("all", ["alice first", "every order", "twin of alice first: version_check off"]),
        ("twin of alice first: version_check off", ["twin of alice first: version_check off"]),
    ],
)
def test_an_order_by_name(wanted, found):
    assert named(FILE + TWIN, orders=(wanted,) if wanted else ()) == found


def test_several_orders_by_name():
    """Several names select the cases of each."""
    chosen = cases(FILE, orders=("every order #3", "alice first", "every order #1"))
    assert [case.name for case in chosen] == ["alice first", "every order #3", "every order #1"]


def test_a_name_without_its_cell_means_all_cells():
    assert len(named(FILE + MATRIX, orders=("alice first",))) == 4
    assert len(named(FILE + MATRIX, orders=("every order #3",))) == 4
    assert named(FILE + MATRIX, orders=("every order #3 [serializable, eager]",)) == [
        "every order [serializable, eager]"
    ]


def test_one_of_many():
    (case,) = cases(FILE, orders=("every order #3",))
    assert case.name == "every order #3"
    assert case.number == 3


def test_all_reduces_nothing_and_a_sample_is_drawn_by_seed():
    count = groups(parse(FILE))[1].courses.counts.orders
    assert len(cases(FILE, orders=("all",))) == 1 + count
    drawn = [[c.number for c in cases(FILE, orders=("sample:5",), seed=seed)] for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    seeded = FILE + "seed: 2\n"
    assert [case.number for case in cases(seeded, orders=("sample:5",))] == drawn[2]


@pytest.mark.parametrize(
    ("selection", "count"),
    [
        ({"expression": "alice"}, 1),
        ({"expression": "two::every"}, 1),
        ({"expression": "two and not every"}, 1),
        ({"expression": "three"}, 0),
        ({"tags": ("conflict",)}, 2),
        ({"tags": ("other", "teaching")}, 2),
        ({"tags": ("other",)}, 0),
    ],
)
def test_by_expression_and_tag(selection, count):
    assert len(named(FILE, **selection)) == count


def test_an_expression_that_is_none():
    with pytest.raises(ScenarioError, match="write words with and, or, not"):
        named(FILE, expression="a and")
