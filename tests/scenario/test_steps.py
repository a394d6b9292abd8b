"""Tests of steps other than SQL: calls, roles, and paused agents."""

from __future__ import annotations

from tests.scenario.conftest import DELIVERING

HEAD = f"""{DELIVERING}\
    sql: "create procedure add(which int, more int) language sql as 'update t set n = n + more where id = which'"
"""


async def test_calls(play):
    played = await play(
        """
sessions:
  office:
    node: pub
    steps:
      - grant:   {sql: "select n from t where id = 2", save: {twenty: n}}
      - listed:  {call: add, args: [1, 5]}
      - by_name: {call: add, args: {more: ":twenty", which: 1}}
orders:
  - name: x
    steps: [grant, listed, by_name]
    expect: {tables: {t: {everywhere: [{id: 1, n: 35}, {id: 2, n: 20}]}}}
""",
        head=HEAD,
    )
    assert played.failures == []
    (invoked,) = played.of("invoke", "listed")
    assert invoked.sql == "call add(:argument_1, :argument_2)"
    assert invoked.params == {"argument_1": 1, "argument_2": 5}


async def test_a_parameter_goes_before_what_was_saved(play):
    played = await play(
        """
sessions:
  office:
    node: pub
    steps:
      - one:   {sql: "select n from t where id = 1", save: {n: n}}
      - two:   {check: "select :n::int as n", params: {n: 2}, rows: [{n: 2}]}
      - three: {check: "select :n::int as n", rows: [{n: 10}]}
orders: [{name: x, steps: [one, two, three]}]
""",
        head=HEAD,
    )
    assert played.failures == []


async def test_roles(play):
    """A role holds for its step only; the application may take only roles that it has."""
    played = await play(
        """
sessions:
  office:
    node: pub
    steps:
      - alone:   {sql: select 1, as: pg_monitor}
      - o_begin: begin
      - inside:  {sql: select 1, as: pg_monitor}
      - o_end:   commit
      - nobody:  {sql: select 1, as: nobody there}
  alice:
    node: sub1
    steps: [hers: {sql: select 1, as: pg_monitor}]
orders:
  - name: x
    steps: [alone, o_begin, inside, o_end, nobody, hers]
    expect:
      steps: {alone: {error: 42501}, inside: {error: 42501}, o_end: rolled back, nobody: {error: 22023},
              hers: {error: 42501}}
""",
        head=HEAD,
    )
    assert played.failures == []


async def test_roles_of_an_administrator(play):
    """A role works in a transaction and after a rollback, and does not hold for the next step."""
    head = "twopc: 1\nname: test\nabout: x\ntopology: {publisher: pub, subscribers: [], distribution: none}\n"
    played = await play(
        """
sessions:
  s:
    node: pub
    plain: true
    steps:
      - open:  {script: begin}
      - one:   {check: "select current_user as name", rows: [{name: pg_monitor}], as: pg_monitor}
      - back:  rollback
      - two:   {check: "select current_user as name", rows: [{name: pg_monitor}], as: pg_monitor}
      - three: {check: "select current_user = session_user as own", rows: [{own: true}]}
orders: [{name: x, steps: [open, one, back, two, three]}]
""",
        head=head,
    )
    assert played.failures == []


async def test_an_agent_that_rests(play):
    played = await play(
        """
sessions:
  office:
    node: pub
    steps:
      - rest:   {pause: agent sub1}
      - write:  {sql: "update t set n = 11 where id = 1"}
      - everybody: sync
  one:
    node: sub1
    steps:
      - one_sync: sync
      - one_old: {check: "select n from t where id = 1", rows: [{n: 10}]}
      - one_works: {resume: agent sub1}
      - one_new: sync
      - one_look: {check: "select n from t where id = 1", rows: [{n: 11}]}
  two:
    node: sub2
    steps: [two_look: {check: "select n from t where id = 1", rows: [{n: 11}]}]
orders:
  - name: a step's pause
    steps: [rest, write, everybody, two_look, one_sync, one_old, one_works, one_new, one_look]
    expect: {steps: {one_new: {delivered: 1}}}
  - name: an order's pause
    steps: [{pause: agent sub1}, write, {sync: everywhere}, two_look, one_sync, one_old]
""",
        head=HEAD,
    )
    assert played.failures == []
    told = [(r.node, r.data["on"]) for r in played.of("paused")]
    assert told == [("sub1", True), ("sub1", False)] * 2
    assert [r.message for r in played.of("ok", "one_sync")] == ["the agent of sub1 is paused"] * 2
