"""Cells of the crash matrix: one fault at one protocol point of one kind of transaction.

The points are those that a run without faults reaches, so that a new point needs no registration.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any

from tests.grid import invariants
from tests.grid.faults import KILLED, Fault, Judge
from tests.grid.invariants import Evidence
from tests.grid.oracle import refines
from tests.grid.process import CoordinatorProcess
from tests.grid.program import COMMIT, ENDINGS, Answered, Task, Traced
from tests.grid.rig import SITES, SUBSCRIBER, Rig, State
from twopc.drivers.points import POINTS
from twopc.protocol import VARIANTS

KILLS_IN_RECOVERY = 3
_DRIVERS_POINTS = {point.partition("(")[0] for point in POINTS}
#: Interval of background recovery in cells in which the process stays alive.
_RECOVERY_INTERVAL_S = 0.2
#: Time after which such a process reports an outcome as in doubt.
_IN_DOUBT_AFTER_S = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind of transaction."""

    commit: str = "presumed_abort"
    ending: str = COMMIT
    shipping: str = "eager"
    isolation: str = ""

    def __str__(self) -> str:
        parts = [self.commit, self.ending, self.isolation]
        return ", ".join(filter(None, parts)) + (", lazy" if self.shipping == "lazy" else "")

    @property
    def last_agent(self) -> str:
        """Return the last agent; empty if the decision log decides."""
        return SUBSCRIBER if VARIANTS[self.commit].last_agent else ""


