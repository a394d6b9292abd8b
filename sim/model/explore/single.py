"""Single runs of a program: the interfaces of programs and runs, and functions that play or replay one run.

Independent of what a program does and of how runs are chosen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from twopc.sim.model.choosers import (
    ChoiceKernel,
    Chooser,
    Option,
    ReplayChooser,
    Strike,
    passed_over,
)
from twopc.sim.model.explore.results import BrokenInvariant, Budget, Choices
from twopc.sim.model.wiring import Wiring


class ExploredRun(Protocol):
    """A run of a program."""

    def strikes(self) -> Sequence[Strike]:
        """Return the faults that may strike now."""
        ...

    def over(self) -> bool:
        """Return whether nothing is left to explore; remaining events happen in the order of virtual time."""
        ...

    def look(self) -> None:
        """Observe the system after an event."""
        ...

    def finish(self) -> list[tuple[str, str]]:
        """Run to the end; return the violated invariants, each with a description."""
        ...

    def ending(self) -> str:
        """Return a text for the ending: equal for equal endings."""
        ...

    def story(self, option: Option) -> str:
        """Return a line of the trace; empty for routine events."""
        ...


class Program(Protocol):
    """A program to explore."""

    @property
    def name(self) -> str:
        """Name of the program."""
        ...

    def start(self, kernel: ChoiceKernel, wiring: Wiring, budget: Budget) -> ExploredRun:
        """Return a new run of the program."""
        ...


@dataclass(slots=True, kw_only=True)
class PlayedRun:
    """The result of playing a run."""

    run: ExploredRun
    choices: Choices
    trace: tuple[str, ...]
    broken: list[tuple[str, str]]
    ending: str


def played(program: Program, wiring: Wiring, budget: Budget, chooser: Chooser) -> PlayedRun:
    """Play one run."""
    kernel = ChoiceKernel()
    run = program.start(kernel, wiring, budget)
    kernel.settle()
    choices: list[int] = []
    trace: list[str] = []
    faults = 0
    broken: list[tuple[str, str]] = []
    while not run.over():
        if len(choices) >= budget.depth:
            broken = [("ends", f"it has not ended after {len(choices)} choices")]
            break
        options: list[Option] = [*kernel.enabled()]
        if faults < budget.faults:
            options += run.strikes()
        if not options:
            break
        at = min(chooser.choose(options), len(options) - 1)
        choices.append(at)
        chosen = options[at]
        faults += isinstance(chosen, Strike)
        for one in passed_over(options, at):
            one.slow = True
            trace.append(f"slow: {one}")
        line = run.story(chosen)
        if line:
            trace.append(line)
        kernel.fire(chosen)
        run.look()
    if not broken:
        broken = run.finish()
    return PlayedRun(
        run=run, choices=tuple(choices), trace=tuple(trace), broken=broken, ending=run.ending()
    )


def play(
    program: Program, wiring: Wiring, budget: Budget, chooser: Chooser
) -> tuple[Choices, tuple[str, ...], list[tuple[str, str]], str]:
    """Play one run; return its choices, its trace, its violations, and its ending."""
    one = played(program, wiring, budget, chooser)
    return one.choices, one.trace, one.broken, one.ending


def replay(
    program: Program, wiring: Wiring, budget: Budget, choices: Choices
) -> BrokenInvariant | None:
    """Replay a run; return None if it violates no invariant."""
    made, trace, broken, _ = play(program, wiring, budget, ReplayChooser(choices))
    if not broken:
        return None
    names = tuple(dict.fromkeys(name for name, _ in broken))
    return BrokenInvariant(invariants=names, message=broken[0][1], choices=made, trace=trace)
