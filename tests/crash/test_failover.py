"""M26, M27: Tests of failover to a standby, synchronous or lagging."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.grid.cells import Cell, Kind, Place, Result, Seen, play, recovered
from tests.grid.faults import Fault
from tests.grid.hands import told
from tests.grid.process import CoordinatorProcess
from tests.grid.rig import PUBLISHER, SUBSCRIBER, Rig
from tests.grid.standby import Followed

pytestmark = pytest.mark.xdist_group("failover")  # one rig serves all of them


@pytest.fixture(scope="module")
def own_rig() -> Iterator[Rig]:
    """Start servers that may be replaced by their standbys."""
    with Rig(planted=False) as made:
        yield made


def fails_over(followed: Followed) -> Callable[[Rig, CoordinatorProcess], bool]:
    """Return a strike that fails the node over to its standby."""

    def strike(rig: Rig, process: CoordinatorProcess) -> bool:
        followed.fail_over()
        return True

    return strike


def played(rig: Rig, point: str, fault: Fault) -> Result:
    """Play a cell of a transaction that commits."""
    result = play(rig, Cell(kind=Kind(), place=Place(point=point), fault=fault))
    assert result.broken == ()
    assert result.struck
    return result


@pytest.mark.parametrize("node", [PUBLISHER, SUBSCRIBER])
def test_a_synchronous_standby_changes_no_outcome(own_rig: Rig, node: str) -> None:
    followed = Followed(own_rig, node, synchronous=True)
    fault = Fault(name=f"failover of {node}", row="M26", strike=fails_over(followed))
    try:
        result = played(own_rig, "coordinator.decision_logged", fault)
    finally:
        followed.close()
    assert result.outcome == "committed"
    assert result.answer in ("committed", "in_doubt")


def test_a_vote_that_the_standby_did_not_get_is_missed_aloud(own_rig: Rig) -> None:
    """M27 (a): The loss of a prepared branch that voted yes is recorded as damage."""
    followed = Followed(own_rig, SUBSCRIBER, synchronous=False)
    followed.starve()
    fault = Fault(
        name="failover without PREPARE", row="M27", strike=fails_over(followed), judge=told
    )
    try:
        result = played(own_rig, "coordinator.decision_logged", fault)
    finally:
        followed.close()
    assert result.answer == "in_doubt"
    query = "select damage, decided, outcome from msrepl.heuristic_outcome where node = 'sub1'"
    assert (True, "committed", "aborted") in own_rig.fetch("distribution", query)


@pytest.mark.parametrize("point", ["coordinator.after_commit(sub1)", "coordinator.after_forget"])
def test_a_branch_that_is_prepared_again_is_committed_again(own_rig: Rig, point: str) -> None:
    """M27 (b): A branch whose COMMIT PREPARED was lost is committed again.

    The decision may be forgotten; then the Publisher's branch marker proves it.
    """
    followed = Followed(own_rig, SUBSCRIBER, synchronous=False)
    try:
        result = _prepared_again(own_rig, followed, point)
    finally:
        followed.close()
    assert result.outcome == "committed"


def _prepared_again(rig: Rig, followed: Followed, point: str) -> Result:
    kind = Kind()
    seen = Seen.begin(rig, kind)
    halts = "coordinator.decision_logged"
    with CoordinatorProcess(rig.task(seen.name, row=seen.row, halt=halts)) as process:
        assert process.halted()
        followed.starve()
        process.go_on()
        if point == "coordinator.after_forget":
            process.end()
        else:
            assert process.done()
            process.kill()
        seen.hear(process)
    followed.fail_over()
    assert len(rig.look(seen.name, seen.row).sites[SUBSCRIBER].prepared) == 1
    return recovered(rig, seen, kind, "M27 COMMIT PREPARED lost", "M27")
