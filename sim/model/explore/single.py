"""Single runs of a program: what a program and a run of it are, and how one is played, or played again.

It must not know what a program does, nor how runs are chosen.
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
    """A program that runs."""

    def strikes(self) -> Sequence[Strike]:
        """What may go wrong now."""
        ...

    def over(self) -> bool:
        """Nothing is left to explore; what is left happens as time would decide."""
        ...

    def look(self) -> None:
        """Something has happened."""
        ...

    def finish(self) -> list[tuple[str, str]]:
        """To the end; invariants that do not hold, and how that shows."""
        ...

    def ending(self) -> str:
        """How it has ended, in words: equal for equal endings."""
        ...

    def story(self, option: Option) -> str:
        """A line of the trace; empty for what goes without saying."""
        ...


class Program(Protocol):
    """What is explored."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    def start(self, kernel: ChoiceKernel, wiring: Wiring, budget: Budget) -> ExploredRun:
        """A run of it, from the beginning."""
        ...


@dataclass(slots=True, kw_only=True)
class PlayedRun:
    """A run that was played."""

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
    """One run: its choices, its trace, what is broken, and its ending."""
    one = played(program, wiring, budget, chooser)
    return one.choices, one.trace, one.broken, one.ending


def replay(
    program: Program, wiring: Wiring, budget: Budget, choices: Choices
) -> BrokenInvariant | None:
    """Play a run again; None if nothing is broken."""
    made, trace, broken, _ = play(program, wiring, budget, ReplayChooser(choices))
    if not broken:
        return None
    names = tuple(dict.fromkeys(name for name, _ in broken))
    return BrokenInvariant(invariants=names, message=broken[0][1], choices=made, trace=trace)
