"""Short histories of a Publisher and two Subscribers: the model does what real servers do, step by step.

Outcomes, kinds and facts of refusals, who waits for whom, and every row with its version at the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest

from tests.model.replication.drawing import drawn, quiet_seeds
from tests.model.replication.on_model import ModelRun
from tests.model.replication.on_postgres import World
from tests.model.replication.telling import Played
from tests.model.replication.world import HISTORIES, History
from twopc.server import EmbeddedServer

Play = Callable[[History], Played]


@pytest.fixture(scope="module")
def on_postgres(server: EmbeddedServer) -> Iterator[Play]:
    """Plays a history on a topology that all of them share."""
    with asyncio.Runner() as runner:
        world = runner.run(World.make(server))
        try:
            yield lambda history: runner.run(world.play(history))
        finally:
            runner.run(world.close())


def test_there_are_enough() -> None:
    """And no two of the same name."""
    assert len(HISTORIES) >= 60
    assert len({one.name for one in HISTORIES}) == len(HISTORIES)


@pytest.mark.sample(20)
@pytest.mark.postgres
@pytest.mark.parametrize("history", HISTORIES, ids=lambda one: one.name.replace(" ", "_"))
def test_same(history: History, on_postgres: Play) -> None:
    """The model beside the topology."""
    assert ModelRun(history).run().text() == on_postgres(history).text()


@pytest.mark.postgres
def test_drawn(on_postgres: Play) -> None:
    """Histories that nobody has thought of; many more of them by ``python -m tests.model.replication.drawing``."""
    for seed in quiet_seeds(6):
        history = drawn(seed)
        assert ModelRun(history).run().text() == on_postgres(history).text(), history
