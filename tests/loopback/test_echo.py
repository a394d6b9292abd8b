"""A small sample of the echo test; see `tests.loopback.echo` for the complete test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.loopback.echo import run, told
from twopc.sim.topology import Topology

MakeTopology = Callable[..., Awaitable[Topology]]


@pytest.mark.slow
async def test_nothing_comes_back_and_everything_arrives(make_topology: MakeTopology) -> None:
    """No change is delivered to its originator, and every change to all other Subscribers."""
    topology = await make_topology(subscribers=("sub1", "sub2", "sub3", "sub4"))
    outcome = await run(topology, transactions=300, seed="sample", restart_every=60)
    assert outcome.passed, told(outcome, 0)
    assert outcome.restarts >= 2
    ledger = outcome.ledger
    assert ledger.transactions > 200
    assert ledger.rolled_back
    assert ledger.savepoints
    assert {change[1] for changes in ledger.committed.values() for change in changes} == {
        "ins",
        "upd",
        "del",
    }
    assert set(ledger.committed) == {"sub1", "sub2", "sub3", "sub4", "pub"}
