"""Tests that a model node plays schedules of two and three sessions as PostgreSQL does.

Compared are outcomes, SQLSTATEs, rows, the waits after each step, and what is left at the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.model.node.differ import Schedule, play_both, read
from twopc.server import EmbeddedServer

FILES = sorted((Path(__file__).parent / "schedules").glob("*.txt"))
SCHEDULES = [schedule for path in FILES for schedule in read(path)]


@pytest.fixture(scope="module")
def dsn(server: EmbeddedServer) -> Iterator[str]:
    """Create a database that all schedules use in turn."""
    server.create_database("model_conformance")
    yield server.superuser_dsn("model_conformance")
    server.drop_database("model_conformance")


def test_there_are_enough() -> None:
    """There are at least 120 schedules, and no two have the same name."""
    assert len(SCHEDULES) >= 120
    assert len({one.name for one in SCHEDULES}) == len(SCHEDULES)


@pytest.mark.postgres
@pytest.mark.parametrize("schedule", SCHEDULES, ids=lambda one: one.name.replace(" ", "_"))
def test_same(schedule: Schedule, dsn: str) -> None:
    """A schedule has the same results on the model and on PostgreSQL."""
    model, postgres = play_both(schedule, dsn)
    assert "\n".join(model.lines) == "\n".join(postgres.lines)
    assert model.tables == postgres.tables
    assert model.prepared == postgres.prepared
