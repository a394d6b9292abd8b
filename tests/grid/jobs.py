"""Jobs of the grid's processes: derive the cells of a kind of transaction, and play some of them.

Jobs can be sent to another process: faults are identified by row and name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection

import psycopg

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
    play_together,
)
from tests.grid.faults import FAULTS, KILLED, SERVERS_KILLED
from tests.grid.oracle import Lane
from tests.grid.program import COMMIT, WORKED
from tests.grid.rig import Rig
from tests.grid.rows import EVERY
from twopc.errors import ServerError

#: Faults of single sessions, and other clients' actions on a branch, depend on the driver and not
#: on the variant: two variants are enough.
_TWO = ("presumed_abort", "last_agent")
_VARIANTS_OF = dict.fromkeys(
    ("M5", "M6", "M7", "M8", "M12", "M13", "M16", "M17", "M18", "M22", "M24"), _TWO
)
#: Number of transactions that are at their points for one strike.
_TOGETHER_MAX = 8
#: One of so many groups is played while the oracle's clients work.
_LANE_EVERY = 10
_BY_NAME = {(fault.row, fault.name): fault for fault in EVERY}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A cell by name."""

    kind: Kind
    row: str
    fault: str = ""
    """Name of the fault; empty for no fault, or for a cut."""
    place: Place | None = None
    first: Place | None = None
    cut: int = 0

    @property
    def cell(self) -> Cell:
        """Return the cell."""
        assert self.place is not None
        fault = _BY_NAME[self.row if self.row != "M2" else "M1", self.fault]
        return Cell(kind=self.kind, place=self.place, fault=fault, first=self.first)

    @property
    def is_shared(self) -> bool:
        """Return whether the cell may be played with others of its fault."""
        return self.place is not None and self.first is None and self.cell.fault.is_shared

    def __str__(self) -> str:
        if self.cut:
            return f"M1 cut {self.cut} | {self.kind}"
        return str(self.cell) if self.place is not None else f"clean | {self.kind}"


def spec_of(cell: Cell) -> Spec:
    """Return the name of a cell."""
    return Spec(
        kind=cell.kind, row=cell.row, fault=cell.fault.name, place=cell.place, first=cell.first
    )


Job = Kind | tuple[Spec, ...]
"""Derive the cells of a kind, or play some together."""


def derived(rig: Rig, kind: Kind, wanted: str = "") -> list[Spec]:
    """Return every cell of a kind, from runs without faults; those in recovery only if `wanted` may match."""
    places, _ = clean_run(rig, kind)
    found = [Spec(kind=kind, row="-")]
    found += [Spec(kind=kind, row="M1", cut=cut) for cut in range(1, length_of(rig, kind) + 1)]
    if kind.ending != COMMIT:  # before this point all endings are alike
        places = places[places.index(Place(point=WORKED)) :]
    faults = EVERY if kind.ending == COMMIT else FAULTS
    cells = [Cell(kind=kind, place=place, fault=fault) for place in places for fault in faults]
    recovers = " | " not in wanted or "killed at" in wanted
    found += [
        spec_of(cell)
        for cell in itertools.chain(cells, recovery_cells(rig, kind, places) if recovers else ())
        if kind.commit in _VARIANTS_OF.get(cell.row, (kind.commit,))
    ]
    return found


def recovery_cells(rig: Rig, kind: Kind, places: Sequence[Place]) -> Iterator[Cell]:
    """Yield faults in recovery from a killed coordinator, once for each state that the kill can leave."""
    left: set[tuple[int, str]] = set()
    for first in places:
        if not first.point.startswith("coordinator."):
            continue
        result = play(rig, Cell(kind=kind, place=first))
        state = (result.found_prepared, result.outcome)
        if not result.found_prepared or state in left:
            continue
        left.add(state)
        for place in clean_recovery(rig, kind, first):
            for fault in (KILLED, *SERVERS_KILLED):
                yield Cell(kind=kind, place=place, fault=fault, first=first)


def together(specs: Sequence[Spec]) -> list[tuple[Spec, ...]]:
    """Group the cells: those of one shared fault are played with one strike."""
    groups: list[tuple[Spec, ...]] = []
    shared: dict[tuple[str, str], list[Spec]] = {}
    for spec in specs:
        if spec.is_shared:
            shared.setdefault((spec.row, spec.fault), []).append(spec)
        else:
            groups.append((spec,))
    for several in shared.values():
        groups += [
            tuple(several[at : at + _TOGETHER_MAX]) for at in range(0, len(several), _TOGETHER_MAX)
        ]
    return groups


def played(rig: Rig, specs: tuple[Spec, ...]) -> list[Result]:
    """Play a group; a cell that cannot be completed is broken, and the servers are cleaned for the next."""
    try:
        if len(specs) > 1:
            return play_together(rig, [spec.cell for spec in specs])
        return [_one(rig, specs[0])]
    except (AssertionError, TimeoutError, ServerError, psycopg.Error) as error:
        rig.sweep()
        return [
            Result(cell=str(spec), row=spec.row, broken=(f"not played: {error!r}",))
            for spec in specs
        ]


def _one(rig: Rig, spec: Spec) -> Result:
    if spec.cut:
        return play_cut(rig, spec.kind, spec.cut)
    if spec.place is None:
        return clean_run(rig, spec.kind)[1]
    return play(rig, spec.cell)


def serve(wanted: str, wire: Connection) -> None:
    """Perform the jobs that arrive over the wire, on separate servers; for `twopc.sim.faults.matrix_pool`.

    Args:

        wanted: a part of the names of the cells that will be played.
        wire: brings jobs.
    """
    with Rig() as rig:
        count = 0
        while (job := wire.recv()) is not None:
            if isinstance(job, Kind):
                wire.send(derived(rig, job, wanted))
                continue
            count += 1
            wire.send(played(rig, job) if count % _LANE_EVERY else _beside_a_lane(rig, job))


def _beside_a_lane(rig: Rig, specs: tuple[Spec, ...]) -> list[Result]:
    """Play a group while the oracle's clients work; their violations are added to the first result."""
    with Lane(rig, specs[0].kind.commit) as lane:
        first, *rest = played(rig, specs)
    return [replace(first, broken=(*first.broken, *lane.broken)), *rest]
