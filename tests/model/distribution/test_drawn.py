"""Tests of random workloads with crashes: each change is delivered once, and never echoed."""

from __future__ import annotations

import pytest

from tests.model.distribution.drawn import run
from twopc.sim.model.plants.log_reader import IgnoresMarks, planned_by
from twopc.sim.model.wiring import Wiring


@pytest.mark.parametrize(("seed", "streams"), [(1, 1), (2, 3)])
def test_each_change_arrives_once(seed: int, streams: int) -> None:
    found = run(seed, streams=streams)
    assert not found.problems
    assert found.committed == 240
    assert sum(found.killed.values()) > 5
    assert found.trace == run(seed, streams=streams).trace


def test_it_would_be_noticed() -> None:
    """A log reader that ignores branch markers causes echoes, which the run reports."""
    found = run(3, transactions=80, wiring=Wiring(log_reader=planned_by(IgnoresMarks)))
    assert found.problems
