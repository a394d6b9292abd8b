"""Drawn workloads while everything dies: each change arrives once, nowhere where it came from."""

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
    """Without marks everything comes back; a position in a commit of its own lets some come twice."""
    found = run(3, transactions=80, wiring=Wiring(log_reader=planned_by(IgnoresMarks)))
    assert found.problems
