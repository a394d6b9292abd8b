"""Tests of expectations in a cell: the cell's go before the order's, those before the file's."""

from __future__ import annotations

import pytest

from twopc.sim.scenario.cases import groups
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.judging.case_expectations import CaseExpectations
from twopc.sim.scenario.values import Selection

FILE = """\
twopc: 1
name: cells
about: x
topology: {publisher: pub, subscribers: [sub1, sub2]}
matrix: {isolation.pub: [read committed, serializable], shipping: [eager, lazy]}
tables: {t: {columns: {id: int primary key, n: int}, rows: []}}
sessions:
  alice: {node: sub1, steps: [a_write: {sql: update t set n = 1}]}
  bob: {node: sub2, steps: [b_write: {sql: update t set n = 2}]}
orders:
  - name: one
    steps: [a_write, b_write]
    expect:
      steps: {b_write: {rejected: version_mismatch}}
      tables: {t: {pub: [{n: 1}]}}
      sum: {table: t, column: n, equals: 1}
      cells:
        serializable:
          steps: {b_write: {rejected: serialization_failure}}
          committed: 1
          tables: {t: {everywhere: [{n: 3}], sub1: {same_as: pub}}}
        "serializable, lazy":
          steps: {b_write: ok}
          sum: [{table: t, column: n, equals: 2}, {table: t, column: id, equals: 2}]
          echoed: 2
expect:
  steps: {a_write: any}
  otherwise: any
  tables: {t: {everywhere: [{n: 2}], sub2: [{n: 4}]}}
  sum: {table: t, column: n, equals: 5}
  echoed: 1
  sql: select 1 from t
"""


def expected(cell: str, text: str = FILE) -> CaseExpectations:
    (group,) = groups(parse(text), Selection(orders=(f"one [{cell}]",)))
    return CaseExpectations(group.case(*group.courses.next()))


RC, SER, LAZY = "read committed, eager", "serializable, eager", "serializable, lazy"
ORDER = ("orders", 0, "expect")


@pytest.mark.parametrize(
    ("cell", "at", "rejected"),
    [
        (RC, ORDER, "version_mismatch"),
        (SER, (*ORDER, "cells", "serializable"), "serialization_failure"),
        (LAZY, (*ORDER, "cells", LAZY), None),
    ],
)
def test_steps(cell, at, rejected):
    path, said = expected(cell).step("b_write")
    assert path == (*at, "steps", "b_write")
    assert said.rejected == rejected
    assert expected(cell).step("a_write")[0] == ("expect", "steps", "a_write")
    assert expected(cell).anything_goes


def test_counts_and_numbers():
    assert expected(RC).committed() is None
    assert expected(SER).committed()[0] == (*ORDER, "cells", "serializable", "committed")
    assert [expected(cell).invariant("echoed")[1] for cell in (RC, SER, LAZY)] == [1, 1, 2]
    assert expected(RC).invariant("converged") == (("orders", 0, "name"), None)


def test_the_nearest_sum_of_a_column_is_meant():
    assert [(path, str(each.equals)) for path, each in expected(RC).sums()] == [
        ((*ORDER, "sum"), "1")
    ]
    inner = (*ORDER, "cells", LAZY, "sum")
    assert [(path, str(each.equals)) for path, each in expected(LAZY).sums()] == [
        ((*inner, 0), "2"),
        ((*inner, 1), "2"),
    ]
    assert [path for path, _ in expected(RC).queries()] == [("expect", "sql")]


def test_what_is_said_of_a_node_goes_before_what_is_said_of_all():
    """An expectation of one node goes before one of all nodes, unless the latter is nearer."""
    found = expected(RC).tables()["t"]
    assert {node: path[-1] for node, (path, _) in found.items()} == {
        "pub": "pub",
        "sub1": "everywhere",
        "sub2": "sub2",
    }
    found = expected(SER).tables()["t"]
    assert {node: path[-1] for node, (path, _) in found.items()} == {
        "pub": "everywhere",
        "sub1": "sub1",
        "sub2": "everywhere",
    }
    assert found["sub2"][0] == (*ORDER, "cells", "serializable", "tables", "t", "everywhere")


def test_of_a_twin_only_its_own_is_said_of_steps_and_rows():
    twin = "twin: {protections: {marker: off}, must_fail: echoed, expect: {committed: 2, cells: {eager: {echoed: 3}}}}\n"
    loaded = parse(FILE + twin)
    group = groups(loaded)[-1]
    assert group.name == "twin of one: marker off [read committed, eager]"
    said = CaseExpectations(group.case(*group.courses.next()))
    assert said.step("b_write") is None
    assert said.step("b_write", of_order=True)[1].rejected == "version_mismatch"
    assert said.tables() == {}
    assert said.committed()[0] == ("twin", "expect", "committed")
    assert said.invariant("echoed") == (("twin", "expect", "cells", "eager", "echoed"), 3)
    assert len(said.sums()) == 1, "invariants of the order hold of its twin too"
