"""Fixtures for the crash tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.grid.rig import Rig


@pytest.fixture(scope="session")
def rig() -> Iterator[Rig]:
    """Three servers with everything installed, for each worker process; tests kill them as they like.

    What a test has left down is up again for the next one.
    """
    with Rig() as made:
        yield made


@pytest.fixture(autouse=True)
def _up_again(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "rig" in request.fixturenames:
        request.getfixturevalue("rig").up()
