"""Tests that the model plays short histories of a Publisher and two Subscribers as servers do.

Compared are outcomes, kinds and facts of errors, waits, and every row with its version at the end.
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
    """Return a function that plays a history on a topology, which all tests share."""
    with asyncio.Runner() as runner:
        world = runner.run(World.make(server))
        try:
            yield lambda history: runner.run(world.play(history))
        finally:
            runner.run(world.close())


def test_there_are_enough() -> None:
    """There are at least 60 histories, and no two have the same name."""
    assert len(HISTORIES) >= 60
    assert len({one.name for one in HISTORIES}) == len(HISTORIES)


@pytest.mark.sample(20)
@pytest.mark.postgres
@pytest.mark.parametrize("history", HISTORIES, ids=lambda one: one.name.replace(" ", "_"))
def test_same(history: History, on_postgres: Play) -> None:
    """A history has the same results on the model and on servers."""
    assert ModelRun(history).run().text() == on_postgres(history).text()


@pytest.mark.postgres
def test_drawn(on_postgres: Play) -> None:
    """Drawn histories have the same results; ``python -m tests.model.replication.drawing`` plays many more."""
    for seed in quiet_seeds(6):
        history = drawn(seed)
        assert ModelRun(history).run().text() == on_postgres(history).text(), history
