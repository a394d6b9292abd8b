"""Tests that a free choice of PostgreSQL, the victim of a deadlock, is no disagreement."""

from __future__ import annotations

from tests.agreement.test_catalogue import on_model
from twopc.sim.report.history import HistoryRecord
from twopc.sim.scenario.agree import compare, free
from twopc.sim.scenario.check import parse

TEXT = """\
twopc: 1
name: crossed
about: Written in a test.
topology: {publisher: pub, subscribers: [sub1]}
tables: {t: {columns: {id: int primary key, n: int}, rows: [{id: 1, n: 1}, {id: 2, n: 1}]}}
sessions:
  alice:
    node: pub
    steps:
      - a_begin: begin
      - a_one: {sql: "update t set n = 5 where id = 1"}
      - a_two: {sql: "update t set n = 5 where id = 2"}
      - a_end: commit
  bob:
    node: pub
    steps:
      - b_begin: begin
      - b_one: {sql: "update t set n = 6 where id = 2"}
      - b_two: {sql: "update t set n = 6 where id = 1"}
      - b_end: commit
orders:
  - name: crossed
    steps: [a_begin, b_begin, a_one, b_one, LAST, a_end, b_end]
    expect: {otherwise: any, rejected: {deadlock: ROWS}}
"""


def played(last: str, deadlocks: int = 1) -> list[HistoryRecord]:
    """Play these last steps; the session that waits first checks first, and is the victim."""
    verdict, history = on_model(parse(TEXT.replace("LAST", last).replace("ROWS", str(deadlocks))))
    assert verdict.kind == ""
    if deadlocks:
        (order,) = verdict.orders
        assert any("PostgreSQL may choose either: the victim" in note for note in order.notes)
    return history.records


def test_the_victim_of_a_deadlock() -> None:
    """Two plays with different victims agree; one without a deadlock agrees with neither."""
    one, other = played("a_two, b_two"), played("b_two, a_two")
    assert compare(one, other) == []
    assert free(one, other) == {"crossed": "the victim of a deadlock: a_two, or b_two"}
    assert compare(one, one) == []
    assert free(one, one) == {}
    none = played("b_two", deadlocks=0)
    assert compare(one, none) != []
    assert free(one, none) == {}
