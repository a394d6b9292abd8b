"""Tests of events between nodes: waits over links, refusals, and cycles that no server detects."""

from __future__ import annotations

import pytest

QUARREL = """\
sessions:
  alice:
    node: sub1
    steps:
      - a_begin: begin
      - a_one:   {sql: "update t set n = 1 where id = 1"}
      - a_two:   {sql: "update t set n = 1 where id = 2"}
      - a_end:   commit
  bob:
    node: sub2
    steps:
      - b_begin: begin
      - b_one:   {sql: "update t set n = 2 where id = 1"}
      - b_alone: {sql: "update t set n = 2 where id = 2 returning n"}
      - b_end:   commit
  carol:
    node: sub1
    steps:
      - c_begin: begin
      - c_three: {sql: "update t set n = 2 where id = 3"}
      - c_one:   {sql: "update t set n = 2 where id = 1"}
      - c_end:   commit
  office:
    node: pub
    steps:
      - o_begin: begin
      - o_two:   {sql: "update t set n = 3 where id = 2"}
      - o_three: {sql: "update t set n = 3 where id = 3"}
      - o_end:   commit
"""


def head(**topology: str) -> str:
    more = "".join(f", {key}: {value}" for key, value in topology.items())
    return f"""\
twopc: 1
name: test
about: Written in a test.
topology: {{publisher: pub, subscribers: [sub1, sub2], distribution: none{more}}}
tables:
  t:
    columns: {{id: int primary key, n: int}}
    rows: [{{id: 1, n: 10}}, {{id: 2, n: 20}}, {{id: 3, n: 30}}]
"""


async def test_a_deadlock_that_no_server_sees_is_named_and_broken(play):
    """The youngest session of a deadlock across servers is the victim; all others continue."""
    played = await play(
        QUARREL
        + """
orders:
  - name: a ring
    steps: [o_begin, o_two, c_begin, c_three, a_begin, a_one, o_three, c_one, a_two, a_end, c_end, o_end]
    expect:
      steps:
        o_three: {blocked_by: c_three, then: ok}
        c_one: {blocked_by: a_one, then: ok}
        a_two: {blocked_by: o_two, then: {rejected: deadlock}}
      sessions: {alice: rolled back, carol: committed, office: committed}
      tables: {t: {pub: [{id: 1, n: 2}, {id: 2, n: 3}, {id: 3, n: 3}]}}
""",
        head=head(),
    )
    assert played.failures == []
    (refused,) = played.of("rejected")
    (launched,) = played.of("invoke", "a_two")
    for deadlock in played.of("deadlock"):
        assert sorted(deadlock.data["cycle"]) == [
            "alice waits at pub for office (a row of t)",
            "carol waits at sub1 for alice (a row of t)",
            "office waits at pub for carol (a row of t)",
        ]
        assert deadlock.t_us - launched.t_us < 1_000_000
    # on a busy machine the coordinator's own detector can be first
    assert played.of("deadlock") or len(refused.data["cycle"]) == 3


@pytest.mark.parametrize(
    "commit", ["presumed_abort", "presumed_commit", "presumed_nothing", "last_agent"]
)
async def test_every_commit_variant(play, commit):
    played = await play(
        QUARREL
        + """
orders:
  - name: one wins
    steps: [a_begin, a_one, b_begin, b_one, a_end, b_end]
    expect:
      steps: {b_one: {blocked_by: a_one, then: {rejected: version_mismatch}}}
      sessions: {alice: committed, bob: rolled back}
      tables: {t: {sub1: {same_as: pub}, pub: [{id: 1, n: 1}, {id: 2, n: 20}, {id: 3, n: 30}]}}
""",
        head=head(commit=commit),
    )
    assert played.failures == []


async def test_lazy_shipping_is_refused_at_commit(play):
    played = await play(
        QUARREL
        + """
orders:
  - name: at the end
    steps: [a_begin, a_one, b_begin, b_one, a_end, b_end]
    expect:
      steps: {b_end: {rejected: version_mismatch}}
      sessions: {alice: committed, bob: rolled back}
""",
        head=head(shipping="lazy"),
    )
    assert played.failures == []
    assert played.of("blocked") == []


