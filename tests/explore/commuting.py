"""Two neighbours of a run that are said not to depend on each other, the other way round: nothing may change by it.

python -m tests.explore.commuting FILE KIND [RUNS]
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from sim.model.choosing import Choice, ChoiceKernel, Option, Strike, depend
from sim.model.explore.programs import Script, ScriptRun
from sim.model.explore.words import Budget
from sim.model.wiring import Wiring
from sim.scenario.check import load
from sim.scenario.searching import script_of

#: So many pairs of a run are tried.
_PAIRS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What has happened in a run."""

    name: int
    maker: int
    seen: dict[str, int]
    words: str
    is_strike: bool


class Runs:
    """Runs of a script in which one thing goes wrong."""

    def __init__(self, script: Script, kinds: tuple[str, ...]) -> None:
        self._script = script
        self.blind = False
        """What goes wrong is taken to depend on nothing."""
        self._budget = Budget(faults=1 if kinds else 0, of=kinds)

    def drawn(self, chance: Random) -> tuple[list[Event], ScriptRun]:
        """One by chance."""
        kernel, run = self._start()
        events: list[Event] = []
        goes_wrong_at = chance.randrange(70)
        while options := self._options(kernel, run, events):
            choices = [one for one in options if isinstance(one, Choice)]
            strikes = [one for one in options if isinstance(one, Strike)]
            chosen: Option = chance.choice(options)
            if strikes and len(events) >= goes_wrong_at:
                chosen = chance.choice(strikes)
            elif choices:
                chosen = choices[0] if chance.random() < 0.5 else chance.choice(choices)
            events.append(_fired(kernel, run, chosen))
        return events, run

    def again(self, names: Sequence[int]) -> tuple[list[Event], ScriptRun]:
        """One by names, as far as they can happen."""
        kernel, run = self._start()
        events: list[Event] = []
        for name in names:
            options = self._options(kernel, run, events)
            chosen = next((one for one in options if one.name == name), None)
            if chosen is None:
                break
            events.append(_fired(kernel, run, chosen))
        return events, run

    def _start(self) -> tuple[ChoiceKernel, ScriptRun]:
        kernel = ChoiceKernel()
        run = self._script.start(kernel, Wiring(), self._budget)
        kernel.settle()
        return kernel, run

    def _options(
        self, kernel: ChoiceKernel, run: ScriptRun, events: Sequence[Event]
    ) -> list[Option]:
        if run.over():
            return []
        options: list[Option] = [*kernel.enabled()]
        if options and self._budget.faults and not any(one.is_strike for one in events):
            options += run.strikes()
        return options

    def _depend(self, one: Event, other: Event) -> bool:
        if self.blind and (one.is_strike or other.is_strike):
            return False
        return depend(one.seen, other.seen)

    def differences(self, chance: Random) -> Iterator[str]:
        """Of a drawn run: pairs that should not matter and do."""
        events, run = self.drawn(chance)
        pairs = [
            at
            for at, (one, other) in enumerate(itertools.pairwise(events))
            if not self._depend(one, other) and other.maker != one.name
        ]
        chance.shuffle(pairs)
        pairs.sort(key=lambda at: not (events[at].is_strike or events[at + 1].is_strike))
        end = (run.finish(), run.ending())
        for at in pairs[:_PAIRS]:
            wanted = [*events]
            wanted[at], wanted[at + 1] = wanted[at + 1], wanted[at]
            found, other_run = self.again([one.name for one in wanted])
            if found != wanted:
                yield f"{events[at].words} and {events[at + 1].words}: the rest differs"
            elif (other := (other_run.finish(), other_run.ending())) != end:
                yield f"{events[at].words} and {events[at + 1].words}: {end} and {other}"


def _fired(kernel: ChoiceKernel, run: ScriptRun, chosen: Option) -> Event:
    seen = kernel.fire(chosen)
    run.look()
    return Event(
        name=chosen.name, maker=chosen.maker if isinstance(chosen, Choice) else 0, seen=seen,
        words=str(chosen).replace("\n", " "), is_strike=isinstance(chosen, Strike),
    )  # fmt: skip


def main(file: str, kind: str, count: str = "100") -> int:
    """Draw so many; 1 if something differs."""
    runs = Runs(script_of(load(Path(file))), (kind,))
    found = [what for seed in range(int(count)) for what in runs.differences(Random(f"{seed}"))]
    sys.stdout.write("\n".join([*found, f"{len(found)} differ\n"]))
    return min(1, len(found))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
