"""Tests that the walks find every planted bug, and nothing without a bug."""

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
    """Return the world in which the bug is detected, with or without the bug."""
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
    """Return the number of the first walk that violates an invariant, and the violation."""
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
    """Walks find the bug, also by outcomes only; the same walks without the bug find nothing."""
    found = hunt(world_of(mutant, healthy=False, wire=wire), _WALKS_MAX)

    assert found is not None
    walks, _ = found
    assert hunt(world_of(mutant, healthy=True), walks + 1) is None


def test_names_are_distinct() -> None:
    """No two mutants have the same name."""
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_fences_bring_mute_branches_home() -> None:
    """A coordinator that is alive settles all branches that never inquire."""
    mutant = next(mutant for mutant in MUTANTS if mutant.mute)

    assert hunt(world_of(mutant, healthy=True), 1_000) is None
