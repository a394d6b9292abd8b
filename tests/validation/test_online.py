"""A few validations among writers; see `tests.validation.online` for a thousand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from sim.topology import Topology
from tests.validation.online import run

MakeTopology = Callable[..., Awaitable[Topology]]


@pytest.mark.slow
async def test_no_false_alarm(make_topology: MakeTopology) -> None:
    """Whatever is under way: own transactions between two sites, agents, changed keys."""
    topology = await make_topology(subscribers=("sub1", "sub2"))
    outcome = await run(topology, validations=6, seed="sample")
    assert outcome.validations == 6
    assert not outcome.alarms
    assert outcome.undecided == 0
    assert outcome.looks > 6  # there was something to look at again
