"""Searches of all states of small worlds: each is checked, and can reach a settled state."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest
from hypothesis import settings as profile

from tests.protocol import tla
from tests.protocol.breadth import BreadthSearch, TooManyStatesError, explore
from tests.protocol.values import ANY, Config, Faults, State
from tests.protocol.walk import successors
from tests.protocol.world import World
from twopc.protocol.effects import Outcome
from twopc.protocol.variants import PRESUMED_ABORT, VARIANTS, Settings, Variant

#: With ``--hypothesis-profile=thorough`` the search takes minutes and some gigabytes.
THOROUGH = profile.get_current_profile_name() == "thorough"


@pytest.fixture(autouse=True)
def no_collector() -> Iterator[None]:
    """Disable garbage collection, which takes half of the time and finds no cycles."""
    gc.disable()
    yield
    gc.enable()


def search(world: World) -> BreadthSearch[State]:
    """Return all states of a world; assert that each can reach a correct settled state."""
    found = explore([world.start()], lambda state: successors(world, state), states_max=2_000_000)

    assert found.stuck(world.is_settled) == []
    homes = [state for state in found.states if world.is_settled(state)]
    for state in homes:
        world.check_settled(state)
    assert homes
    return found


@pytest.mark.parametrize(
    ("count", "distinct", "generated", "diameter"), [(3, 34, 94, 7), (4, 96, None, None)]
)
def test_tcommit(count: int, distinct: int, generated: int | None, diameter: int | None) -> None:
    """The search reaches the states that TLC finds in Lamport's TCommit."""
    found = explore(tla.tcommit_initial(count), tla.tcommit)

    assert found.distinct == distinct
    assert generated in (None, found.generated)
    assert diameter in (None, found.diameter)


@pytest.mark.parametrize(
    ("count", "distinct", "generated", "diameter"), [(3, 288, 1146, 11), (4, 1568, None, None)]
)
def test_two_phase(count: int, distinct: int, generated: int | None, diameter: int | None) -> None:
    """The search reaches the states that TLC finds in Lamport's TwoPhase."""
    found = explore(tla.two_phase_initial(count), tla.two_phase)

    assert found.distinct == distinct
    assert generated in (None, found.generated)
    assert diameter in (None, found.diameter)


def test_two_phase_is_consistent() -> None:
    """TCConsistent holds in TwoPhase, in which both outcomes are reached."""
    found = explore(tla.two_phase_initial(3), tla.two_phase)

    assert not [s for s in found.states if {"committed", "aborted"} <= set(s[0])]
    assert [s for s in found.states if set(s[0]) == {"committed"}]
    assert [s for s in found.states if set(s[0]) == {"aborted"}]


def test_stuck_states_are_found() -> None:
    """A state from which the end can be reached only by a fault is reported."""
    ways = {0: [(1, False), (2, True)], 1: [(3, False)], 2: [(2, False), (3, True)], 3: []}

    found = explore([0], lambda state: ways[state])

    assert found.stuck(lambda state: state == 3) == [2]


def test_search_gives_up() -> None:
    """A search with too many states raises `TooManyStatesError`."""
    with pytest.raises(TooManyStatesError, match="no end"):
        explore([0], lambda state: [(state + 1, False)], states_max=100)


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=list(VARIANTS))
def test_no_faults(variant: Variant) -> None:
    """Without faults the transaction commits, in every order of messages."""
    world = World(Config(settings=Settings(variant=variant)))

    found = search(world)

    answers = {state.answer for state in found.states if world.is_settled(state)}
    assert answers == {Outcome.COMMITTED}


@pytest.mark.parametrize("variant", VARIANTS.values(), ids=list(VARIANTS))
def test_one_crash_and_one_loss(variant: Variant) -> None:
    """No state violates an invariant with any crash, any lost message, and one early timer."""
    faults = Faults(crashes=1, losses=1, hasty=2 if THOROUGH else 1)
    world = World(Config(settings=Settings(variant=variant), faults=faults))

    found = search(world)

    answers = {state.answer for state in found.states if world.is_settled(state)}
    assert answers >= {None, Outcome.COMMITTED, Outcome.ABORTED}


@pytest.mark.parametrize(
    ("name", "writers"),
    [
        ("presumed_abort", "ab"),
        ("presumed_abort", "a"),
        ("presumed_commit", "a"),
        ("presumed_nothing", "ab"),
        ("last_agent", "ab"),
        ("last_agent", "a"),
        ("last_agent", "b"),
    ],
)
def test_everything_else_once(name: str, writers: str) -> None:
    """No state violates an invariant with a log fault, lost connection, duplicate and so on."""
    faults = Faults(duplicates=1, unknown=1, log_faults=1, work_failures=1, give_ups=1)
    variant = VARIANTS[name].on_postgres()
    settings = Settings(variant=variant, answer_early=False, finish_in_turn=True)
    world = World(Config(settings=settings, writers=frozenset(writers), faults=faults))

    search(world)


@pytest.mark.full
def test_any_timers_and_two_crashes() -> None:
    """No state violates an invariant with timers at any time, or with two crashes."""
    for faults in (Faults(crashes=1, losses=1, hasty=ANY), Faults(crashes=2, hasty=1)):
        search(World(Config(settings=Settings(variant=PRESUMED_ABORT), faults=faults)))
