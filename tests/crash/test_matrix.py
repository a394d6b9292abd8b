"""Tests of the crash matrix: after M1 to M6 at every protocol point, the invariants hold.

Here a sample of each row is drawn for the commit; ``--full`` strikes every point with every row,
and ``python -m tests.grid`` plays all cells.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

import pytest

from tests.fix_sample import Sample
from tests.grid.cells import (
    Cell,
    Kind,
    Place,
    Result,
    clean_recovery,
    clean_run,
    length_of,
    play,
    play_cut,
)
from tests.grid.faults import FAULTS, SERVERS_KILLED, Fault
from tests.grid.program import COMMIT, NO_SUBSCRIBER, ROLLBACK, WORKED
from tests.grid.rig import RECOVERY_S, Rig
from twopc.drivers import POINTS

#: The commit protocol relies on every point being tested with every fault.
pytestmark = pytest.mark.always

COMMITS = (Kind(commit="presumed_abort"), Kind(commit="last_agent"))
KILLED_KINDS = (
    *COMMITS,
    Kind(commit="presumed_abort", ending=NO_SUBSCRIBER),
    Kind(commit="presumed_abort", ending=ROLLBACK),
    Kind(commit="last_agent", ending=NO_SUBSCRIBER),
    Kind(commit="presumed_nothing", ending=NO_SUBSCRIBER),
    Kind(commit="presumed_commit", ending=COMMIT, shipping="lazy"),
)
SERVERS = tuple(fault for fault in FAULTS if fault.row in ("M3", "M4"))
SESSIONS = tuple(fault for fault in FAULTS if fault.row in ("M5", "M6"))

#: Where the coordinator is killed before recovery is struck: undecided, decided, or decided by the
#: last agent.
FIRST = (
    (COMMITS[0], Place(point="coordinator.after_prepare(sub1)")),
    (COMMITS[0], Place(point="coordinator.decision_logged")),
    (COMMITS[1], Place(point="coordinator.after_commit(sub1)")),
)

Cells = Iterable[Callable[[], Result]]


class Places:
    """The places of runs without faults, derived once."""

    def __init__(self, rig: Rig) -> None:
        self._rig = rig
        self._found: dict[object, list[Place]] = {}

    def of(self, kind: Kind) -> list[Place]:
        """Return the places that a transaction reaches; before its first statement only for the first kind."""
        if kind not in self._found:
            places, clean = clean_run(self._rig, kind)
            assert not clean.broken
            if kind is not KILLED_KINDS[0]:
                places = places[places.index(Place(point=WORKED)) :]
            self._found[kind] = places
        return self._found[kind]

    def in_recovery(self, kind: Kind, first: Place) -> list[Place]:
        """Return the places that recovery reaches."""
        if (kind, first) not in self._found:
            self._found[kind, first] = clean_recovery(self._rig, kind, first)
        return self._found[kind, first]


@pytest.fixture(scope="module")
def places(rig: Rig) -> Places:
    return Places(rig)


def assert_all_hold(cells: Cells) -> list[Result]:
    """Play all cells; fail with every one that is broken."""
    results = [cell() for cell in cells]
    wrong = [
        f"{result.cell}\n    " + "\n    ".join(result.broken) for result in results if result.broken
    ]
    if wrong:
        command = "again, one by one: python -m tests.grid --cell '<name>'"
        pytest.fail("\n".join([*wrong, command]), pytrace=False)
    assert any(result.struck for result in results)
    assert max(result.recovery_s for result in results) <= RECOVERY_S
    return results


def in_turn(
    kind: Kind, places: Sequence[Place], faults: Sequence[Fault], start: int, each: int = 1
) -> Iterator[Cell]:
    """Yield cells with `each` faults at every place, cycling through the faults."""
    turn = itertools.islice(itertools.cycle(faults), start, None)
    for place in places:
        for fault in itertools.islice(turn, each):
            yield Cell(kind=kind, place=place, fault=fault)


def class_of(cell: Cell) -> tuple[str, bool]:
    """Return the row, and whether the fault strikes all sessions of a server, so that it always has a target."""
    return cell.row, cell.fault.is_shared


def test_every_point_is_struck(places: Places) -> None:
    """Runs without faults reach every point; a point that none reaches would never be struck."""
    reached = {place.point for kind in KILLED_KINDS for place in places.of(kind)}
    reached |= {place.point for kind, first in FIRST for place in places.in_recovery(kind, first)}
    templates = {point.replace("(pub)", "(node)").replace("(sub1)", "(node)") for point in reached}
    assert set(POINTS) - templates == set(), "points that no clean run has reached"


@pytest.mark.parametrize("kind", KILLED_KINDS, ids=str)
def test_coordinator_killed(rig: Rig, places: Places, kind: Kind, sample: Sample) -> None:
    """M1: The invariants hold after SIGKILL of the coordinator at every point."""
    chosen = sample(places.of(kind), 3)
    assert_all_hold(partial(play, rig, Cell(kind=kind, place=place)) for place in chosen)


@pytest.mark.parametrize("kind", COMMITS, ids=str)
def test_coordinator_killed_between_any_two_steps(rig: Rig, kind: Kind, sample: Sample) -> None:
    """M1: The invariants hold if the coordinator is killed after any effect or event of its machine.

    The coordinator takes its usual path, on which several commands are sent in one message.
    """
    steps = sample(range(1, length_of(rig, kind) + 1, 2), 3)
    assert_all_hold(partial(play_cut, rig, kind, step) for step in steps)


@pytest.mark.parametrize(("kind", "first"), FIRST, ids=str)
def test_coordinator_killed_again_in_recovery(
    rig: Rig, places: Places, kind: Kind, first: Place, sample: Sample
) -> None:
    """M2: The invariants hold after recovery is killed three times at every point."""
    found = places.in_recovery(kind, first)
    assert {"recovery.before_finish(pub)", "recovery.after_finish(pub)"} <= {p.point for p in found}
    cells = [Cell(kind=kind, place=place, first=first) for place in sample(found, 2)]
    assert_all_hold(partial(play, rig, cell) for cell in cells)


@pytest.mark.parametrize(("start", "kind"), [*enumerate(COMMITS)], ids=str)
def test_servers_killed(rig: Rig, places: Places, start: int, kind: Kind, sample: Sample) -> None:
    """M3, M4: The invariants hold after SIGKILL of any servers, with or without the coordinator.

    The servers are restarted at once, or after the answer.
    """
    cells = in_turn(kind, places.of(kind), SERVERS, 7 * start, each=2)
    assert_all_hold(partial(play, rig, cell) for cell in sample(cells, 2, by=class_of))


@pytest.mark.parametrize(("start", "kind"), [*enumerate(COMMITS)], ids=str)
def test_sessions_ended(rig: Rig, places: Places, start: int, kind: Kind, sample: Sample) -> None:
    """M5, M6: The invariants hold after a backend is killed, terminated or cancelled, or a server shut down."""
    found = [place for place in places.of(kind) if not place.point.startswith("recovery.")]
    cells = in_turn(kind, found, SESSIONS, 9 * start)
    assert_all_hold(partial(play, rig, cell) for cell in sample(cells, 2, by=class_of))


def test_servers_killed_in_recovery(rig: Rig, places: Places, sample: Sample) -> None:
    """M3, M4: The invariants hold after servers are killed at every point of recovery."""
    kind, first = FIRST[1]
    cells = [
        Cell(kind=kind, place=place, fault=fault, first=first)
        for place, fault in zip(
            places.in_recovery(kind, first), itertools.cycle(SERVERS_KILLED), strict=False
        )
    ]
    assert_all_hold(partial(play, rig, cell) for cell in sample(cells, 3))
