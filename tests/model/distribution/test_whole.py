"""Tests of random workloads on whole models with faults: all nodes become equal, and nothing is echoed."""

from __future__ import annotations

import pytest

from tests.model.distribution.whole import run
from twopc.sim.model.plants.log_reader import IgnoresMarks, planned_by
from twopc.sim.model.wiring import Wiring


@pytest.mark.parametrize(
    ("seed", "streams", "commit"),
    [(1, 1, "presumed_abort"), (2, 3, "last_agent"), (3, 1, "presumed_commit")],
)
def test_all_nodes_end_alike(seed: int, streams: int, commit: str) -> None:
    found = run(seed, streams=streams, commit=commit, mean_s=0.1)
    assert not found.problems
    assert found.told["committed"] > 30
    assert found.killed
    assert found.trace == run(seed, streams=streams, commit=commit, mean_s=0.1).trace


def test_without_marks_changes_come_back() -> None:
    assert run(1, wiring=Wiring(log_reader=planned_by(IgnoresMarks))).problems
