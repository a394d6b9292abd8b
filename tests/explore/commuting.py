"""Two neighbours of a run that are said not to depend on each other, the other way round: nothing may change by it.

Nor if what goes wrong goes wrong without what it is said to leave nothing of.

python -m tests.explore.commuting FILE KIND [RUNS]
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from twopc.sim.model.choosers import Choice, ChoiceKernel, Option, Strike, depend
from twopc.sim.model.explore.programs import Script, ScriptRun
from twopc.sim.model.explore.results import Budget
from twopc.sim.model.wiring import Wiring
from twopc.sim.scenario.check import load
from twopc.sim.scenario.search_program import script_of

#: So many pairs of a run are tried.
_PAIRS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What has happened in a run."""

    name: int
    stretch: int
    """The name by which it is the maker of others."""
    maker: int
    seen: dict[str, int]
    words: str
    is_strike: bool
    option: Option = field(compare=False)


class Runs:
    """Runs of a script in which something goes wrong, as often as there are kinds of it."""

    def __init__(
        self, script: Script, kinds: tuple[str, ...], kernel: Callable[[], ChoiceKernel] = ChoiceKernel
    ) -> None:  # fmt: skip
        self._script = script
        self._kernel = kernel
        self.blind = False
        """What goes wrong is taken to depend on nothing."""
        self.absorbed = 0
        """So often something went wrong just after what it leaves nothing of."""
        self._budget = Budget(faults=len(kinds), of=kinds)

    def drawn(self, chance: Random, holds: str = "") -> tuple[list[Event], ScriptRun]:
        """One by chance.

        Args:
            holds: words of events. Something goes wrong while one of them is due, which then comes when nothing else
                can.
        """
        kernel, run = self._start()
        events: list[Event] = []
        goes_wrong_at = chance.randrange(70)
        held: Option | None = None
        while options := self._options(kernel, run, events):
            options = [one for one in options if one is not held] or options
            choices = [one for one in options if isinstance(one, Choice)]
            strikes = [one for one in options if isinstance(one, Strike)]
            if holds and strikes and held is None:
                due = [one for one in choices if holds in str(one)]
                held = chance.choice(due) if due and chance.random() < 0.3 else None
                goes_wrong_at = len(events) + (held is None)
            chosen: Option = chance.choice(options)
            if strikes and len(events) >= goes_wrong_at:
                chosen = chance.choice(strikes)
                if self._budget.faults > 1:
                    goes_wrong_at = len(events) + chance.randrange(30)
            elif choices:
                chosen = choices[0] if chance.random() < 0.5 else chance.choice(choices)
            events.append(_fired(kernel, run, chosen))
        return events, run

    def again(self, names: Sequence[int | str]) -> tuple[list[Event], ScriptRun]:
        """One by names, or words, as far as they can happen."""
        kernel, run = self._start()
        events: list[Event] = []
        for name in names:
            options = self._options(kernel, run, events)
            chosen = next((one for one in options if name in (one.name, _words(one))), None)
            if chosen is None:
                break
            events.append(_fired(kernel, run, chosen))
        return events, run

    def _start(self) -> tuple[ChoiceKernel, ScriptRun]:
        kernel = self._kernel()
        run = self._script.start(kernel, Wiring(), self._budget)
        kernel.settle()
        return kernel, run

    def _options(
        self, kernel: ChoiceKernel, run: ScriptRun, events: Sequence[Event]
    ) -> list[Option]:
        if run.over():
            return []
        options: list[Option] = [*kernel.enabled()]
        if options and sum(one.is_strike for one in events) < self._budget.faults:
            options += run.strikes()
        return options

    def _depend(self, one: Event, other: Event) -> bool:
        if self.blind and (one.is_strike or other.is_strike):
            return False
        return depend(one.seen, other.seen)

    def independent(self, events: Sequence[Event]) -> list[int]:
        """Places of those that are said not to depend on what follows them."""
        return [
            at
            for at, (one, other) in enumerate(itertools.pairwise(events))
            if not self._depend(one, other) and other.maker != one.stretch
        ]

    def differences(self, chance: Random) -> Iterator[str]:
        """Of a drawn run: pairs that should not matter and do."""
        events, run = self.drawn(chance)
        pairs = self.independent(events)
        chance.shuffle(pairs)
        pairs.sort(key=lambda at: not (events[at].is_strike or events[at + 1].is_strike))
        yield from self.exchanged(events, run, pairs[:_PAIRS])

    def exchanged(
        self, events: Sequence[Event], run: ScriptRun, places: Sequence[int]
    ) -> Iterator[str]:
        """What differs when the events at a place and behind it come the other way round, at each place by itself."""
        end = (run.finish(), run.ending())
        for at in places:
            wanted = [*events]
            wanted[at], wanted[at + 1] = wanted[at + 1], wanted[at]
            found, other_run = self.again([one.name for one in wanted])
            if found != wanted:
                if not self._is_put_off(wanted, found, other_run):
                    yield f"{events[at].words} and {events[at + 1].words}: {_difference(wanted, found)}"
            elif (other := (other_run.finish(), other_run.ending())) != end:
                yield f"{events[at].words} and {events[at + 1].words}: {end} and {other}"

    @staticmethod
    def _is_put_off(wanted: Sequence[Event], found: Sequence[Event], run: ScriptRun) -> bool:
        """What comes next is a timer whose turn it is not yet, or goes wrong when everything is over.

        Timers come when nothing else can, and the earliest first: in which order events came decides which that is.
        """
        if found != wanted[: len(found)]:
            return False
        following = wanted[len(found)]
        if following.is_strike:
            return run.over()
        return any(one.name == following.name for one in run.kernel.timers())

    def left(self, chance: Random) -> Iterator[str]:
        """Of a drawn run: what goes wrong, without an event that it absorbs; something is left of that."""
        events, run = self.drawn(chance)
        at = next((at for at, one in enumerate(events) if one.is_strike), 0)
        strike = events[at].option
        if not at or not isinstance(strike, Strike) or strike.absorbs is None:
            return
        event = events[at - 1].option
        if not isinstance(event, Choice) or not strike.absorbs(event, events[at - 1].seen):
            return
        self.absorbed += 1
        end = (run.finish(), run.ending())
        before = [one.name for one in events[: at - 1]]
        after = [one.words for one in events[at + 1 :]]  # their names tell of what went wrong
        said = ""
        for name in self._alike(before, strike):
            found, other_run = self.again([*before, name, *after])
            ended = (other_run.finish(), other_run.ending())
            if [one.words for one in found[at:]] == after and ended == end:
                return
            said = said or f"{strike}, and before it {event}: {end} and {ended}"
        yield said.replace("\n", " ")

    def _alike(self, before: Sequence[int], strike: Strike) -> list[int]:
        """Names of what may go wrong at a place; that which is called the same first."""
        kernel, run = self._start()
        for name in before:
            kernel.fire(next(one for one in self._options(kernel, run, ()) if one.name == name))
            run.look()
        found = [one.name for one in run.strikes()]
        return sorted(found, key=lambda name: name != strike.name)


