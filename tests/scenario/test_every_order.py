"""On real servers: what is run of all orders behaves in as many ways as all of them do."""

from __future__ import annotations

import pytest

from twopc.sim.scenario.values import Selection

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

#: Two Subscribers write the same copied row, each after both have read it.
LOST_UPDATE = """\
sessions:
  alice:
    node: sub1
    steps:
      - a_begin: begin
      - a_read:  {sql: "select n from t where id = 1", save: {n: n}}
      - a_write: {sql: "update t set n = :n - 1 where id = 1"}
      - a_end:   commit
  bob:
    node: sub2
    steps:
      - b_begin: begin
      - b_read:  {sql: "select n from t where id = 1", save: {n: n}}
      - b_write: {sql: "update t set n = :n - 2 where id = 1"}
      - b_end:   commit
orders:
  - name: every order
    generate: {before: ["a_read < b_write", "b_read < a_write"]}
    expect: {otherwise: any, committed: 1, rejected: {version_mismatch: 1}}
"""
#: One waits for a lock that the other gives back by changing its mind, and both go on afterwards.
ROLLED_BACK = """\
sessions:
  alice:
    node: sub1
    steps: [a_begin: begin, a_write: {sql: update t set n = 1 where id = 1}, a_end: rollback]
  bob:
    node: sub2
    steps: [b_write: {sql: update t set n = 2 where id = 1}, b_read: {sql: select n from t where id = 1}]
orders:
  - {name: every order, generate: all, expect: {otherwise: any}}
"""
#: A key that is born twice, and one that looks on.
INSERTS = """\
sessions:
  alice:
    node: sub1
    steps: [a_begin: begin, a_insert: {sql: "insert into t values (3, 1)"}, a_end: commit]
  bob:
    node: pub
    steps: [b_insert: {sql: "insert into t values (3, 2)"}, b_read: {sql: select n from t where id = 3}]
orders:
  - {name: every order, generate: all, expect: {otherwise: any}}
"""
#: At repeatable read the first statement fixes what is seen, so that a read matters too.
SNAPSHOTS = """\
sessions:
  alice:
    node: pub
    steps: [a_begin: begin, a_look: {sql: select n from t where id = 2}, a_write: {sql: update t set n = 1 where id = 1}, a_end: commit]
  bob:
    node: pub
    steps: [b_write: {sql: update t set n = 2 where id = 1}]
orders:
  - {name: every order, isolation: repeatable read, generate: all, expect: {otherwise: any}}
"""


@pytest.mark.parametrize(
    ("text", "orders", "infeasible", "behaviours"),
    [
        (LOST_UPDATE, 36, 12, 4),
        (ROLLED_BACK, 10, None, None),
        (INSERTS, 10, None, None),
        (SNAPSHOTS, 5, None, None),
    ],
    ids=["lost update", "rolled back", "inserts", "snapshots"],
)
async def test_nothing_is_missed(play, text, orders, infeasible, behaviours):
    spared = await play(text)
    brute = await play(text, selection=Selection(orders=("all",)))
    assert spared.failures == brute.failures == []
    few, all_ = counts(spared), counts(brute)
    assert set(few["behaviours"]) == set(all_["behaviours"])
    assert (few["orders"], few["infeasible"]) == (all_["orders"], all_["infeasible"])
    assert all_["run"] + all_["infeasible"] == all_["orders"] == orders
    assert few["run"] < all_["run"]
    if behaviours is not None:
        assert (few["infeasible"], few["run"], len(few["behaviours"])) == (
            infeasible,
            behaviours,
            behaviours,
        )


def counts(played):
    """What became of the one group."""
    (record,) = played.of("group")
    return record.data
