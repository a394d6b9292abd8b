"""Tests of the product's driver and recovery in virtual time: commits are atomic whatever fails."""

from __future__ import annotations

import pytest

from tests.model.pair import PUBLISHER, SUBSCRIBER, Pair
from twopc.names import GlobalId

VARIANTS = ["presumed_abort", "presumed_commit", "presumed_nothing", "last_agent"]


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_commit(variant: str) -> None:
    pair = Pair()
    said, gid = pair.run(pair.transfer(variant))
    assert said == "committed"
    assert pair.balances() == ("90", "90")
    assert pair.prepared() == []
    assert GlobalId.parse(gid) is not None
    pair.until(1.0)
    assert pair.ledger.decisions == {}
    assert pair.ledger.damage == []


def test_it_takes_virtual_time_only() -> None:
    pair = Pair()
    pair.run(pair.transfer())
    assert 0.001 < pair.kernel.now < 0.05


def test_a_conflict_at_the_publisher() -> None:
    """A conflict at the Publisher leaves no change and no branch at either node."""
    pair = Pair()
    pair.nodes[PUBLISHER].define("update account set balance = 5 where id = 1")
    said, _ = pair.run(pair.transfer())
    assert said == "RejectedError"
    assert pair.balances() == ("5", "100")
    assert pair.prepared() == []


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("step", range(40))
@pytest.mark.parametrize("what", ["coordinator", PUBLISHER, SUBSCRIBER, "link"])
def test_something_dies_at_any_moment(variant: str, step: int, what: str) -> None:
    """After a fault at any moment both nodes agree, nothing is prepared, and answers are right."""
    clean = Pair()
    clean.run(clean.transfer(variant))
    moment = clean.kernel.now * step / 39
    pair = Pair()
    told: list[str] = []

    def application() -> None:
        process = pair.first.spawn(pair.transfer(variant), "application")
        assert process.callbacks is not None
        process.callbacks.append(lambda event: told.append(event.value[0]) if event.ok else None)

    def strike() -> None:
        if what == "coordinator":
            pair.first.crash()
            pair.process(2)
        elif what == "link":
            pair.network.cut(pair.first.actor, SUBSCRIBER)
            pair.at(0.3, lambda: pair.network.heal(pair.first.actor, SUBSCRIBER))
        else:
            pair.crash_node(what)

    application()
    pair.at(moment, strike)
    pair.until(6.0)
    assert pair.prepared() == []
    there, here = pair.balances()
    assert there == here
    if told:
        assert told[0] != "committed" or there == "90"
        assert told[0] == "committed" or told[0] == "InDoubtError" or there == "100"
    assert pair.ledger.damage == []