def _difference(wanted: Sequence[Event], found: Sequence[Event]) -> str:
    """The first event that is not what it was."""
    for one, other in zip(wanted, found, strict=False):
        if one != other:
            seen = sorted(
                what
                for what in one.seen.keys() | other.seen.keys()
                if one.seen.get(what) != other.seen.get(what)
            )
            return f"{one.words} has touched {', '.join(seen)} in one of them only"
    return f"{wanted[len(found)].words} does not come"


def _fired(kernel: ChoiceKernel, run: ScriptRun, chosen: Option) -> Event:
    seen = kernel.fire(chosen)
    run.look()
    return Event(
        name=chosen.name, stretch=kernel.stretch, maker=chosen.maker if isinstance(chosen, Choice) else 0, seen=seen,
        words=_words(chosen), is_strike=isinstance(chosen, Strike), option=chosen,
    )  # fmt: skip


def _words(option: Option) -> str:
    return re.sub(r" #\d+", "", str(option)).replace("\n", " ")


def main(file: str, kind: str, count: str = "100") -> int:
    """Draw so many; 1 if something differs."""
    runs = Runs(script_of(load(Path(file))), (kind,))
    found = [
        what
        for seed in range(int(count))
        for differ in (runs.differences, runs.left)
        for what in differ(Random(f"{seed}"))
    ]
    sys.stdout.write(
        "\n".join([*found, f"{len(found)} differ; {runs.absorbed} events were absorbed\n"])
    )
    return min(1, len(found))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
