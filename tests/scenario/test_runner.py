"""Tests of the launch rule and its consequences, with plain transactions at the Publisher."""

from __future__ import annotations

import psycopg
import pytest

from tests.scenario.conftest import HEAD
from twopc.errors import ScenarioError, ServerError
from twopc.server import EmbeddedServer
from twopc.sim.report.history import History
from twopc.sim.scenario.check import parse
from twopc.sim.scenario.postgres_stage import PostgresStage
from twopc.sim.scenario.postgres_theatre import PostgresTheatre
from twopc.sim.scenario.run import run
from twopc.sim.sessions.waits import LOOK_EVERY_S

TWO = """\
sessions:
  alice:
    node: pub
    steps:
      - a_begin: begin
      - a_one:   {sql: "update t set n = 1 where id = 1"}
      - a_two:   {sql: "update t set n = 1 where id = 2"}
      - a_end:   commit
  bob:
    node: pub
    steps:
      - b_begin: begin
      - b_two:   {sql: "update t set n = 2 where id = 2"}
      - b_one:   {sql: "update t set n = 2 where id = 1"}
      - b_look:  {check: "select n from t order by id", rows: [{n: 2}, {n: 2}]}
      - b_end:   commit
"""


async def test_a_blocked_step_is_seen_and_its_session_queued(play):
    played = await play(
        TWO
        + """
orders:
  - name: bob waits
    steps: [a_begin, a_one, b_begin, b_one, {wait: b_one blocked}, b_end, a_end]
    expect:
      steps: {b_one: {blocked_by: a_one, then: {rowcount: 1}}}
      sessions: {alice: committed, bob: committed}
      tables: {t: {pub: [{id: 1, n: 2}, {id: 2, n: 20}]}}
"""
    )
    assert played.failures == []
    (blocked,) = played.of("blocked")
    assert (blocked.step, blocked.session) == ("b_one", "bob")
    assert {**blocked.wait, "pid": 0} == {
        "session": "alice", "step": "a_one", "node": "pub", "gid": "", "pid": 0,
        "lock": "a row of t",
    }  # fmt: skip
    assert [record.step for record in played.of("queued")] == ["b_end"]
    # the holder's session continues before the waiting one
    order = [(r.kind, r.step) for r in played.records if r.kind in ("invoke", "ok", "unblocked")]
    assert order.index(("invoke", "a_end")) < order.index(("unblocked", "b_one"))
    assert order.index(("ok", "b_one")) < order.index(("invoke", "b_end"))


class Looks(History):
    """A history that also records each look at the wait graph, and the sessions seen waiting."""

    def __init__(self):
        super().__init__()
        self.happened = []

    def _add(self, kind, order, t_ns, fields):
        self.happened.append((kind, fields.get("session", "")))
        return super()._add(kind, order, t_ns, fields)


async def test_a_wait_is_told_at_the_second_look_that_shows_it(play, monkeypatch):
    """A wait is recorded at the second look that shows it.

    Looks are a few milliseconds apart: a wait is recorded within 20 ms and the duration of two
    looks.
    """
    history = Looks()
    look = PostgresStage.waits

    async def noted(stage):
        seen = await look(stage)
        history.happened.append(("look", tuple(seen.waits)))
        return seen

    monkeypatch.setattr(PostgresStage, "waits", noted)
    await play(
        TWO + "orders: [{name: bob waits, steps: [a_begin, a_one, b_begin, b_one, a_end, b_end]}]",
        history=history,
    )
    happened = history.happened
    told = happened.index(("blocked", "bob"))
    assert happened[:told].count(("look", ("bob",))) == 2
    assert 2 * LOOK_EVERY_S <= 0.020


async def test_nothing_left_can_end_a_wait(play):
    played = await play(
        TWO
        + """
orders:
  - name: alice never ends
    steps: [a_begin, a_one, b_begin, b_one, b_end]
"""
    )
    assert played.verdict.kind == "liveness"
    assert played.of("stuck")[0].message == (
        "b_one waits at pub for alice (a_one); b_end is queued behind b_one; "
        "alice has no step left in this order"
    )
    assert [record.message for record in played.of("outcome")] == ["rolled back", "rolled back"]
    assert played.failures[0].startswith("it cannot go on: b_one waits at pub for alice")


