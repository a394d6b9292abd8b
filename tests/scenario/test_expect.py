"""Tests of the judgement of an order, on made-up histories."""

from __future__ import annotations

import pytest

from twopc.sim.report.history import History, HistoryRecord
from twopc.sim.scenario.cases import groups
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.judging import OrderVerdict, judge

SCENARIO = """\
twopc: 1
name: made-up
about: x
topology: {publisher: pub, subscribers: [sub1], distribution: none}
tables:
  t: {columns: {id: int primary key, n: "numeric(6,2)", note: text}, rows: []}
sessions:
  alice: {node: pub, steps: [a_begin: begin, a_write: {sql: update t set n = 1}, a_end: commit]}
  bob:
    node: sub1
    steps:
      - b_begin: begin
      - b_write: {sql: update t set n = 2}
      - b_look:  {check: select n from t, rows: [{n: 1.5}]}
      - b_end:   commit
orders:
  - name: one
    steps: [a_begin, a_write, b_begin, b_write, b_look, a_end, b_end]
    expect: %s
"""
OK = dict.fromkeys(("a_begin", "a_write", "b_begin", "b_write", "b_look", "a_end", "b_end"), "ok")


class Made:
    """A history in which every step succeeds, unless it is changed."""

    def __init__(self, expect: str = "{}") -> None:
        self.loaded = parse(SCENARIO % expect, "made.twopc.yaml")
        self.history = History(clock_ns=iter(range(0, 10**9, 10**6)).__next__)
        self.ends: dict[str, tuple[str, dict]] = {step: ("ok", {}) for step in OK}
        self.ends["b_look"] = ("ok", {"rows": ({"n": "1.50"},), "rowcount": 1})
        self.blocked: dict[str, dict] = {}
        self.outcomes = {"alice": "committed", "bob": "committed"}
        self.final: dict[str, list[dict]] = {"pub": [], "sub1": []}
        self.prepared: list[str] = []

    def records(self) -> list[HistoryRecord]:
        scenario = self.loaded.scenario
        for item in scenario.orders[0].steps:
            session, _ = scenario.steps[item.step]
            self.history.write("invoke", session=session, step=item.step)
            if item.step in self.blocked:
                wait = self.blocked[item.step]
                self.history.write("blocked", session=session, step=item.step, wait=wait)
            if item.step in self.ends:
                kind, fields = self.ends[item.step]
                self.history.write(kind, session=session, step=item.step, **fields)
        for session, outcome in self.outcomes.items():
            self.history.write("outcome", session=session, message=outcome)
        self.history.write("prepared", node="pub", data={"gids": self.prepared})
        for node, rows in self.final.items():
            data = {"table": "t", "key": ["id"], "moment": "final"}
            self.history.write("state", node=node, rows=tuple(rows), rowcount=len(rows), data=data)
        return self.history.records

    def verdict(self) -> OrderVerdict:
        group = groups(self.loaded)[0]
        case = group.case(*group.courses.next())
        return judge(case, self.records())

    def judged(self) -> list[tuple[str, str]]:
        return [(failure.message, failure.kind) for failure in self.verdict().failures]

    def lines(self) -> list[int]:
        marks = [self.loaded.document.mark(failure.path) for failure in self.verdict().failures]
        return [mark.line for mark in marks]

    def actual(self) -> list[tuple[str, object]]:
        """Return each failure's path in the file, and the value that would be right there."""
        return [
            (".".join(map(str, failure.path)), failure.actual)
            for failure in self.verdict().failures
        ]


def test_all_well():
    assert Made().judged() == []


REFUSED = ("rejected", {"conflict": {"kind": "row_missing"}, "sqlstate": "40001"})


@pytest.mark.parametrize(
    ("expect", "end", "failure"),
    [
        ("{}", REFUSED, "b_write: expected ok, got rejected: row_missing"),
        ("{}", ("error", {"sqlstate": "23505", "message": "duplicate"}),
         "b_write: expected ok, got error: 23505 (duplicate)"),
        ("{steps: {b_write: {rejected: row_missing}}}", REFUSED, None),
        ("{steps: {b_write: {error: 40001}}}", REFUSED, None),
        ("{steps: {b_write: {error: serialization_failure}}}", REFUSED, None),
        ("{steps: {b_write: {error: 23505}}}", REFUSED,
         "b_write: expected error: 23505, got rejected: row_missing"),
        ("{steps: {b_write: {rejected: version_mismatch}}}", REFUSED,
         "b_write: expected rejected: version_mismatch, got rejected: row_missing"),
        ("{steps: {b_write: {rejected: row_missing}}}", ("ok", {"rowcount": 1}),
         "b_write: expected rejected: row_missing, got ok (1 row)"),
        ("{steps: {b_write: {rowcount: 2}}}", ("ok", {"rowcount": 1}),
         "b_write: expected 2 rows, got 1"),
        ("{steps: {b_write: {rows: [{n: 2}]}}}", ("ok", {"rows": ({"n": "2.00"},)}), None),
        ("{steps: {b_write: {rows: [{n: 2}]}}}", ("ok", {"rows": ({"n": "2.10"},)}),
         "b_write: expected rows {n: 2}, got {n: 2.10}"),
        ("{steps: {b_write: {rows: []}}}", ("ok", {"rows": ()}), None),
        ("{steps: {b_write: ok}}", REFUSED, "b_write: expected ok, got rejected: row_missing"),
        ("{steps: {b_end: rolled back}}", ("ok", {}), "b_end: expected rolled back, got ok"),
    ],
)  # fmt: skip
def test_step_ends(expect, end, failure):
    made = Made(expect)
    made.ends["b_write"] = end
    assert made.judged() == ([] if failure is None else [(failure, "safety")])


