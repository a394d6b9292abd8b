"""Tests of schedules drawn from a seed and played on the model and on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.model.node.differ import play_both
from tests.model.node.drawing import Drawer
from twopc.server import EmbeddedServer

SEEDS = range(25)


@pytest.fixture(scope="module")
def dsn(server: EmbeddedServer) -> Iterator[str]:
    """Create a database that all schedules use in turn."""
    server.create_database("model_drawn")
    yield server.superuser_dsn("model_drawn")
    server.drop_database("model_drawn")


def test_drawing_is_repeatable() -> None:
    """The same seed gives the same schedule, and another seed another one."""
    drawn = [Drawer(seed).drawn() for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1]
    assert drawn[0].steps != drawn[2].steps


@pytest.mark.postgres
@pytest.mark.parametrize("seed", SEEDS)
def test_same(seed: int, dsn: str) -> None:
    """A drawn schedule has the same results on the model and on PostgreSQL."""
    schedule = Drawer(seed).drawn()
    model, postgres = play_both(schedule, dsn)
    steps = [f"{session}: {text}" for session, text in schedule.steps]
    assert model.lines == postgres.lines, "\n".join(steps)
    assert model.tables == postgres.tables, "\n".join(steps)
    assert model.prepared == postgres.prepared
