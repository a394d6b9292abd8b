"""Tests of plain sessions: scripts, transaction control, notices, manually prepared branches."""

from __future__ import annotations

import pytest

from twopc.errors import ScenarioError

ALONE = """\
twopc: 1
name: test
about: Written in a test, with tables of its own.
topology: {publisher: pub, subscribers: [], distribution: none, timeouts: {step: 8s}}
setup: ["create table t (id int primary key, n int)", "insert into t values (1, 10), (2, 20)"]
teardown: "drop table t"
"""

TWO = """\
sessions:
  s1:
    node: pub
    plain: true
    setup: begin isolation level repeatable read
    teardown: select 1
    steps:
      - w1: {script: "update t set n = n + 1 where id = 1; select n from t where id = 1"}
      - c1: {script: "commit; select 1 as one"}
  s2:
    node: pub
    plain: true
    steps:
      - w2: {script: "begin isolation level repeatable read; update t set n = n + 2 where id = 1"}
      - r2: {sql: "select n from t where id = :id", params: {id: 1}}
      - c2: commit
"""


async def test_scripts_and_what_they_leave_open(play):
    played = await play(
        TWO
        + """
orders:
  - name: one after the other
    steps: [w1, c1, w2, r2, c2]
    expect: {steps: {w1: {rows: [{n: 11}]}, r2: {rows: [{n: 13}]}}, sessions: {s1: committed, s2: committed}}
  - name: at once
    steps: [w1, w2, c1, r2, c2]
    expect:
      steps:
        w2: {blocked_by: w1, then: {error: serialization_failure}}
        r2: {error: in_failed_sql_transaction}
        c2: rolled back
      sessions: {s1: committed, s2: rolled back}
""",
        head=ALONE,
    )
    assert played.failures == []
    assert played.of("setup") == []  # a statement without rows has no record
    shown = [result["rows"] for each in played.of("teardown") for result in each.data["results"]]
    assert shown == [[["1"]], [["1"]]]


async def test_what_scripts_leave_behind(play):
    """A transaction open at the end is rolled back; a prepared one is removed with the scenario."""
    played = await play(
        """
sessions:
  s:
    node: pub
    plain: true
    steps:
      - open:    {script: "begin; insert into t values (3, 3)"}
      - prepare: {script: "prepare transaction 'by hand'"}
      - again:   {script: "begin; insert into t values (4, 4)"}
orders:
  - name: all
    steps: [open, prepare, again]
    expect: {sessions: {s: rolled back}}
""",
        head=ALONE,
    )
    assert played.failures == []
    assert [record.tag for record in played.of("ok", "prepare")] == ["PREPARE TRANSACTION"]


async def test_notices_are_waited_for(play):
    played = await play(
        """
sessions:
  hears:
    node: pub
    plain: true
    steps: [listen: {sql: listen here}]
  tells:
    node: pub
    plain: true
    steps:
      - tell: {script: "notify here, 'one'; notify here, 'two'"}
      - warn: {script: "do $$ begin raise notice 'careful'; end $$"}
orders:
  - {name: heard, steps: [listen, tell, {wait: listen notices 2}, warn, {wait: warn notices 1}]}
""",
        head=ALONE,
    )
    assert played.failures == []
    assert [(r.step, r.data["count"]) for r in played.of("notice")] == [("warn", 1)]


async def test_a_notice_stands_behind_the_end_of_its_step(play):
    """A notice is recorded after the end of its step, however late and however often polled."""
    played = await play(
        """
sessions:
  s:
    node: pub
    plain: true
    steps: [warn: {script: "do $$ begin raise notice 'careful'; perform pg_sleep(0.2); end $$"}]
orders: [{name: x, steps: [warn]}]
""",
        head=ALONE,
    )
    kinds = [record.kind for record in played.records if record.step == "warn"]
    assert kinds == ["invoke", "ok", "notice"]


async def test_notices_that_do_not_come(play):
    played = await play(
        """
sessions: {s: {node: pub, plain: true, steps: [look: {sql: select 1}]}}
orders: [{name: x, steps: [look, {wait: look notices 1}]}]
""",
        head=ALONE.replace("step: 8s", "step: 200ms"),
    )
    assert played.verdict.kind == "liveness"
    assert [record.message for record in played.of("stuck")] == ["s has got 0 of 1 notices"]


async def test_beside_published_tables_it_is_the_application(play):
    played = await play(
        """
sessions:
  s:
    node: sub1
    plain: true
    steps:
      - who:   {check: "select current_user = session_user as same, pg_has_role('pg_monitor', 'member') as may",
                rows: [{same: true, may: false}]}
      - write: {sql: "update t set n = 0 where id = 1"}
orders: [{name: x, steps: [who, write], expect: {steps: {write: {error: invalid_transaction_state}}}}]
"""
    )
    assert played.failures == []


@pytest.mark.parametrize(
    ("wrong", "line"),
    [("setup: [selec 1]", 3), ("teardown: [select 1, selec 2]", 3)],
)
async def test_what_the_server_does_not_take_around_the_steps(play, wrong, line):
    head = "twopc: 1\nname: test\nWRONG\nabout: x\ntopology: {publisher: pub, subscribers: [], distribution: none}\n"
    with pytest.raises(ScenarioError, match=f"scenario:{line}:.*syntax error"):
        await play(
            "sessions: {s: {node: pub, plain: true, steps: [x: {sql: select 1}]}}\n"
            "orders: [{name: a, steps: [x]}]",
            head=head.replace("WRONG", wrong),
        )


async def test_a_session_s_own_setup_that_fails(play):
    with pytest.raises(ScenarioError, match=r"scenario:9:.*selec"):
        await play(
            """
sessions:
  s: {node: pub, plain: true, setup: ["select 1", "selec 2"], steps: [x: {sql: select 1}]}
orders: [{name: a, steps: [x]}]
""",
            head=ALONE,
        )