async def test_a_step_of_its_own_is_a_transaction_of_its_own(play):
    played = await play(
        QUARREL
        + """
orders:
  - name: alone
    steps: [b_alone, {wait: b_alone done}, o_begin, o_two, o_end]
    expect:
      steps: {b_alone: {rows: [{n: 2}]}}
      sessions: {bob: committed, office: committed}
      tables: {t: {pub: [{id: 1, n: 10}, {id: 2, n: 3}, {id: 3, n: 30}],
                   sub2: [{id: 1, n: 10}, {id: 2, n: 2}, {id: 3, n: 30}]}}
  - name: alone and refused
    steps: [o_begin, o_two, o_end, b_alone]
    expect:
      steps: {b_alone: {rejected: version_mismatch}}
      sessions: {bob: rolled back}
""",
        head=head(),
    )
    assert played.failures == []


async def test_a_savepoint_outlives_a_refusal(play):
    """A rollback to a savepoint undoes a refused change at both nodes; the rest commits."""
    played = await play(
        """
sessions:
  office: {node: pub, steps: [o_one: {sql: "update t set n = 0 where id = 1"}]}
  alice:
    node: sub1
    steps:
      - a_begin: begin
      - a_two:   {sql: "update t set n = 5 where id = 2"}
      - a_save:  {sql: "savepoint a"}
      - a_stale: {sql: "update t set n = 5 where id = 1"}
      - a_lost:  {sql: "update t set n = 6 where id = 2"}
      - a_back:  {sql: "rollback to savepoint a"}
      - a_three: {sql: "update t set n = 5 where id = 3"}
      - a_end:   commit
orders:
  - name: back
    steps: [o_one, a_begin, a_two, a_save, a_stale, a_lost, a_back, a_three, a_end]
    expect:
      steps: {a_stale: {rejected: version_mismatch}, a_three: {rowcount: 1}}
      sessions: {alice: committed}
      tables:
        t:
          pub: [{id: 1, n: 0}, {id: 2, n: 5}, {id: 3, n: 5}]
          sub1: [{id: 1, n: 10}, {id: 2, n: 5}, {id: 3, n: 5}]
""",
        head=head(),
    )
    assert played.failures == []
    assert played.ends()["a_lost"] == "skipped"


async def test_a_session_that_never_ends_is_rolled_back_everywhere(play):
    played = await play(
        QUARREL + "orders: [{name: open, steps: [a_begin, a_one]}]",
        head=head(),
    )
    assert played.failures == []
    assert [r.message for r in played.of("outcome")] == ["rolled back"]
    assert all(r.data["gids"] == [] for r in played.of("prepared"))


async def test_what_is_expected_wrongly_fails(play):
    """Every kind of expectation that is wrong fails an order in which all goes well."""
    played = await play(
        QUARREL
        + """
orders:
  - name: wrong
    steps: [a_begin, a_one, {wait: a_one blocked}, b_begin, b_one, a_end, b_end]
    expect:
      steps:
        a_one: {rowcount: 2}
        b_one: {blocked_by: office, then: ok}
        b_end: ok
      sessions: {alice: rolled back, bob: committed}
      tables: {t: {pub: [{id: 1, n: 2}, {id: 2, n: 20}, {id: 3, n: 30}], sub2: {same_as: pub}}}
      prepared_left: 1
""",
        head=head(),
    )
    assert played.failures == [
        "a_one: expected 2 rows, got 1",
        "b_one: expected blocked by office, got blocked by a_one",
        "b_one: expected ok, got rejected: version_mismatch",
        "b_end: expected ok, got rolled back",
        "a_one is not blocked at this point",
        "alice: expected rolled back, got committed",
        "bob: expected committed, got rolled back",
        "t at pub: expected {id: 1, n: 2}, got {id: 1, n: 1}",
        "t at sub2: expected the same as at pub: {id: 1, n: 1}, {id: 2, n: 20}, {id: 3, n: 30}, "
        "got {id: 1, n: 10}, {id: 2, n: 20}, {id: 3, n: 30}",
        "prepared_left: nothing is prepared, but 1 was expected",
    ]
    assert played.verdict.as_json()["exit_code"] == 1
