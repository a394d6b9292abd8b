"""Tests of a node that refuses all connections for a while."""

from __future__ import annotations

from tests.scenario.conftest import DELIVERING


async def test_the_publisher_is_away(play):
    """A write during the Publisher's outage is refused, not queued; the next one succeeds."""
    played = await play(
        """
sessions:
  alice:
    node: sub1
    steps:
      - write: {sql: "update t set n = 11 where id = 1"}
      - look:  {check: "select n from t where id = 1", rows: [{n: 10}]}
      - again: {sql: "update t set n = 12 where id = 1"}
  office:
    node: pub
    steps: [o_look: {check: "select n from t where id = 1", rows: [{n: 10}]}]
orders:
  - name: away and back
    steps: [{cut: pub}, write, look, {restore: pub}, o_look, again]
    expect:
      steps: {write: {rejected: publisher_unreachable}}
      tables: {t: {everywhere: [{id: 1, n: 12}, {id: 2, n: 20}]}}
""",
        head=DELIVERING,
    )
    assert played.failures == []
    assert [(r.node, r.data["on"]) for r in played.of("outage")] == [("pub", True), ("pub", False)]


async def test_it_goes_away_in_the_middle(play):
    """An outage ends transactions with changes; nodes are back before the order is judged."""
    played = await play(
        """
sessions:
  alice:
    node: sub1
    steps:
      - a_begin: begin
      - a_write: {sql: "update t set n = 11 where id = 1"}
      - a_end:   commit
  office:
    node: pub
    steps:
      - o_begin: begin
      - o_write: {sql: "update t set n = 22 where id = 2"}
      - o_more:  {sql: "update t set n = 23 where id = 2"}
orders:
  - name: cut and never restored
    steps: [a_begin, a_write, o_begin, o_write, {cut: pub}, a_end, o_more]
    expect:
      steps: {a_end: {rejected: publisher_unreachable}, o_more: {error: admin_shutdown}}
      sessions: {alice: rolled back, office: rolled back}
      tables: {t: {everywhere: [{id: 1, n: 10}, {id: 2, n: 20}]}}
""",
        head=DELIVERING,
    )
    assert played.failures == []


async def test_a_subscriber_is_away(play):
    """During a Subscriber's outage only its own sync fails; its last sync succeeds."""
    played = await play(
        """
sessions:
  alice:
    node: sub1
    steps:
      - write: {sql: "update t set n = 11 where id = 1"}
      - fails: sync
  bob:
    node: sub2
    steps: [fetch: sync]
orders:
  - name: away
    steps: [{cut: sub2}, write, fetch, {sync: sub1}]
    expect:
      steps: {fetch: {error: 08006}}
      tables: {t: {everywhere: [{id: 1, n: 11}, {id: 2, n: 20}]}}
""",
        head=DELIVERING,
    )
    assert played.failures == []