@pytest.mark.parametrize(
    ("wait", "by", "failure"),
    [
        ({"session": "alice", "step": "a_write"}, "a_write", None),
        ({"session": "alice", "step": "a_write"}, "alice", None),
        ({"session": "alice", "step": "a_write"}, "a_begin", None),  # of the same transaction
        (None, "a_write", "b_write: expected blocked by a_write, got not blocked"),
        ({"session": "", "pid": 7}, "a_write",
         "b_write: expected blocked by a_write, got blocked by pid 7"),
    ],
)  # fmt: skip
def test_blocked_by(wait, by, failure):
    made = Made(f"{{steps: {{b_write: {{blocked_by: {by}, then: ok}}}}}}")
    if wait is not None:
        made.blocked["b_write"] = wait
    assert made.judged() == ([] if failure is None else [(failure, "safety")])


def test_a_check_that_does_not_hold():
    made = Made()
    made.ends["b_look"] = ("ok", {"rows": ({"n": "1.6"},), "rowcount": 1})
    assert made.judged() == [("b_look: expected rows {n: 1.5}, got {n: 1.6}", "safety")]


def test_sessions():
    made = Made("{sessions: {alice: rolled back, bob: committed}}")
    assert made.judged() == [("alice: expected rolled back, got committed", "safety")]


def test_in_doubt_is_neither_passed_nor_failed():
    made = Made()
    made.ends["b_end"] = ("in_doubt", {})
    made.outcomes["bob"] = "in doubt"
    made.prepared = ["twopc:c:1:1:pub"]
    assert {kind for _, kind in made.judged()} == {"unknown"}
    made = Made("{steps: {b_end: in_doubt}, sessions: {bob: in doubt}, prepared_left: 1}")
    made.ends["b_end"] = ("in_doubt", {})
    made.outcomes["bob"] = "in doubt"
    made.prepared = ["twopc:c:1:1:pub"]
    assert made.judged() == []


def test_hangs_and_deadlocks_are_another_kind():
    made = Made()
    made.ends["b_write"] = ("rejected", {"conflict": {"kind": "deadlock"}})
    assert made.judged() == [("b_write: expected ok, got rejected: deadlock", "liveness")]
    made = Made()
    del made.ends["b_end"]
    assert made.judged() == [("b_end did not end", "liveness")]


ROW = {"id": "1", "n": "2.00", "note": None, "msrepl_tran_version": "v1"}


@pytest.mark.parametrize(
    ("expect", "failure"),
    [
        ("{pub: [{id: 1, n: 2, note: null}]}", None),
        ("{pub: [{n: 2.0}]}", None),
        ("{pub: [{id: 1, note: x}]}", "t at pub: expected {id: 1, note: x}, got {id: 1, note: null}"),
        ("{pub: [{id: 1}, {id: 2}]}", "t at pub: expected {id: 2}, got no rows"),
        ("{pub: []}", "t at pub: expected no rows, got {id: 1, n: 2.00, note: null}"),
        ('{pub: [{id: 1, n: "2"}]}', "t at pub: expected {id: 1, n: 2}, got {id: 1, n: 2.00}"),
        ("{sub1: {same_as: pub}}",
         "t at sub1: expected the same as at pub: {id: 1, n: 2.00, note: null}, got no rows"),
    ],
)  # fmt: skip
def test_tables(expect, failure):
    made = Made(f"{{tables: {{t: {expect}}}}}")
    made.final["pub"] = [ROW]
    assert made.judged() == ([] if failure is None else [(failure, "safety")])


def test_the_same_row_of_another_version_is_not_the_same():
    made = Made("{tables: {t: {sub1: {same_as: pub}}}}")
    made.final = {"pub": [ROW], "sub1": [{**ROW, "msrepl_tran_version": "v0"}]}
    (told,) = made.judged()
    assert told[0].endswith("got other row versions")


def test_prepared_left_is_expected_to_be_none():
    made = Made()
    made.prepared = ["twopc:c:1:1:pub"]
    assert made.judged() == [("prepared_left: twopc:c:1:1:pub is still prepared at pub", "safety")]
    made = Made("{prepared_left: 1}")
    assert made.judged() == [("prepared_left: nothing is prepared, but 1 was expected", "safety")]


