"""Tests of a few validations during a workload; see `tests.validation.online` for a thousand."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from tests.validation.online import run
from twopc.sim.topology import Topology

MakeTopology = Callable[..., Awaitable[Topology]]


@pytest.mark.slow
@pytest.mark.parametrize("streams", [1, 3])
async def test_no_false_alarm(make_topology: MakeTopology, streams: int) -> None:
    """Own transactions between two sites, agents and changed keys raise no false alarm."""
    topology = await make_topology(subscribers=("sub1", "sub2"))
    outcome = await run(topology, validations=4, seed="sample", streams=streams)
    assert outcome.validations == 4
    assert not outcome.alarms
    assert outcome.undecided == 0
    assert outcome.looks > 4  # some rows needed another look
