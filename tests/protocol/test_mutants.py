"""The walks find every planted bug, and find nothing where there is none."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from tests.protocol.frozen import ViolationError
from tests.protocol.mutants import MUTANTS, Mutant, Mute
from tests.protocol.values import Config
from tests.protocol.walk import wander
from tests.protocol.world import World
from twopc.protocol import recovery
from twopc.protocol.coordinator import Coordinator
from twopc.protocol.effects import Message
from twopc.protocol.participant import Participant
from twopc.protocol.variants import Settings, Variant

_WALKS_MAX = 4_000


def world_of(mutant: Mutant, *, healthy: bool, wire: bool = True) -> World:
    """The world in which the bug shows, with or without the bug."""
    bug: Any = Coordinator if healthy else mutant.bug
    coordinator: type[Coordinator] = Coordinator
    participant: type[Participant] = Mute if mutant.mute else Participant
    answer: Callable[..., Message | None] = recovery.answer
    if isinstance(bug, Variant):
        pass
    elif not isinstance(bug, type):
        answer = bug
    elif issubclass(bug, Coordinator):
        coordinator = bug
    else:
        participant = cast("type[Participant]", bug)
    config = Config(
        settings=Settings(variant=bug if isinstance(bug, Variant) else mutant.variant),
        writers=frozenset(mutant.writers),
        faults=mutant.faults,
    )
    return World(
        config,
        coordinator=coordinator,
        participant=participant,
        answer=answer,
        strict=healthy,
        wire=wire,
    )


def hunt(world: World, walks: int) -> tuple[int, ViolationError] | None:
    """The first walk that breaks a promise, and the promise."""
    for seed in range(walks):
        chance = random.Random(seed)
        try:
            wander(world, [chance.randrange(10**6) for _ in range(50)])
        except ViolationError as violation:
            return seed, violation
    return None


@pytest.mark.parametrize("wire", [True, False], ids=["all_promises", "outcomes_only"])
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_found(mutant: Mutant, wire: bool) -> None:
    """A walk breaks a promise, of outcomes too; the same walks without the bug break none."""
    found = hunt(world_of(mutant, healthy=False, wire=wire), _WALKS_MAX)

    assert found is not None
    walks, _ = found
    assert hunt(world_of(mutant, healthy=True), walks + 1) is None


def test_names_are_distinct() -> None:
    """Each mutant is one of its own."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_fences_bring_mute_branches_home() -> None:
    """Branches that never ask are all settled by a coordinator that lives."""
    mutant = next(mutant for mutant in MUTANTS if mutant.mute)

    assert hunt(world_of(mutant, healthy=True), 1_000) is None