@pytest.mark.parametrize(("expect", "count"), [("{atomic: false}", 0), ("{}", 1)])
def test_an_invariant_can_be_left_out(expect, count):
    made = Made(expect)
    made.ends["a_write"] = ("ok", {"gid": "twopc:c:1:1", "tag": "UPDATE 1", "rowcount": 1})
    made.ends["a_end"] = ("ok", {"gid": "twopc:c:1:1", "data": {"committed": True}})
    assert len(made.judged()) == count


def test_a_failure_knows_its_line():
    made = Made("\n      steps:\n        b_write:\n          {rejected: row_missing}")
    assert made.lines() == [22]


def test_notes():
    made = Made("{steps: {b_write: {rejected: row_missing}}}")
    made.ends["b_write"] = REFUSED
    made.blocked["b_write"] = {"session": "alice", "step": "a_write"}
    assert made.verdict().notes == ("b_write waited for a_write, rejected: row_missing",)


@pytest.mark.parametrize(
    ("expect", "end", "blocked", "actual"),
    [
        ("{}", REFUSED, None, [("orders.0.steps.3", {"rejected": "row_missing"})]),
        ("{}", REFUSED, "a_write",
         [("orders.0.steps.3", {"blocked_by": "a_write", "then": {"rejected": "row_missing"}})]),
        ("{}", ("error", {"sqlstate": "23505"}), None, [("orders.0.steps.3", {"error": "23505"})]),
        ("{}", ("in_doubt", {}), None, [("orders.0.steps.3", None)]),
        ("{steps: {b_write: {rowcount: 2}}}", ("ok", {"rowcount": 1}), None,
         [("orders.0.expect.steps.b_write.rowcount", 1)]),
        ("{steps: {b_write: {rows: [{n: 2}]}}}", ("ok", {"rows": ({"n": "2.10", "x": "a"},)}), None,
         [("orders.0.expect.steps.b_write.rows", [{"n": "2.10"}])]),
        ("{steps: {b_write: {blocked_by: a_write, then: ok}}}", REFUSED, "a_write",
         [("orders.0.expect.steps.b_write.then", {"rejected": "row_missing"})]),
        ("{steps: {b_write: {blocked_by: a_write, then: ok}}}", ("ok", {}), None,
         [("orders.0.expect.steps.b_write", "ok")]),
        ("{steps: {b_write: {blocked_by: a_write, then: ok}}}", REFUSED, None,
         [("orders.0.expect.steps.b_write", {"rejected": "row_missing"})] * 2),
        ("{sessions: {bob: rolled back}}", ("ok", {}), None,
         [("orders.0.expect.sessions.bob", "committed")]),
        ("{atomic: true, prepared_left: 1}", ("ok", {}), None,
         [("orders.0.expect.prepared_left", None)]),
    ],
)  # fmt: skip
def test_what_would_have_to_be_expected(expect, end, blocked, actual):
    made = Made(expect)
    made.ends["b_write"] = end
    if blocked:
        made.blocked["b_write"] = {"session": "alice", "step": blocked}
    assert made.actual() == actual


@pytest.mark.parametrize(
    ("expect", "actual"),
    [
        ("{pub: []}", [("pub", [{"id": "1", "n": "2.00", "note": None}])]),
        ("{pub: [{id: 2}]}", [("pub", [{"id": "1"}])]),
        ("{everywhere: []}", [("", {"pub": [{"id": "1", "n": "2.00", "note": None}], "sub1": []})]),
        ("{everywhere: [{id: 3}], sub1: []}", [("everywhere", [{"id": "1"}])]),
        ("{sub1: {same_as: pub}}", [("sub1", None)]),
    ],
)
def test_which_rows_would_have_to_be_expected(expect, actual):
    made = Made(f"{{tables: {{t: {expect}}}}}")
    made.final["pub"] = [ROW]
    found = made.actual()
    head = "orders.0.expect.tables.t"
    assert found == [(f"{head}.{at}" if at else head, rows) for at, rows in actual]


def test_ignored_columns_need_not_be_the_same():
    versions = {**ROW, "msrepl_tran_version": "v0"}
    for ignored, wrong in (("[version]", 0), ("[note, version]", 0), ("[note]", 1)):
        made = Made(f"{{tables: {{t: {{sub1: {{same_as: pub, ignore: {ignored}}}}}}}}}")
        made.final = {"pub": [ROW], "sub1": [versions]}
        assert len(made.judged()) == wrong, ignored


@pytest.mark.parametrize(("session", "accepted"), [("bob", "bob"), ("", None)])
def test_by_whom_it_would_have_to_be_blocked(session, accepted):
    made = Made("{steps: {b_write: {blocked_by: a_write, then: ok}}}")
    made.blocked["b_write"] = {"session": session, "pid": 7}
    assert made.actual() == [("orders.0.expect.steps.b_write.blocked_by", accepted)]
