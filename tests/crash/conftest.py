"""Fixtures of the crash tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.grid.rig import Rig


@pytest.fixture(scope="session")
def rig() -> Iterator[Rig]:
    """Three servers with everything installed, for each worker process; tests may kill them.

    Servers that a test has left down are started again for the next one.
    """
    with Rig() as made:
        yield made


@pytest.fixture(autouse=True)
def _up_again(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "rig" in request.fixturenames:
        request.getfixturevalue("rig").up()
