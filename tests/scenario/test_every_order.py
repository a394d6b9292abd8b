"""Tests on servers: the courses that are run show every behaviour that all orders show."""

from __future__ import annotations

import pytest

from twopc.sim.scenario.values import Selection

pytestmark = [pytest.mark.postgres, pytest.mark.slow]

#: Two Subscribers write the same row of their copies, each after both have read it.
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
#: One session waits for a lock that the other releases by its rollback; both continue afterwards.
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
#: Two sessions insert the same key, and one of them reads it.
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
#: At repeatable read the first statement fixes the snapshot, so that a read matters, too.
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
    """Return the counts of the only group."""
    (record,) = played.of("group")
    return record.data
