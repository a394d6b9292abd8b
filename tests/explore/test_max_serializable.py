"""T1 calls a published routine while T2 inserts: every order that there is, and what each comes to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from twopc.sim.model.explore.programs import Script
from twopc.sim.model.explore.results import Budget
from twopc.sim.model.explore.search import exhaust
from twopc.sim.model.plants.protections import wiring_for
from twopc.sim.model.wiring import Wiring
from twopc.sim.scenario.check import load
from twopc.sim.scenario.search_program import script_of

FILE = Path(__file__).parents[2] / "scenarios" / "proc_execution" / "max_serializable.twopc.yaml"


@pytest.fixture(scope="module")
def script() -> Script:
    """The scenario's two transactions; T2 ends by itself."""
    found = script_of(load(FILE))
    t2 = found.clients["t2"]
    ended = replace(t2, steps=(*t2.steps, ("t2_end", "commit")))
    return replace(found, clients={"t1": found.clients["t1"], "t2": ended})


def test_every_order(script: Script) -> None:
    """The sites are equal in each: T1 marks the greatest row that it has seen, whoever commits first."""
    found = exhaust(script, Wiring(), Budget(faults=0))

    assert found.exhausted
    assert found.broken is None
    assert found.endings == (
        "t1 committed, t2 committed; table_a ((1, 'a'), (2, 'b'), (3, 'greatest'))",
        "t1 committed, t2 committed; table_a ((1, 'a'), (2, 'greatest'), (3, 'c'))",
    )


def test_without_the_snapshot_rule(script: Script) -> None:
    """In some order they differ."""
    found = exhaust(script, wiring_for(["snapshot_rule"]), Budget(faults=0)).broken

    assert found is not None
    assert "converged" in found.invariants
