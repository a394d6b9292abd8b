"""Exploration without stored states: a run is a list of choices, and is always played from the beginning.

There are two kinds of search. `by_bounds` allows more and more faults and deviations from the order of time, so
that the first violation found is nearly as short as possible. `exhaust` follows every order, but only one of
several orders that differ only in independent events (sleep sets, P. Godefroid 1996); dependence is determined from
what each event has read and changed (`twopc.sim.model.choosers`).

Independent of what a program does.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from twopc.sim.model.choosers import (
    Choice,
    ChoiceKernel,
    Option,
    Strike,
    depend,
    passed_over,
)
from twopc.sim.model.explore.races import EventLog
from twopc.sim.model.explore.results import BrokenInvariant, Budget, SearchFigures
from twopc.sim.model.explore.single import ExploredRun, Program, replay
from twopc.sim.model.wiring import Wiring

#: Number of runs between garbage collections: each leaves less than a megabyte.
_RUNS_KEPT = 100


@dataclass(slots=True, kw_only=True)
class _Point:
    """A point of a run at which an option is chosen."""

    options: list[Option]
    left: list[int]
    """Places of options that have not been followed yet."""
    sleep: dict[int, dict[str, int]]
    """By name: options that need not be followed from here, because an equivalent run has been played."""
    faults: int
    deviations: int
    at: int = 0
    """Place of the option that is being followed."""
    seen: dict[str, int] = field(default_factory=dict)
    """Objects that the option has read and changed."""
    slowed: int = 0
    """Number of options that were delayed by this choice."""
    known: set[int] = field(default_factory=set)
    """Names of options that are followed, have been, or will be."""

    def want(self, names: list[int]) -> None:
        """Require that one of these options is followed from here."""
        if any(name in self.known or name in self.sleep for name in names):
            return
        for at, option in enumerate(self.options):
            if option.name in names:
                self.known.add(option.name)
                self.left.append(at)
                return
        for at, option in enumerate(self.options):
            if option.name not in self.known and option.name not in self.sleep:
                self.known.add(option.name)
                self.left.append(at)


class Search:
    """One search of one program."""

    def __init__(self, program: Program, wiring: Wiring, budget: Budget) -> None:
        self._program = program
        self._wiring = wiring
        self._budget = budget
        self._began = time.monotonic()
        self._states: set[int] = set()
        self._struck: set[tuple[int, int]] = set()
        self._endings: dict[str, None] = {}
        self._past = EventLog()
        self._reduced = True
        self.runs = self.orders = self.pruned = 0
        self.broken: BrokenInvariant | None = None

    # -- kinds of search ---------------------------------------------------------------------------

    def by_bounds(self) -> SearchFigures:
        """Search with increasing bounds: faults first, then deviations from the order of time."""
        budget = self._budget
        done = True
        for total in range(budget.faults + budget.deviations + 1):
            for deviations in range(
                max(0, total - budget.faults), min(total, budget.deviations) + 1
            ):
                done = self._walk(total - deviations, deviations, sleeping=False) and done
                if self.broken is not None or not done:
                    return self._explored(exhausted=False)
        return self._explored(exhausted=False)

    def exhaust(self, *, reduced: bool = True) -> SearchFigures:
        """Follow every order, with as many faults as the budget allows.

        Args:
            reduced: whether only one of several equivalent orders is followed; without reduction only the smallest
                programs are feasible.
        """
        self._reduced = reduced
        done = self._walk(self._budget.faults, 0, sleeping=True)
        return self._explored(exhausted=done and self.broken is None)

    def _explored(self, *, exhausted: bool) -> SearchFigures:
        return SearchFigures(
            runs=self.runs, states=len(self._states), orders=self.orders,
            endings=tuple(sorted(self._endings)), crash_points=len(self._struck), pruned=self.pruned,
            seconds=time.monotonic() - self._began, exhausted=exhausted, broken=self.broken,
        )  # fmt: skip

    # -- walking -----------------------------------------------------------------------------------

    def _walk(self, faults: int, deviations: int, *, sleeping: bool) -> bool:
        """Follow all runs within exactly these bounds (all runs if sleeping); return False if the budget is spent."""
        with _collecting_garbage() as sweep:
            return self._walk_points(faults, deviations, sweep, sleeping=sleeping)

    def _walk_points(
        self, faults: int, deviations: int, sweep: Callable[[], None], *, sleeping: bool
    ) -> bool:
        budget, points, self._past = self._budget, list[_Point](), EventLog()
        known: dict[tuple[int, int], int] = {}
        while True:
            self._descend(points, faults, deviations, sleeping=sleeping, known=known)
            sweep()
            if self.broken is not None:
                return True
            while points and not points[-1].left:
                points.pop()
            if not points:
                return True
            last = points[-1]
            if sleeping:
                last.sleep[last.options[last.at].name] = last.seen
            last.at = last.left.pop(0)
            if self.runs >= budget.runs:
                return False
            if budget.seconds and time.monotonic() - self._began > budget.seconds:
                return False

    def _descend(
        self, points: list[_Point], faults: int, deviations: int, *, sleeping: bool,
        known: dict[tuple[int, int], int],
    ) -> None:  # fmt: skip
        """Repeat the choices made so far, then continue to an end with the first remaining option each time."""
        self.runs += 1
        kernel = ChoiceKernel()
        run = self._program.start(kernel, self._wiring, self._budget)
        kernel.settle()
        for point in points[:-1]:
            options: list[Option] = [*kernel.enabled()]
            if point.at >= len(options):
                options += run.strikes()
            for one in passed_over(options, point.at):
                one.slow = True
            kernel.fire(options[point.at])
            run.look()
        if points:
            point = points[-1]
            self._past.cut(len(points) - 1)
            self._follow(kernel, run, _options(kernel, run, faults, point), point)
            if sleeping and self._reduced:
                self._reverse(points, kernel.stretch)
        while not run.over():
            before = points[-1] if points else None
            spent, strayed = _spent(before)
            if len(points) >= self._budget.depth:
                self._fail(points, "ends", f"it has not ended after {len(points)} choices")
                return
            self._states.add(kernel.state)
            point = _Point(options=[], left=[], sleep={}, faults=spent, deviations=strayed)
            point.options = _options(kernel, run, faults, point)
            if not point.options:
                break
            if sleeping:
                requested = self._awake(point, points)
                self.pruned += len(point.options) - len(requested)
                if not requested:
                    return
                point.known.update(point.options[at].name for at in requested)
            else:
                left = (faults - spent, deviations - strayed)
                here = known.get((kernel.state, left[0]), -1)
                if here >= left[1]:
                    self.pruned += 1
                    return
                known[kernel.state, left[0]] = left[1]
                requested = _within(point.options, left[1])
            point.at, point.left = requested[0], requested[1:]
            points.append(point)
            self._follow(kernel, run, point.options, point)
            if sleeping and self._reduced:
                self._reverse(points, kernel.stretch)
        if not sleeping and points and _spent(points[-1]) != (faults, deviations):
            return  # a smaller bound has covered the run
        self.orders += 1
        broken = run.finish()
        if broken:
            invariant, message = broken[0]
            self._fail(points, invariant, message)
        else:
            self._endings.setdefault(run.ending())

    def _follow(
        self, kernel: ChoiceKernel, run: ExploredRun, options: list[Option], point: _Point
    ) -> None:
        point.options = options
        chosen = options[point.at]
        if isinstance(chosen, Strike):
            self._struck.add((kernel.state, chosen.name))
        point.slowed = 0
        for one in passed_over(options, point.at):
            one.slow = True
            point.slowed += 1
        point.seen = kernel.fire(chosen)
        run.look()

    def _awake(self, point: _Point, points: list[_Point]) -> list[int]:
        """Return the places of the options that must be followed, as far as known before any of them happens."""
        if not self._reduced:
            return [*range(len(point.options))]
        if points:
            before = points[-1]
            point.sleep = {
                name: other
                for name, other in before.sleep.items()
                if not depend(other, before.seen)
            }
        requested = [
            at for at, option in enumerate(point.options) if option.name not in point.sleep
        ]
        first = [at for at in requested if isinstance(point.options[at], Choice)][:1]
        strikes = [at for at in requested if isinstance(point.options[at], Strike)]
        absorbing = [at for at in strikes if self._absorbs(point.options[at], points)]
        point.known.update(point.options[at].name for at in absorbing)
        return first + [at for at in strikes if at not in absorbing]

    def _absorbs(self, strike: Option, points: list[_Point]) -> bool:
        """Return whether a fault erases a recent event; if so, the fault is tried without that event instead."""
        assert isinstance(strike, Strike)
        results = [*self._past.absorbed(strike)]
        for place, names in results:
            points[place].want(names)
        return bool(results)

    def _reverse(self, points: list[_Point], stretch: int) -> None:
        """Schedule the orders in which the last event precedes an event with which it races."""
        last = points[-1]
        chosen = last.options[last.at]
        for place, names in self._past.add(chosen, last.seen, stretch):
            points[place].want(names)

    def _fail(self, points: list[_Point], invariant: str, message: str) -> None:
        choices = tuple(point.at for point in points)
        self.broken = replay(self._program, self._wiring, self._budget, choices) or BrokenInvariant(
            invariants=(invariant,), message=message, choices=choices, trace=()
        )


@contextmanager
def _collecting_garbage() -> Generator[Callable[[], None]]:
    """Collect garbage only occasionally within the block.

    Each run creates much garbage, and automatic collection would take half of the time. The yielded function must
    be called after each run.
    """
    was_on, runs = gc.isenabled(), 0

    def sweep() -> None:
        nonlocal runs
        runs += 1
        if runs % _RUNS_KEPT == 0:
            gc.collect()

    gc.disable()
    gc.freeze()  # older objects are not examined each time
    try:
        yield sweep
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()


def _options(kernel: ChoiceKernel, run: ExploredRun, faults: int, point: _Point) -> list[Option]:
    options: list[Option] = [*kernel.enabled()]
    if point.faults < faults:
        options += run.strikes()
    return options


def _spent(point: _Point | None) -> tuple[int, int]:
    """Return the numbers of faults and deviations up to and including the choice at a point."""
    if point is None:
        return 0, 0
    chosen = point.options[point.at]
    if isinstance(chosen, Strike):
        return point.faults + 1, point.deviations
    return point.faults, point.deviations + point.slowed


def _within(options: list[Option], deviations: int) -> list[int]:
    """Return the places of the options that the bound allows, in the order of virtual time."""
    return [
        at
        for at, option in enumerate(options)
        if isinstance(option, Strike) or len(passed_over(options, at)) <= deviations
    ]


def by_bounds(program: Program, wiring: Wiring, budget: Budget) -> SearchFigures:
    """See `Search.by_bounds`."""
    return Search(program, wiring, budget).by_bounds()


def exhaust(
    program: Program, wiring: Wiring, budget: Budget, *, reduced: bool = True
) -> SearchFigures:
    """See `Search.exhaust`."""
    return Search(program, wiring, budget).exhaust(reduced=reduced)