async def test_a_deadlock_within_one_server_is_broken_by_it(play):
    played = await play(
        TWO
        + "orders: [{name: crossing, steps: [a_begin, a_one, b_begin, b_two, a_two, b_one, a_end, b_end]}]"
    )
    assert played.of("deadlock") == []  # the server breaks it
    assert played.of("stuck") == []
    (refused,) = played.of("rejected")  # the server chooses the victim
    assert refused.conflict["kind"] == "deadlock"
    assert refused.sqlstate == "40P01"
    assert sorted(r.message for r in played.of("outcome")) == ["committed", "rolled back"]
    assert played.verdict.kind == "liveness"  # no deadlock was expected


async def test_a_lock_timeout_that_is_expected_is_waited_for(play):
    head = """\
twopc: 1
name: test
about: x
topology: {publisher: pub, subscribers: [sub1], timeouts: {lock: 500ms}}
tables: {t: {columns: {id: int primary key, n: int}, rows: [{id: 1, n: 10}]}}
"""
    played = await play(
        TWO
        + """
orders:
  - name: at the end
    steps: [a_begin, a_one, b_begin, b_one]
    expect: {steps: {b_one: {blocked_by: alice, then: {rejected: lock_timeout}}}}
  - name: in the middle
    steps: [a_begin, a_one, b_begin, b_one, {wait: b_one done}, a_end, b_end]
    expect: {steps: {b_one: {blocked_by: alice, then: {error: lock_not_available}}}}
  - name: by its SQLSTATE
    steps: [a_begin, a_one, b_begin, b_one, {wait: b_one done}, a_end, b_end]
    expect: {steps: {b_one: {blocked_by: alice, then: {error: 55P03}}}}
""",
        head=head,
    )
    assert played.failures == []
    kinds = [(r.kind, r.step) for r in played.records if r.order == "in the middle"]
    assert kinds.index(("rejected", "b_one")) < kinds.index(("invoke", "a_end"))


async def test_a_refused_transaction_sends_nothing_more(play):
    played = await play(
        """
sessions:
  alice:
    node: pub
    steps:
      - begin_it: begin
      - twice:    {sql: "insert into t values (1, 1)"}
      - after:    {sql: "select 1"}
      - end_it:   commit
      - alone:    {sql: "insert into t values (1, 1)"}
      - another:  {lines: ["insert into t values (3, 1)", "select count(*) as c from t"], rows: [{c: 3}]}
orders:
  - name: all
    steps: [begin_it, twice, after, end_it, alone, another]
    expect:
      steps: {twice: {error: 23505}, end_it: rolled back, alone: {error: UniqueViolation}}
      sessions: {alice: committed}
"""
    )
    assert played.failures == []
    assert played.ends() == {
        "begin_it": "ok", "twice": "error", "after": "skipped", "end_it": "rolled_back",
        "alone": "error", "another": "ok",
    }  # fmt: skip


async def test_saved_values_and_parameters(play):
    played = await play(
        """
sessions:
  alice:
    node: pub
    steps:
      - look: {sql: "select n, 'it''s 5%' as text from t where id = :id", params: {id: 2}, save: {n: n, text: text}}
      - add:  {sql: "insert into t values (3, :n + :more)", params: {more: 5}}
      - same: {check: "select :text::text = 'it''s 5%' as same", rows: [{same: true}]}
      - sum:  {check: "select sum(n)::numeric(10,2) as s from t where n::text not like '%x%'", rows: [{s: 55}]}
orders: [{name: all, steps: [look, add, same, sum]}]
"""
    )
    assert played.failures == []


async def test_what_cannot_be_saved(play):
    played = await play(
        """
sessions:
  alice:
    node: pub
    steps:
      - none: {sql: "select n from t where id = 9", save: {n: n}}
      - name: {sql: "select n from t where id = 1", save: {n: m}}
orders: [{name: all, steps: [none, name]}]
"""
    )
    assert played.failures == [
        "none: expected ok, got error: nothing to save as 'n': no row came back",
        "name: expected ok, got error: nothing to save as 'n': the columns are n",
    ]


async def test_an_order_rolls_back_what_it_asks_for_and_what_is_left_open(play):
    played = await play(
        TWO
        + """
orders:
  - name: by hand
    steps: [a_begin, a_one, {rollback: alice}, b_begin, b_one]
    expect:
      sessions: {alice: rolled back, bob: rolled back}
      tables: {t: {pub: [{id: 1, n: 10}, {id: 2, n: 20}]}}
"""
    )
    assert played.failures == []
    assert [r.message for r in played.of("info") if r.session] == [
        "still open at the end of the order: rolled back"
    ]