KINDS = tuple(
    Kind(commit=commit, ending=ending)
    for commit in ("presumed_abort", "last_agent", "presumed_commit", "presumed_nothing")
    for ending in ENDINGS
) + tuple(Kind(isolation=level) for level in ("repeatable read", "serializable"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The n-th arrival at a protocol point."""

    point: str
    nth: int = 1

    def __str__(self) -> str:
        return self.point + (f" #{self.nth}" if self.nth > 1 else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell."""

    kind: Kind
    place: Place
    fault: Fault = KILLED
    first: Place | None = None
    """Place at which the coordinator was killed before; then `place` is in the recovering process."""

    @property
    def row(self) -> str:
        """Row of the crash matrix."""
        return "M2" if self.first and self.fault is KILLED else self.fault.row

    def __str__(self) -> str:
        first = f"killed at {self.first}, then " if self.first else ""
        return f"{self.row} {self.fault.name} | {self.kind} | {first}{self.place}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a cell."""

    cell: str
    row: str
    broken: tuple[str, ...] = ()
    """Invariants that do not hold."""
    struck: bool = True
    """False if there was no target at that point."""
    answer: str = ""
    outcome: str = ""
    """``committed`` or ``aborted``."""
    recovery_s: float = 0.0
    """Time from the start of the recovering process until nothing was prepared."""
    found_prepared: int = 0
    """Branches that the fault left prepared."""


@dataclass(slots=True, kw_only=True)
class Seen:
    """Evidence that is being collected."""

    name: str
    row: int
    kind: Kind
    others: list[tuple[object, ...]]
    states: list[State] = field(default_factory=list)
    gid: str = ""
    trace: tuple[Traced, ...] = ()
    answer: Answered | None = None

    @classmethod
    def begin(cls, rig: Rig, kind: Kind) -> Seen:
        """Begin before the transaction, with a new coordinator's name and a new row."""
        name, row = rig.fresh_name(), rig.fresh_row()
        seen = cls(name=name, row=row, kind=kind, others=rig.others())
        seen.look(rig)
        return seen

    def look(self, rig: Rig) -> State:
        """Record and return the state of everything."""
        state = rig.look(self.name, self.row)
        self.states.append(state)
        return state

    def hear(self, process: CoordinatorProcess) -> None:
        """Record what the process has reported about its transaction, if it had one."""
        if process.task.row:
            self.gid, self.trace, self.answer = process.gid, tuple(process.trace), process.answer

    def evidence(self, rig: Rig) -> Evidence:
        """Return all evidence."""
        return Evidence(
            gid=self.gid,
            last_agent=self.kind.last_agent,
            trace=self.trace,
            answer=self.answer,
            states=tuple(self.states),
            others=tuple(self.others),
            others_after=tuple(rig.others()),
        )


# -- clean runs ------------------------------------------------------------------------------------


def clean_run(rig: Rig, kind: Kind) -> tuple[list[Place], Result]:
    """Run one transaction without a fault; return the places that it reached, in order."""
    seen = Seen.begin(rig, kind)
    with CoordinatorProcess(_task(rig, seen, listen=True)) as process:
        process.end()
        seen.hear(process)
    return places_of(process.points), recovered(rig, seen, kind, f"clean | {kind}", "-")


def clean_recovery(rig: Rig, kind: Kind, first: Place) -> list[Place]:
    """Return the places that recovery reaches after the coordinator was killed at `first`."""
    seen = Seen.begin(rig, kind)
    with CoordinatorProcess(_task(rig, seen, arm=f"{first}=kill")) as process:
        process.end()
    with CoordinatorProcess(rig.task(seen.name, listen=True)) as process:
        process.end()
    return places_of(process.points)


def places_of(points: list[str]) -> list[Place]:
    """Return the places at which the points were reached."""
    arrivals: Counter[str] = Counter()
    places = []
    for point in points:
        arrivals[point] += 1
        places.append(Place(point=point, nth=arrivals[point]))
    return places


def length_of(rig: Rig, kind: Kind) -> int:
    """Return the number of steps of a transaction's machines, on the usual path."""
    seen = Seen.begin(rig, kind)
    with CoordinatorProcess(_task(rig, seen)) as process:
        process.end()
    return len(process.trace)


# -- playing ---------------------------------------------------------------------------------------


def play(rig: Rig, cell: Cell) -> Result:
    """Play one cell: the transaction, the fault, and recovery twice."""
    seen = Seen.begin(rig, cell.kind)
    wrong: list[str] = []
    struck = True
    if cell.first is not None:
        _killed_by_environment(rig, seen, cell.first, _task(rig, seen), wrong)
        seen.look(rig)
    recovers = cell.first is not None
    by_environment = cell.fault is KILLED and cell.place.point.partition("(")[0] in _DRIVERS_POINTS
    # Recovery is killed three times: after the first there may be less work, and the point is
    # not reached.
    for turn in range(KILLS_IN_RECOVERY if recovers and by_environment else 1):
        task = rig.task(seen.name) if recovers else _task(rig, seen)
        excused = wrong if turn == 0 else []
        if by_environment:
            _killed_by_environment(rig, seen, cell.place, task, excused)
        else:
            struck = _struck_where_it_leads(rig, seen, cell, task, wrong)
        seen.look(rig)
    return recovered(
        rig, seen, cell.kind, str(cell), cell.row,
        struck=struck, wrong=wrong, judge=cell.fault.judge,
    )  # fmt: skip


def play_together(rig: Rig, cells: Sequence[Cell]) -> list[Result]:
    """Play cells of one shared fault, each at its own point, with one strike and one restart."""
    fault = cells[0].fault
    assert fault.is_shared and all(cell.fault is fault and not cell.first for cell in cells)
    seens = [Seen.begin(rig, cell.kind) for cell in cells]
    wrongs: list[list[str]] = [[] for _ in cells]
    struck = True
    with ExitStack() as stack:
        processes = []
        for cell, seen in zip(cells, seens, strict=True):
            process = stack.enter_context(CoordinatorProcess(_halting(_task(rig, seen), cell)))
            processes.append(process)
        for process, wrong in zip(processes, wrongs, strict=True):
            if not process.halted():
                wrong.append("it did not come to its point")
        struck = fault.strike(rig, processes[0])
        if fault.kills_coordinator:
            for process in processes[1:]:
                process.kill()
        else:
            _all_go_on(rig, processes, seens, wrongs)
        for process, seen in zip(processes, seens, strict=True):
            seen.hear(process)
    for seen in seens:
        seen.look(rig)
    return [
        recovered(rig, seen, cell.kind, str(cell), cell.row, struck=struck, wrong=wrong)
        for cell, seen, wrong in zip(cells, seens, wrongs, strict=True)
    ]


def _all_go_on(
    rig: Rig,
    processes: Sequence[CoordinatorProcess],
    seens: Sequence[Seen],
    wrongs: Sequence[list[str]],
) -> None:
    """Resume the processes from their points, and end them when their transactions are over."""
    for process in processes:
        process.go_on()
    lives = [process.done() for process in processes]
    rig.up()
    for process, seen, wrong, is_alive in zip(processes, seens, wrongs, lives, strict=True):
        if is_alive:
            wrong.extend(_settles(rig, seen))
        process.end()
        if process.exit_code != 0:
            wrong.append(f"the coordinator's process ended with {process.exit_code}")


def _halting(task: Task, cell: Cell) -> Task:
    return replace(
        task,
        halt=cell.place.point,
        halt_nth=cell.place.nth,
        recovery_interval_s=_RECOVERY_INTERVAL_S,
        in_doubt_after_s=_IN_DOUBT_AFTER_S,
    )


def play_cut(rig: Rig, kind: Kind, cut: int) -> Result:
    """Kill the coordinator after `cut` steps of its machines, without arming a point."""
    seen = Seen.begin(rig, kind)
    wrong: list[str] = []
    with CoordinatorProcess(_task(rig, seen, cut=cut)) as process:
        process.end()
        seen.hear(process)
        if not process.was_killed:
            wrong.append(f"it was not killed, but ended with {process.exit_code}")
    seen.look(rig)
    return recovered(rig, seen, kind, f"M1 cut {cut} | {kind}", "M1", wrong=wrong)


def _killed_by_environment(
    rig: Rig, seen: Seen, place: Place, task: Task, wrong: list[str]
) -> None:
    """Run a process that kills itself, by ``TWOPC_ARM``."""
    armed = replace(task, arm=f"{place.point}=kill@{place.nth}")
    with CoordinatorProcess(armed) as process:
        process.end()
        seen.hear(process)
        if not process.was_killed:
            wrong.append(f"it was not killed at {place}, but ended with {process.exit_code}")


def _struck_where_it_leads(rig: Rig, seen: Seen, cell: Cell, task: Task, wrong: list[str]) -> bool:
    fault = cell.fault
    if fault.lead is None:
        return _struck_at_halt(rig, seen, cell, task, wrong)
    try:
        return _struck_at_halt(rig, seen, cell, fault.lead(rig, task), wrong)
    finally:
        if fault.end is not None:
            fault.end()


def _struck_at_halt(rig: Rig, seen: Seen, cell: Cell, task: Task, wrong: list[str]) -> bool:
    """Halt the process at the place, and strike from outside."""
    with CoordinatorProcess(_halting(task, cell)) as process:
        if not process.halted():
            wrong.append("it did not come to its point")
            return False
        try:
            struck = cell.fault.strike(rig, process)
            if cell.fault.kills_coordinator:
                seen.hear(process)
                return struck
            process.go_on()
            lives = process.done()
            rig.up()
        finally:
            if cell.fault.heal is not None:
                cell.fault.heal(rig, process)
        if lives:
            wrong.extend(_settles(rig, seen))  # its background recovery must settle them
        process.end()
        if process.exit_code != 0:
            wrong.append(f"the coordinator's process ended with {process.exit_code}")
        seen.hear(process)
    return struck


def _settles(rig: Rig, seen: Seen) -> list[str]:
    try:
        rig.nothing_prepared(seen.name)
    except TimeoutError as error:
        return [f"I5: {error}"]
    return []


def recovered(
    rig: Rig,
    seen: Seen,
    kind: Kind,
    cell: str,
    row: str,
    *,
    struck: bool = True,
    wrong: list[str] | None = None,
    judge: Judge | None = None,
) -> Result:
    """Recover twice in a separate process, and check the invariants."""
    found = sum(len(held.prepared) for held in seen.states[-1].sites.values())
    began = time.monotonic()
    with CoordinatorProcess(rig.task(seen.name)) as process:
        late = _settles(rig, seen)
        took = time.monotonic() - began
        if process.done():
            seen.look(rig)
            process.recover()
        seen.look(rig)
        process.end()
        if process.exit_code != 0:
            late.append(f"recovery ended with {process.exit_code}: {process.notes}")
    evidence = seen.evidence(rig)
    broken = [*invariants.broken(evidence), *refines(evidence, kind.commit)]
    if judge is not None:
        broken = judge(rig, evidence, broken)
    stands = {invariants.branch(evidence, seen.states[-1], site) for site in SITES}
    return Result(
        cell=cell,
        row=row,
        broken=(*(wrong or ()), *late, *broken),
        struck=struck,
        answer=seen.answer.outcome if seen.answer else "",
        outcome="committed" if invariants.COMMITTED in stands else "aborted",
        recovery_s=took,
        found_prepared=found,
    )


def _task(rig: Rig, seen: Seen, **options: Any) -> Task:
    return rig.task(
        seen.name,
        row=seen.row,
        warm_row=rig.fresh_row(),
        ending=seen.kind.ending,
        commit=seen.kind.commit,
        shipping=seen.kind.shipping,
        isolation=seen.kind.isolation,
        **options,
    )
