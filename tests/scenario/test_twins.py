"""Tests of twins: one passes if exactly the named check fails, and fails in all other cases."""

from __future__ import annotations

import pytest

from twopc.sim.report.history import History
from twopc.sim.scenario.cases import groups
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.judging import judge

SCENARIO = """\
twopc: 1
name: made-up
about: x
topology: {publisher: pub, subscribers: [sub1]}
tables:
  t: {columns: {id: int primary key, n: int}, rows: []}
sessions:
  bob:
    node: sub1
    steps: [b_begin: begin, b_write: {sql: update t set n = 2}, b_end: commit, b_sync: sync]
orders:
  - name: one
    steps: [b_begin, b_write, b_end, b_sync, {sync: sub1}]
    expect:
      steps: {b_write: {rejected: version_mismatch}, b_end: rolled back}
      tables: {t: {everywhere: []}}
      committed: 0
  - {name: every order, generate: all}
twin: {protections: {version_check: off}, %s}
"""


class Made:
    """A twin's history in which everything is right, unless it is changed."""

    def __init__(self, twin: str) -> None:
        self.loaded = parse(SCENARIO % twin)
        self.group = groups(self.loaded)[-1]
        self.ends: dict[str, tuple[str, dict]] = {}
        self.left: list[str] = []
        self.sub1: list[dict] = []
        self.more: list[tuple[str, dict]] = []

    def verdict(self):
        history = History(clock_ns=iter(range(0, 10**9, 10**6)).__next__)
        for step in ("b_begin", "b_write", "b_end", "b_sync", "sync #1"):
            kind, fields = self.ends.get(step, ("ok", {}))
            session = "bob" if step.startswith("b") else ""
            history.write(kind, session=session, node="sub1", step=step, **fields)
        for kind, fields in self.more:
            history.write(kind, **fields)
        history.write("outcome", session="bob", message="committed")
        history.write("prepared", node="pub", data={"gids": self.left})
        for node, rows in (("pub", []), ("sub1", self.sub1)):
            data = {"table": "t", "key": ["id"], "moment": "final"}
            history.write("state", node=node, rows=tuple(rows), rowcount=len(rows), data=data)
        course = self.group.courses.next()
        return judge(self.group.case(*course), history.records)

    def said(self) -> list[str]:
        return [failure.message for failure in self.verdict().failures]


GID = "twopc:c:1:1:pub"
ROW = {"id": "1", "n": "2", "msrepl_tran_version": "v"}


def test_exactly_the_named_one_fails():
    made = Made("must_fail: prepared_left")
    made.left = [GID]
    verdict = made.verdict()
    assert verdict.failures == ()
    assert verdict.twin
    assert verdict.failed == {"prepared_left"}
    assert verdict.notes == ("prepared_left fails, as it must",)


def test_nothing_fails():
    made = Made("must_fail: prepared_left")
    (failure,) = made.verdict().failures
    assert failure.message == "expected only 'prepared_left' to fail: nothing failed"
    assert failure.check == "twin"
    assert made.loaded.document.mark(failure.path).line == 19


def test_another_fails():
    made = Made("must_fail: prepared_left")
    made.sub1 = [ROW]
    (said,) = made.said()
    assert said == (
        "expected only 'prepared_left' to fail: instead converged: t id=1 at sub1 is not at pub"
    )


def test_another_fails_too():
    made = Made("must_fail: converged")
    made.sub1 = [ROW]
    made.left = [GID]
    (said,) = made.said()
    assert said == (
        "expected only 'converged' to fail: it did, and also "
        "prepared_left: twopc:c:1:1:pub is still prepared at pub"
    )


@pytest.mark.parametrize("out", ["converged", "echoed"])
def test_what_is_taken_out_is_not_judged(out):
    made = Made(f"must_fail: prepared_left, expect: {{{out}: false}}")
    if out == "converged":
        made.sub1 = [ROW]
    else:
        made.more.append(("deliver", {"node": "sub1", "data": {"origin": "sub1"}}))
    made.left = [GID]
    assert made.said() == []


def test_what_the_order_expects_is_not_judged():
    """Expectations of the order are not judged, since they describe it with the protection."""
    made = Made("must_fail: converged")
    made.sub1 = [ROW]
    assert made.said() == []


@pytest.mark.parametrize(
    ("must_fail", "expect"),
    [
        ("steps.b_write", "{steps: {b_write: {rejected: version_mismatch}}}"),
        ("sessions.bob", "{sessions: {bob: rolled back}}"),
        ("tables.t", "{tables: {t: {pub: [{n: 5}]}}}"),
        ("committed", "{committed: 0}"),
        ("rejected.deadlock", "{rejected: {deadlock: 1}}"),
        ("sum", "{sum: {table: t, column: n, equals: 3}}"),
    ],
)
def test_what_the_twin_expects_is_judged(must_fail, expect):
    made = Made(f"must_fail: {must_fail}, expect: {expect}")
    assert made.said() == []


@pytest.mark.parametrize("step", ["b_sync", "sync #1"])
def test_an_agent_that_stops_keeps_nodes_from_converging(step):
    made = Made("must_fail: converged")
    made.ends[step] = ("error", {"sqlstate": "23505", "number": 2627})
    assert made.said() == []


def test_must_fail_is_judged_without_being_asked_for():
    made = Made("must_fail: each_change_applied_once")
    for _ in range(2):
        made.more.append(("deliver", {"node": "sub1", "gid": "g", "data": {"seqno": "1"}}))
    assert made.said() == []


def test_who_hangs_does_not_fail_as_it_must():
    made = Made("must_fail: converged")
    made.sub1 = [ROW]
    made.more.append(("stuck", {"session": "bob", "step": "b_write", "message": "b waits"}))
    verdict = made.verdict()
    assert verdict.kind == "liveness"
    assert "also ends (it cannot go on: b waits)" in verdict.failures[0].message


def test_who_takes_too_long_does_not_fail_as_it_must():
    made = Made("must_fail: converged")
    made.sub1 = [ROW]
    made.ends["b_write"] = ("timed_out", {"message": "no end"})
    assert made.verdict().kind == "liveness"


def test_of_a_generated_order_a_case_may_be_right_without_its_protection():
    made = Made("must_fail: prepared_left, order: every order")
    verdict = made.verdict()
    assert verdict.failures == ()
    assert verdict.notes == ("nothing fails in this order",)
    assert verdict.failed == frozenset()


def test_of_a_generated_order_no_case_may_fail_otherwise():
    made = Made("must_fail: prepared_left, order: every order")
    made.sub1 = [ROW]
    assert len(made.said()) == 1
