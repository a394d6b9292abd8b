"""Programs of a few lines, of which it is known how many orders there are."""

from __future__ import annotations

from collections.abc import Sequence

from twopc.sim.model.choosers import ChoiceKernel, Option, Strike
from twopc.sim.model.explore.results import Budget
from twopc.sim.model.values import Cause, Label, Steps
from twopc.sim.model.wiring import Wiring


class Counters:
    """Actors that each add one to a counter, reading it and writing it in two steps.

    Args:
        counters: of each actor, the name of its counter.
        times: how often each adds.
    """

    name = "counters"

    def __init__(self, counters: Sequence[str], times: int = 1) -> None:
        self.counters = counters
        self.times = times

    def start(self, kernel: ChoiceKernel, wiring: Wiring, budget: Budget) -> CountersRun:
        """A run."""
        return CountersRun(self, kernel)


class CountersRun:
    """A run of `Counters`."""

    def __init__(self, program: Counters, kernel: ChoiceKernel) -> None:
        self.program = program
        self.kernel = kernel
        self.values = dict.fromkeys(program.counters, 0)
        self.struck = 0
        self.alive = [
            kernel.spawn(self._add(f"a{place}", counter), counter)
            for place, counter in enumerate(program.counters)
        ]

    def _add(self, actor: str, counter: str) -> Steps[None]:
        touches = frozenset((counter,))
        for _ in range(self.program.times):
            for what in ("read", "write"):
                yield self.kernel.delay(
                    1.0, Label(actor=actor, cause=Cause.MESSAGE, what=what, touches=touches)
                )
                assert self.kernel.record_access is not None
                self.kernel.record_access(f"at {counter}", True)
                if what == "read":
                    found = self.values[counter]
                else:
                    self.values[counter] = found + 1

    def strikes(self) -> list[Strike]:
        """A counter may be set to nothing."""
        return [
            Strike(f"{name} is lost", lambda one=name: self._lose(one), (f"at {name}",))  # type: ignore[misc]
            for name in self.values
        ]

    def _lose(self, name: str) -> None:
        self.values[name] = 0
        self.struck += 1

    def over(self) -> bool:
        """All have added."""
        return not any(one.is_alive for one in self.alive)

    def look(self) -> None:
        """Nothing is kept."""

    def finish(self) -> list[tuple[str, str]]:
        """Nothing is lost."""
        wanted = {
            name: self.program.times * [*self.program.counters].count(name) for name in self.values
        }
        if self.values == wanted:
            return []
        return [("nothing is lost", f"{self.values} and not {wanted}")]

    def ending(self) -> str:
        """The counters."""
        return str(self.values)

    def story(self, option: Option) -> str:
        """What is struck."""
        return str(option) if isinstance(option, Strike) else ""
