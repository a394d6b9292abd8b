"""A folder of scenarios, and its server, shared by the tests of a module."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.explorer.server import ExploreProcess, explored

SHIPPED = Path(__file__).parents[2] / "scenarios"
#: Shipped scenarios in the folder that is served.
FILES = (
    "immediate/lost_update",
    "immediate/any_client",
    "immediate/write_skew",
    "crash/dies_decided",
    "crash/dies_undecided",
    "merge/columns_meet",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with some of the shipped scenarios, which tests may change."""
    made = tmp_path_factory.mktemp("explored")
    for name in FILES:
        place = made / f"{name}.twopc.yaml"
        place.parent.mkdir(exist_ok=True)
        shutil.copy(SHIPPED / f"{name}.twopc.yaml", place)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ExploreProcess]:
    """A server of the folder."""
    with explored(folder) as running:
        yield running
