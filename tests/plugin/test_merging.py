"""Tests of the merge fixture: what it refuses, and what its checks detect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import Phase
from hypothesis.stateful import rule
from hypothesis.strategies import integers

from twopc.errors import ConfigurationError
from twopc.sim.testing.bench import Bench
from twopc.sim.testing.merge_bed import MergeBed, request_of
from twopc.sim.testing.merge_doubles import TestMerge
from twopc.sim.testing.merge_machine import MergeMachine

CUSTOMER = (
    "create table customer (id int primary key, credit int)",
    "insert into customer values (1, 10), (2, 10)",
)


@pytest.fixture
def merge(bench: Bench) -> Iterator[TestMerge]:
    """A merge topology, as tests get it."""
    made = TestMerge(bench, MergeBed(request_of({}, CUSTOMER), bench.server, "test"))
    made.renew()
    yield made
    bench.call(made.bed.close)


def test_what_is_not_merged_yet_is_noticed(merge: TestMerge) -> None:
    """Differing rows and changes that the Publisher lacks are detected; a refused one is listed."""
    merge.execute("sub1", "insert into customer values (3, 1)")
    with pytest.raises(AssertionError, match=r"public\.customer at sub1 is not what it is at pub"):
        merge.assert_converged()
    with pytest.raises(AssertionError, match=r"sub1's change of row .* of customer"):
        merge.assert_nothing_lost()
    merge.execute("pub", "insert into customer values (3, 2)")
    assert merge.sync("sub1").retried == 2
    merge.assert_nothing_lost()
    [conflict] = merge.conflicts()
    assert (conflict.origin, conflict.winner) == ("sub1", None)


def test_a_tree_of_republishers(bench: Bench) -> None:
    """A change at the bottom of a tree of republishers reaches the top and another branch."""
    tree = {"pub": ["anna", "depot"], "depot": ["van"]}
    requested = request_of({"tree": tree, "subscribers": {"depot": {"kind": "server"}}}, CUSTOMER)
    merge = TestMerge(bench, MergeBed(requested, bench.server, "test"))
    merge.renew()
    try:
        merge.execute("van", "update customer set credit = 1 where id = 1")
        assert merge.rounds() <= 2
        assert merge.rows("anna", "customer")[0]["credit"] == 1
        merge.assert_converged()
        merge.assert_nothing_lost()
    finally:
        bench.call(merge.bed.close)


def test_a_node_is_restored_from_its_backup(merge: TestMerge) -> None:
    """A node that was restored gets back what it had sent, and its sessions continue.

    A backup is refused while a session at the node has a transaction open.
    """
    session = merge.session("sub1")
    session.execute("update customer set credit = 1 where id = 1")
    with pytest.raises(
        ConfigurationError, match="sub1 has a transaction open at sub1: end it first"
    ):
        merge.back_up("sub1")
    session.rollback()
    with pytest.raises(ConfigurationError, match="sub1 has no backup"):
        merge.restore_backup("sub1")
    merge.back_up("sub1")
    session.execute("update customer set credit = 2 where id = 1")
    session.commit()
    merge.sync("sub1")
    merge.restore_backup("sub1")
    assert session.execute("select credit from customer where id = 1").scalar() != 2
    session.rollback()
    assert merge.sync("sub1").anew
    assert merge.rows("sub1", "customer")[0]["credit"] == 2
    merge.rounds()
    merge.assert_converged()
    merge.assert_nothing_lost()


def test_a_session_that_does_not_come_to_a_point(merge: TestMerge) -> None:
    """A merge session that does not reach the point fails the test; wrong names are refused."""
    with pytest.raises(AssertionError, match=r"of sub1 has ended without coming to merge\.upload"):
        merge.interrupted("sub1", at="merge.upload_applied")
    with pytest.raises(ConfigurationError, match=r"no point 'merge\.dinner' .* merge\.greeted"):
        merge.interrupted("sub1", at="merge.dinner")
    with pytest.raises(ConfigurationError, match="no option 'subscriber'; options are subscribers"):
        request_of({"subscriber": 1}, CUSTOMER)
    with pytest.raises(ConfigurationError, match="'ann' is no Subscriber; they are anna"):
        request_of({"tree": {"pub": ["anna"]}, "subscribers": {"ann": {}}}, CUSTOMER)


def test_a_machine_finds_what_is_not_tracked(merge: TestMerge) -> None:
    """A machine detects a change that bypassed the triggers: rows differ in the end."""

    class Customers(MergeMachine):
        table = "customer"
        columns = {"credit": integers(0, 9)}  # noqa: RUF012

        @rule()
        def change_untracked(self) -> None:
            async def change(topology: Any) -> None:
                async with (await topology.admin("sub2")).transaction():
                    await topology.execute("sub2", "set local session_replication_role = replica")
                    await topology.execute("sub2", "update customer set credit = -1")

            self.merge.call(change, self.merge.topology)

    with pytest.raises(AssertionError, match=r"customer at sub2 is not what it is at pub"):
        Customers.play(merge, phases=[Phase.generate], max_examples=50, database=None)
