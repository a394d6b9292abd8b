"""The search itself, on programs of which it is known how many orders there are."""

from __future__ import annotations

from math import comb
from random import Random

import pytest

from tests.explore.small import PROGRAMS
from tests.explore.toys import Counters
from twopc.sim.model.choosers import ChoiceKernel, ReplayChooser, SeededChooser, depend
from twopc.sim.model.explore.results import Budget
from twopc.sim.model.explore.search import by_bounds, exhaust
from twopc.sim.model.explore.single import play, replay
from twopc.sim.model.values import Cause, Label
from twopc.sim.model.wiring import Wiring

NONE = Budget(faults=0)


class NoCheck(Counters):
    """Whatever comes of it is right."""

    def start(self, kernel: ChoiceKernel, wiring: Wiring, budget: Budget):  # type: ignore[no-untyped-def]
        """A run whose end is not judged."""
        run = super().start(kernel, wiring, budget)
        run.finish = list  # type: ignore[method-assign]
        return run


@pytest.mark.parametrize("times", [1, 2, 4])
def test_what_is_independent_has_one_order(times: int) -> None:
    found = exhaust(Counters(["x", "y", "z"], times), Wiring(), NONE)
    assert (found.orders, found.exhausted, found.broken) == (1, True, None)


@pytest.mark.parametrize("times", [1, 2])
def test_what_depends_has_every_order(times: int) -> None:
    found = exhaust(NoCheck(["x", "x"], times), Wiring(), NONE)
    assert found.orders == comb(4 * times, 2 * times)
    assert found.exhausted


def test_groups_multiply() -> None:
    """Two pairs that have nothing to do with each other: orders of one times orders of the other."""
    found = exhaust(NoCheck(["x", "x", "y", "y"]), Wiring(), NONE)
    assert found.orders == comb(4, 2) ** 2
    assert found.states < comb(4, 2) ** 4


def test_every_ending_is_found() -> None:
    found = exhaust(NoCheck(["x", "x"]), Wiring(), NONE)
    assert found.endings == ("{'x': 1}", "{'x': 2}")


def test_a_fault_at_every_moment_once() -> None:
    """Before, between and after the two steps of one; what the other counter does meanwhile does not matter."""
    found = exhaust(NoCheck(["x", "y"]), Wiring(), Budget(faults=1))
    assert found.orders == 1 + 2 * 3 - 2  # once all is over nothing goes wrong any more


def test_the_first_found_is_short() -> None:
    """Time has both read before either writes, and so it takes nothing to lose one."""
    found = by_bounds(Counters(["x", "x"]), Wiring(), NONE)
    assert found.broken is not None
    assert found.broken.events == 0
    one = by_bounds(Counters(["x"], 2), Wiring(), Budget(faults=1))
    assert one.broken is not None
    assert one.broken.trace == ("x is lost",)


def test_what_was_found_can_be_played_again() -> None:
    program = Counters(["x"], 2)
    found = by_bounds(program, Wiring(), Budget(faults=1)).broken
    assert found is not None
    assert replay(program, Wiring(), Budget(faults=1), found.choices) == found


def test_chance_comes_from_a_seed() -> None:
    program = NoCheck(["x", "x", "y"], 3)
    first, again = (
        play(program, Wiring(), NONE, SeededChooser(Random("1"), 0.5)) for _ in range(2)
    )
    assert first == again
    others = {
        play(program, Wiring(), NONE, SeededChooser(Random(str(n)), 0.5))[0] for n in range(20)
    }
    assert len(others) > 10


def test_timers_come_last_and_in_order() -> None:
    kernel = ChoiceKernel()
    seen: list[str] = []
    for seconds, cause in ((3.0, Cause.TIMER), (1.0, Cause.LOCK_TIMEOUT), (9.0, Cause.MESSAGE)):
        made = kernel.delay(
            seconds, Label(actor="a", cause=cause, what=cause.value, touches=frozenset("x"))
        )
        assert made.callbacks is not None
        made.callbacks.append(lambda _, what=cause.value: seen.append(what))  # type: ignore[misc]
    while options := kernel.enabled():
        kernel.fire(options[0])
    assert seen == ["message", "lock_timeout", "timer"]
    assert kernel.now == 9.0


def test_time_as_the_other_kernel_has_it() -> None:
    """Left to itself it does what time does."""
    program = NoCheck(["x", "x"], 3)
    assert set(play(program, Wiring(), NONE, ReplayChooser(()))[0]) == {0}


def test_dependence() -> None:
    assert depend({"x": 2}, {"x": 1})
    assert not depend({"x": 1}, {"x": 1, "y": 2})
    assert not depend({"x": 2}, {"y": 2})


@pytest.mark.parametrize("of", ["coordinator", "subscriber"])
def test_nothing_is_left_out(of: str) -> None:
    """Whatever chance comes upon, the search that follows of equivalent orders only one has come upon, too."""
    program = PROGRAMS["transfer"]
    budget = Budget(of=(of,))
    every = exhaust(program, Wiring(), budget)
    assert every.exhausted
    assert every.broken is None
    for seed in range(40):
        random = Random(f"{of}/{seed}")
        broken, ending = play(program, Wiring(), budget, SeededChooser(random, 0.1))[2:]
        assert (broken, ending in every.endings) == ([], True)
