"""Random walks: messages in any order and any faults, then healing, after which all branches agree.

Checked at every step: no branch is committed while another is aborted; no outcome changes; the
application is answered once and correctly; nothing is sent before it is durable; nothing is
forgotten too early. Checked at the end: everything is settled, and an answer of committed is true.
"""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from tests.protocol.step import step
from tests.protocol.values import ANY, Config, Faults
from tests.protocol.walk import heal, wander
from tests.protocol.world import World
from twopc.protocol.effects import Outcome
from twopc.protocol.variants import PRESUMED_ABORT, VARIANTS, Settings

_THOROUGH = profile.get_current_profile_name() == "thorough"


def bounded(**most: int) -> st.SearchStrategy[Faults]:
    """Any number of each of these faults up to its bound, and no other faults."""
    counts = {name: st.integers(0, bound) for name, bound in most.items()}
    if "hasty" in most:
        counts["hasty"] = st.sampled_from([ANY, *range(most["hasty"] + 1)])
    return st.fixed_dictionaries(counts).map(lambda drawn: Faults(**drawn))


ANY_FAULTS = bounded(
    crashes=3, losses=3, duplicates=3, unknown=2, log_faults=2, stale=2, work_failures=1,
    give_ups=1, hasty=2,
)  # fmt: skip


@st.composite
def configs(draw: st.DrawFn, faults: st.SearchStrategy[Faults] = ANY_FAULTS) -> Config:
    """Any variant, on PostgreSQL or as in the literature, with one to four participants."""
    variant = draw(st.sampled_from(list(VARIANTS.values())))
    names = ("a", "b", "c", "d")[: draw(st.integers(1, 4))]
    return Config(
        settings=Settings(
            variant=variant.on_postgres() if draw(st.booleans()) else variant,
            answer_early=draw(st.booleans()),
            finish_in_turn=draw(st.booleans()),
        ),
        participants=names,
        writers=frozenset(draw(st.sets(st.sampled_from(names)))),
        faults=draw(faults),
    )


choices = st.lists(st.integers(0, 2**31), max_size=80)


@profile.get_profile(profile.get_current_profile_name() if _THOROUGH else "quick")
@given(config=configs(), choices=choices)
def test_atomic_and_settled(config: Config, choices: list[int]) -> None:
    """With any faults, outcomes are atomic always, and settled after healing."""
    wander(World(config), choices)


@profile.get_profile(profile.get_current_profile_name() if _THOROUGH else "quick")
@given(config=configs(faults=st.just(Faults())), choices=choices)
def test_committed_without_faults(config: Config, choices: list[int]) -> None:
    """Without faults the transaction commits, unless the application never requests the commit."""
    world = World(config)
    end = wander(world, choices)

    if choices:
        assert end.answer is Outcome.COMMITTED
        assert world.outcomes(end) <= {Outcome.COMMITTED, Outcome.READ_ONLY}


@profile.get_profile(profile.get_current_profile_name() if _THOROUGH else "quick")
@given(config=configs(faults=bounded(by_hand=2, losses=1, hasty=2)), choices=choices)
def test_damage_is_reported(config: Config, choices: list[int]) -> None:
    """A branch finished by hand against the decision is reported if outcomes are acknowledged."""
    wander(World(config), choices)


def test_many_walks() -> None:
    """Outcomes are atomic in many walks from fixed seeds, with all variants and three writers."""
    bad_day = Faults(
        crashes=2, losses=2, duplicates=2, unknown=1, log_faults=1, work_failures=1, give_ups=1,
        hasty=ANY, stale=1,
    )  # fmt: skip
    answers = set()
    for variant in VARIANTS.values():
        for settings in (Settings(variant=variant), Settings(variant=variant.on_postgres())):
            world = World(Config(settings=settings, participants=("a", "b", "c"), faults=bad_day))
            for seed in range(20_000 if _THOROUGH else 500):
                chance = random.Random(seed)
                end = wander(world, [chance.randrange(10**6) for _ in range(60)])
                answers.add(end.answer)

    assert answers == {None, *Outcome} - {Outcome.READ_ONLY}


def test_same_choices_same_end() -> None:
    """A walk depends on its choices only."""
    world = World(Config(settings=Settings(variant=PRESUMED_ABORT), faults=Faults(crashes=1)))
    chance = random.Random(7)
    path = [chance.randrange(10**6) for _ in range(60)]

    assert wander(world, path) == wander(world, path)


def test_healing_waits_for_nobody_who_is_gone() -> None:
    """A coordinator that crashes after its decision gives no answer, and recovery commits all branches."""
    world = World(Config(faults=Faults(crashes=1)))
    state = step(world, world.start(), ("ask",))
    while not state.disks[0].pending:
        state = step(world, state, sorted(world.expected(state))[0])
    state = step(world, state, ("flush", ""), (0, False))

    assert not state.up
    assert state.answer is None
    assert world.outcomes(heal(world, state)) == {Outcome.COMMITTED}
