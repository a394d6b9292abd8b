"""A session at each of two Subscribers, each with a row of its own: they have a log and a disk in common, no more."""

from __future__ import annotations

from pathlib import Path

from twopc.sim.model.explore.results import Budget
from twopc.sim.model.explore.search import exhaust
from twopc.sim.model.wiring import Wiring
from twopc.sim.scenario.check import load
from twopc.sim.scenario.search_program import script_of

FILE = Path(__file__).parent / "data" / "two_rows.twopc.yaml"


def test_every_order() -> None:
    """Neither waits for the other, nor is refused."""
    found = exhaust(script_of(load(FILE)), Wiring(), Budget(faults=0))
    assert found.exhausted
    assert found.broken is None
    assert found.endings == ("alice committed, bob committed; account ((1, 90), (2, 80))",)
