"""Every planted bug is found by an invariant that it breaks, and the system without it passes the same search."""

from __future__ import annotations

import pytest

from tests.explore.plants import find, wrong
from tests.explore.small import PROGRAMS
from twopc.sim.model.explore.results import Budget
from twopc.sim.model.explore.search import by_bounds
from twopc.sim.model.plants import PLANTS
from twopc.sim.model.plants.protections import SUPPORTED, wiring_for
from twopc.sim.model.plants.resolver import NeverSweeps
from twopc.sim.model.wiring import Wiring

#: Of published procedures, which no program here calls: twins of scenarios show what they are for.
OF_PROCEDURES = {"calls", "isolation_check", "snapshot_rule", "xact_abort"}
#: Names of planted bugs, where they differ from the name of the protection.
PLANT_OF = {
    "vote_heard": "unknown_is_yes",
    "every_vote": "no_is_outvoted",
    "decision_kept": "forgotten_early",
    "missing_looked_up": "missing_is_committed",
    "sites_asked": "presumes_for_agent",
}
SEARCHES = list(dict.fromkeys((one.program, one.budget) for one in PLANTS.values()))


@pytest.mark.parametrize("name", PLANTS)
def test_found(name: str) -> None:
    """By a trace of a dozen events at most."""
    found, _ = find(PLANTS[name])
    assert wrong(PLANTS[name], found) == ""


@pytest.mark.parametrize(
    ("program", "budget"), SEARCHES, ids=[f"{name}, {'+'.join(b.of)}" for name, b in SEARCHES]
)
def test_the_product_is_not(program: str, budget: Budget) -> None:
    """Nothing is broken where nothing is planted."""
    found = by_bounds(PROGRAMS[program], Wiring(), budget)
    assert found.broken is None
    assert found.runs > 0


@pytest.mark.parametrize(
    "of",
    ["coordinator", "publisher", "subscriber", "log", "connection", "machine", "another", "pause"],
)
@pytest.mark.parametrize(
    "program", ["transfer between Subscribers", "transfer between Subscribers by presumed commit"]
)
def test_several_subscribers(program: str, of: str) -> None:
    """Two branches at the Publisher, two at Subscribers, and something that goes wrong at every moment."""
    found = by_bounds(PROGRAMS[program], Wiring(), Budget(of=(of,), deviations=0))
    assert found.broken is None
    assert found.crash_points > 50


@pytest.mark.parametrize("name", sorted(SUPPORTED - OF_PROCEDURES))
def test_protections_are_plants(name: str) -> None:
    """What a twin switches off is a planted bug, and is found when it is put in as twins do it."""
    plant = PLANTS[PLANT_OF.get(name, name)]
    wiring = wiring_for([name])
    assert wiring.names == (name,)
    found = by_bounds(PROGRAMS[plant.program], wiring, plant.budget)
    assert found.broken is not None
    assert set(found.broken.invariants) & set(plant.breaks)


def test_what_is_decided_waits_for_no_sweep() -> None:
    """So that it is the loop's bug if something is missed without sweeps."""
    found = by_bounds(
        PROGRAMS["any client"], Wiring(resolver=NeverSweeps), Budget(faults=0, deviations=2)
    )
    assert found.broken is None


def test_they_are_told_apart() -> None:
    assert len({(one.why, one.source) for one in PLANTS.values()}) == len(PLANTS)
    assert len({one.plant for one in PLANTS.values()}) == len(PLANTS)
