"""Tests of customers whose rows are changed at several nodes, and merged."""

from __future__ import annotations

import pytest
from hypothesis.strategies import integers, sampled_from

from twopc.sim.testing import MergeMachine

CUSTOMERS = [
    "create table customer (id int primary key, phone text, credit int)",
    "insert into customer values (1, '1', 10), (2, '1', 10)",
]


@pytest.fixture(scope="session")
def twopc_merge_template():
    return CUSTOMERS


@pytest.mark.twopc_merge(
    tracking="column",
    subscribers={
        "anna": {"kind": "server", "priority": 75},
        "ben": {"kind": "server", "priority": 50},
    },
)
def test_the_higher_priority_wins(twopc_merge):
    twopc_merge.execute("anna", "update customer set phone = '2' where id = 1")
    twopc_merge.execute("ben", "update customer set phone = '3' where id = 1")
    twopc_merge.sync("ben")
    assert twopc_merge.sync("anna").conflicts == 1
    [conflict] = twopc_merge.conflicts("customer")
    assert (conflict.origin, conflict.winner, conflict.loser["phone"]) == ("ben", "anna", "3")
    assert twopc_merge.rounds() <= 2
    assert twopc_merge.rows("ben", "customer")[0]["phone"] == "2"
    twopc_merge.assert_converged()
    twopc_merge.assert_nothing_lost()


def test_a_session_that_dies_is_continued(twopc_merge):
    twopc_merge.execute("sub1", "update customer set credit = 20 where id = 1")
    twopc_merge.interrupted("sub1", at="merge.upload_applied")
    report = twopc_merge.sync("sub1")
    assert report.resumed and report.uploaded == 0  # it was there already
    twopc_merge.rounds()
    twopc_merge.assert_converged()


def test_an_open_transaction_is_waited_for_by_nobody(twopc_merge):
    clerk = twopc_merge.session("sub1")
    clerk.execute("update customer set credit = 0 where id = 1")
    assert twopc_merge.sync("sub1").uploaded == 0
    other = twopc_merge.session("sub1", name="other")
    step = other.start("update customer set credit = 5 where id = 1")
    assert step.blocked_by(clerk)
    clerk.commit()
    step.result()
    other.rollback()
    assert twopc_merge.sync("sub1").uploaded == 1


class Customers(MergeMachine):
    table = "customer"
    columns = {"phone": sampled_from(["1", "2", "3"]), "credit": integers(0, 9)}  # noqa: RUF012


@pytest.mark.twopc_merge(tracking="column")
def test_customers_do_whatever_they_like(twopc_merge):
    Customers.play(twopc_merge, max_examples=3)


@pytest.mark.asyncio  # or asyncio_mode = auto in the ini file
async def test_an_awaited_session(twopc_merge_async):
    merge = twopc_merge_async
    await merge.execute("pub", "delete from customer where id = 2")
    assert (await merge.sync("sub2")).downloaded == 1
    await merge.rounds()
    await merge.assert_converged()
