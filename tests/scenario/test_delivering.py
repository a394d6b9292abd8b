"""Tests of distribution in scenarios: deliveries, their records and expectations, and waits."""

from __future__ import annotations

from tests.scenario.conftest import DELIVERING


async def test_a_sync_brings_its_own_node_up_to_date_and_no_other(play):
    played = await play(
        """\
sessions:
  here:
    node: sub1
    steps: [a_write: {sql: "update t set n = 11 where id = 1"}, a_sync: sync]
  there:
    node: sub2
    steps:
      - b_old:  {check: "select n from t where id = 1", rows: [{n: 10}]}
      - b_sync: sync
      - b_new:  {check: "select n from t where id = 1", rows: [{n: 11}]}
orders:
  - name: one by one
    steps: [a_write, a_sync, b_old, b_sync, b_new]
    expect:
      steps: {a_sync: {delivered: 0}, b_sync: {delivered: 1}}
      tables: {t: {everywhere: [{id: 1, n: 11}, {id: 2, n: 20}], sub2: {same_as: pub}}}
""",
        head=DELIVERING,
    )

    assert played.failures == []
    told = [
        (r.kind, r.node, r.data["origin"], r.data["commands"])
        for r in (*played.of("suppress"), *played.of("deliver"))
    ]
    assert told == [
        ("suppress", "sub1", "sub1", ["update t id=1"]),
        ("deliver", "sub2", "sub1", ["update t id=1"]),
    ]
    assert played.of("deliver")[0].gid == played.of("ok", "a_write")[0].gid


async def test_what_is_expected_wrongly_of_deliveries(play):
    played = await play(
        """\
sessions:
  office:
    node: pub
    steps: [o_write: {sql: "update t set n = 11 where id = 1"}, o_sync: sync]
orders:
  - name: wrong
    steps: [o_write, o_sync]
    expect:
      steps: {o_sync: {delivered: 1}}
      tables: {t: {everywhere: [{id: 1, n: 10}, {id: 2, n: 20}], sub2: [{id: 1, n: 11}, {id: 2, n: 20}]}}
      echoed: 1
""",
        head=DELIVERING,
    )

    assert played.failures == [
        "o_sync: expected 1 transaction, got 2",
        "t at pub, sub1: expected {id: 1, n: 10}, got {id: 1, n: 11}",
        "echoed: nothing came back, but 1 was expected",
    ]


async def test_a_sync_waits_for_a_row_that_a_session_holds(play):
    """A sync that waits for a row is blocked by the row's holder, and continues afterwards."""
    played = await play(
        """\
sessions:
  office:
    node: pub
    steps: [o_write: {sql: "update t set n = 11 where id = 1"}]
  here:
    node: sub1
    steps:
      - a_begin: begin
      - a_lock:  {sql: "select n from t where id = 1 for update"}
      - a_end:   rollback
  other:
    node: sub1
    steps: [b_sync: sync]
orders:
  - name: waits
    steps: [o_write, a_begin, a_lock, b_sync, {wait: b_sync blocked}, a_end]
    expect:
      steps: {b_sync: {blocked_by: a_lock, then: {delivered: 1}}}
  - name: an order's own
    steps: [o_write, a_begin, a_lock, {sync: [sub1, sub2]}, a_end]
    expect: {tables: {t: {everywhere: [{id: 1, n: 11}, {id: 2, n: 20}]}}}
""",
        head=DELIVERING,
    )

    assert played.failures == []
    assert [r.wait["session"] for r in played.of("blocked")] == ["here", "here"]


async def test_parts_of_tables_and_subscribers_of_every_kind(play):
    """Published columns, filters for all or one Subscriber, and copies with existing rows work."""
    head = DELIVERING.replace(
        "    rows: [{id: 1, n: 10}, {id: 2, n: 20}]\n",
        """\
    rows: [{id: 1, n: 10}, {id: 2, n: 20}]
  u:
    columns: {id: int primary key, region: text, secret: text}
    rows: [{id: 1, region: north, secret: x}, {id: 2, region: south, secret: y}, {id: 3, region: null, secret: z}]
    published: [id, region]
    filter: region is not null
subscribers:
  sub1: {filter: {u: "region = 'north'", t: "n < 15"}, batch: 1, streams: 2}
  sub2: {sync: replication support only}
  sub3: {sync: none}
""",
    ).replace("[sub1, sub2]", "[sub1, sub2, sub3]")
    played = await play(
        """\
sessions:
  office:
    node: pub
    steps:
      - o_move: {sql: "update u set region = 'north', secret = 'q' where id = 2"}
      - o_away: {sql: "update u set region = null where id = 1"}
      - o_more: {sql: "update t set n = n + 6"}
  here:
    node: sub3
    steps: [a_write: {sql: "insert into t values (3, 1)"}]
orders:
  - name: everything moves
    steps: [o_move, o_away, {sync: everywhere}, a_write, o_more]
    expect:
      tables:
        u: {everywhere: [{id: 2, region: north}], pub: [{id: 1}, {id: 2}, {id: 3}]}
        t:
          everywhere: [{id: 1, n: 16}, {id: 2, n: 26}, {id: 3, n: 7}]
          sub1: [{id: 3, n: 7}]
""",
        head=head,
    )

    assert played.failures == []


async def test_an_agent_that_stops_fails_an_order_that_did_not_expect_it(play):
    head = (
        DELIVERING
        + """\
subscribers:
  sub1: {sql: ["set session_replication_role = replica", "delete from t where id = 1", "reset session_replication_role"]}
"""
    )
    played = await play(
        """\
sessions:
  office:
    node: pub
    steps: [o_write: {sql: "update t set n = 11 where id = 1"}]
orders:
  - name: missing
    steps: [o_write, {sync: sub2}, {sync: sub1}]
""",
        head=head,
    )

    sync, converged, row = played.failures
    assert sync.startswith("sync: expected ok, got error: P0002")
    assert "sub1 did not get everything" in converged
    assert row == "converged: t id=1 at sub1 is missing"


async def test_a_procedure_that_does_not_fit_is_blamed_on_its_table(play):
    head = DELIVERING.replace(
        "    rows: [{id: 1, n: 10}, {id: 2, n: 20}]\n", "    propagate: {del: XCALL sp_mine}\n"
    )
    try:
        await play(
            "sessions: {a: {node: pub, steps: [x: {sql: select 1}]}}\norders: [{name: o, steps: [x]}]\n",
            head=head,
        )
    except Exception as error:
        assert "procedure sp_mine for del of t" in str(error)
        assert "scenario:6:" in str(error)
    else:
        raise AssertionError("it was played")
