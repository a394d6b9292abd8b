"""What the search leaves out is nothing: against the search that leaves out nothing, and pair by pair."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.explore.commuting import Runs
from tests.explore.small import PROGRAMS
from tests.explore.toys import Counters
from twopc.sim.model.explore.results import Budget
from twopc.sim.model.explore.search import exhaust
from twopc.sim.model.wiring import Wiring
from twopc.sim.scenario.check import load
from twopc.sim.scenario.search_program import script_of

TWO_ROWS = Path(__file__).parent / "data" / "two_rows.twopc.yaml"
LOST_UPDATE = Path(__file__).parents[2] / "scenarios" / "immediate" / "lost_update.twopc.yaml"


@pytest.mark.parametrize(
    ("counters", "faults"),
    [("xx", 0), ("xxy", 0), ("xxyy", 0), ("xx", 1), ("xx", 2)],
)
def test_of_counters(counters: str, faults: int) -> None:
    """The same endings, in fewer runs; where an invariant is broken, it is by both."""
    program, budget = Counters([*counters]), Budget(faults=faults)
    some, every = (exhaust(program, Wiring(), budget, reduced=one) for one in (True, False))
    assert (some.broken is None) == (every.broken is None)
    program.start = _unjudged(program.start)  # type: ignore[method-assign]
    some, every = (exhaust(program, Wiring(), budget, reduced=one) for one in (True, False))
    assert some.exhausted
    assert every.exhausted
    assert some.endings == every.endings
    assert some.orders <= every.orders


def _unjudged(start):  # type: ignore[no-untyped-def]
    def started(*given):  # type: ignore[no-untyped-def]
        run = start(*given)
        run.finish = list
        return run

    return started


@pytest.mark.parametrize("kind", ["log", "subscriber"])
def test_of_a_transfer(kind: str) -> None:
    """Whenever the log, or the Subscriber, goes down: every order, and of equivalent ones one."""
    program, budget = PROGRAMS["transfer"], Budget(of=(kind,))
    some, every = (exhaust(program, Wiring(), budget, reduced=one) for one in (True, False))
    assert (some.exhausted, every.exhausted) == (True, True)
    assert (some.broken, every.broken) == (None, None)
    assert some.endings == every.endings
    assert some.runs * 4 < every.runs


@pytest.mark.parametrize("kind", ["coordinator", "publisher", "subscriber", "log"])
def test_what_does_not_depend_may_be_exchanged(kind: str) -> None:
    """Neighbours of drawn runs, those first of which one is what goes wrong."""
    runs = Runs(script_of(load(LOST_UPDATE)), (kind,))
    assert [what for seed in range(12) for what in runs.differences(Random(f"{seed}"))] == []


def test_a_decision_that_comes_before_an_answer_goes_with_the_next() -> None:
    """In this run one comes just after it, and is sent by itself: the two depend on each other."""
    runs = Runs(script_of(load(TWO_ROWS)), ("publisher",))
    assert [*runs.differences(Random("13"))] == []


@pytest.mark.parametrize("kind", ["coordinator", "publisher", "subscriber"])
def test_nothing_is_left_of_what_is_absorbed(kind: str) -> None:
    """What goes wrong just after an event of which nothing is left goes the way that it goes without the event."""
    script = script_of(load(LOST_UPDATE))
    alone = replace(script, clients={"alice": script.clients["alice"]})
    runs = Runs(alone, (kind,))
    assert [what for seed in range(60) for what in runs.left(Random(f"{seed}"))] == []
    assert runs.absorbed > 1


def test_a_missing_notification_is_detected() -> None:
    """With the Publisher's end kept a secret, exchanging it with what it ends is found to matter."""
    script = script_of(load(LOST_UPDATE))
    alone = replace(script, clients={"bob": script.clients["bob"]})
    runs = Runs(alone, ("publisher",))
    runs.blind = True
    assert any(what for seed in range(6) for what in runs.differences(Random(f"{seed}")))
