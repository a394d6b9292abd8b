"""Tests of the matrix's rows besides crashes: each fault at a few points where it matters.

``python -m tests.grid`` plays all of them at every point.
"""

from __future__ import annotations

import pytest

from tests.grid.cells import Cell, Kind, Place, Result, play
from tests.grid.rig import Rig
from tests.grid.rows import EVERY

AGENT = Kind(commit="last_agent")
COMMIT = Kind()
BEFORE = "application.worked"
PREPARED = "coordinator.before_decision"
DECIDED = "coordinator.decision_logged"
HALF = "coordinator.after_commit(pub)"

#: Row, name of the fault, point, and the expected outcome.
CASES = [
    ("M7", "the next request torn, the Subscriber", BEFORE, "aborted"),
    ("M7", "the next answer torn, the decision log", PREPARED, "committed"),
    ("M7", "the next answer torn, the Publisher", DECIDED, "committed"),
    ("M12", "requests come twice", PREPARED, "committed"),
    ("M12", "requests come twice", DECIDED, "committed"),
    ("M12", "requests come twice", HALF, "committed"),
    ("M13", "gid taken at pub in another database", BEFORE, "aborted"),
    ("M13", "gid taken at sub1 in another database", "coordinator.before_prepare(sub1)", "aborted"),
    ("M13", "gid taken at pub in the same database", BEFORE, "aborted"),
    ("M13", "gid taken at sub1 in the same database", BEFORE, "aborted"),
    ("M16", "no standby confirms at sub1", BEFORE, "aborted"),
    ("M16", "no standby confirms at sub1", DECIDED, "committed"),
    ("M16", "no standby confirms at sub1", "recovery.before_forget", "aborted"),
    ("M17", "80 % of the slots taken at sub1", BEFORE, "committed"),
    ("M17", "100 % of the slots taken at sub1", BEFORE, "aborted"),
    ("M17", "100 % of the slots taken at pub", BEFORE, "aborted"),
    ("M17", "100 % of the slots taken at pub", DECIDED, "committed"),
    ("M18", "too few slots at sub1", DECIDED, "committed"),
    ("M21", "the decision log emptied", DECIDED, "committed"),
    ("M21", "the decision log emptied and the coordinator", DECIDED, "aborted"),
    ("M21", "the decision log emptied and the coordinator", HALF, "committed"),
    ("M22", "the coordinator paused", PREPARED, "committed"),
    ("M22", "the coordinator paused, its sessions ended", PREPARED, "aborted"),
    ("M22", "the coordinator paused, its sessions ended", DECIDED, "committed"),
    ("M22", "the coordinator paused, its sessions ended", HALF, "committed"),
    ("M23", "ROLLBACK PREPARED by hand at pub", PREPARED, "committed"),
    ("M23", "ROLLBACK PREPARED by hand at sub1", DECIDED, "committed"),
    ("M23", "COMMIT PREPARED by hand at sub1 and the coordinator", PREPARED, "committed"),
    ("M24", "a writer waits at pub", PREPARED, "committed"),
    ("M24", "a change of the table waits at sub1", DECIDED, "committed"),
]


def played(rig: Rig, row: str, name: str, point: str, kind: Kind = COMMIT) -> Result:
    """Play one cell."""
    fault = next(one for one in EVERY if (one.row, one.name) == (row, name))
    return play(rig, Cell(kind=kind, place=Place(point=point), fault=fault))


@pytest.mark.sample(1, by=("row", "name"))
@pytest.mark.parametrize(("row", "name", "point", "outcome"), CASES)
def test_the_outcome_is_as_it_must_be(
    rig: Rig, row: str, name: str, point: str, outcome: str
) -> None:
    result = played(rig, row, name, point)
    assert result.broken == ()
    assert result.struck
    assert result.outcome == outcome


@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
@pytest.mark.parametrize(("point", "outcome"), [(PREPARED, "aborted"), (DECIDED, "committed")])
def test_whatever_the_isolation_level(rig: Rig, isolation: str, point: str, outcome: str) -> None:
    """M31: The isolation level affects conflicts, but not how a branch is settled."""
    result = played(rig, "M1", "the coordinator", point, Kind(isolation=isolation))
    assert result.broken == ()
    assert result.outcome == outcome
    assert result.found_prepared == 2