async def test_a_wait_that_is_none(play):
    played = await play(
        TWO + "orders: [{name: x, steps: [a_begin, a_one, {wait: a_one blocked}, a_end]}]"
    )
    assert played.failures == ["a_one is not blocked at this point"]


async def test_a_step_that_takes_too_long(play):
    played = await play(
        """
sessions:
  alice: {node: pub, steps: [slow: {sql: "select pg_sleep(60)", timeout: 1ms}]}
orders: [{name: x, steps: [slow]}]
"""
    )  # often cancelled before the server has begun the statement
    assert played.verdict.kind == "liveness"
    assert played.failures == ["slow: expected ok, got no end within its time limit"]
    assert [r.message for r in played.of("info") if r.session] == ["cancelled: error"]


class Intruder(History):
    """A history that locks a row in a foreign session once a step has returned its database."""

    def __init__(self, server) -> None:
        super().__init__()
        self._server = server
        self.connection: psycopg.Connection

    def _add(self, kind, order, t_ns, fields):
        record = super()._add(kind, order, t_ns, fields)
        if kind == "ok" and record.step == "where":
            (row,) = record.rows
            self.connection = psycopg.connect(self._server.superuser_dsn(row["name"]))
            self.connection.execute("update t set n = 0 where id = 1")
        if kind == "timed_out":
            self.connection.close()
        return record


async def test_somebody_from_outside_holds_the_lock(play, server):
    """A wait for a foreign session is shown, and may last up to the step's time limit."""
    played = await play(
        """
sessions:
  alice:
    node: pub
    steps:
      - where: {sql: "select current_database() as name"}
      - write: {sql: "update t set n = 1 where id = 1", timeout: 1s}
orders: [{name: x, steps: [where, write]}]
""",
        history=Intruder(server),
    )
    (blocked,) = played.of("blocked")
    assert blocked.wait["session"] == ""
    assert played.of("stuck") == []
    assert played.of("timed_out")[0].message == (
        f"no end within its time limit: it waits at pub for pid {blocked.wait['pid']}"
    )


async def test_orders_are_played_one_by_one_on_fresh_stages(play):
    played = await play(
        "sessions: {alice: {node: pub, steps: [x: {sql: insert into t values (3)}]}}\n"
        "orders: [{name: a, steps: [x]}, {name: b, steps: [x]}]"
    )
    assert played.failures == []
    assert [each.name for each in played.verdict.orders] == ["a", "b"]


@pytest.mark.parametrize(
    ("table", "line", "message"),
    [
        ("columns: {id: integr primary key}", 7, 'type "integr" does not exist (42704)'),
        ("columns: {id: int primary key}\n    sql: [\"select 1\", \"create indx\"]", 8, "(42601)"),
        ("columns: {id: int primary key}\n    rows:\n      - {id: 1}\n      - {id: one}", 10, "(22P02)"),
    ],
)  # fmt: skip
async def test_what_the_server_does_not_take_has_its_place(play, table, line, message):
    head = (
        "twopc: 1\nname: test\nabout: x\ntopology: {publisher: pub, subscribers: [sub1]}\n"
        f"tables:\n  t:\n    {table}"
    )
    with pytest.raises(ScenarioError, match=f"scenario:{line}:") as caught:
        await play(
            "\nsessions: {a: {node: pub, steps: [x: {sql: select 1}]}}\n"
            "orders: [{name: a, steps: [x]}]",
            head=head,
        )
    assert message in str(caught.value)


class Killer(History):
    """A history that kills the server once a step has ended."""

    def __init__(self, server) -> None:
        super().__init__()
        self._server = server

    def _add(self, kind, order, t_ns, fields):
        record = super()._add(kind, order, t_ns, fields)
        if (kind, record.step) == ("ok", "a_one"):
            self._server.kill()
        return record


async def test_the_server_goes_away():
    scenario = parse(
        HEAD + TWO + "orders: [{name: x, steps: [a_begin, a_one, b_begin, b_one, a_end]}]"
    )
    with EmbeddedServer.start() as server:
        history = Killer(server)
        with pytest.raises(ServerError, match="a node's server cannot be used"):
            async with PostgresTheatre(server=server) as theatre:
                await run(scenario, theatre, history)
    assert history.records[-1].kind != "end"
