"""Fixtures for the plugin's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.plugin.running import Project
from twopc.server import EmbeddedServer
from twopc.sim.testing.bench import Bench, TopologyRequest
from twopc.sim.testing.blocking_bench import TestTopology


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A user's project with an account table."""
    return Project(pytester, monkeypatch)


@pytest.fixture(scope="module")
def bench(server: EmbeddedServer) -> Iterator[Bench]:
    """The `Bench` that the plugin shares among tests, here without the plugin."""
    made = Bench(lambda: server, worker="inner", timeout_s=60)
    yield made
    made.close()


BANK = TopologyRequest(
    load=(
        "create table account (id int primary key, balance int not null)",
        "insert into account select g, 100 from generate_series(1, 3) as g",
    )
)


@pytest.fixture
def bank(bench: Bench, request: pytest.FixtureRequest) -> Iterator[TestTopology]:
    """A topology with an account table, as tests get it."""
    bed = bench.open(BANK, request.node.name)
    yield TestTopology(bench, bed)
    assert bench.close_bed(bed, BANK, "truncate") == []


@pytest.fixture
def make_bank(
    bench: Bench, request: pytest.FixtureRequest
) -> Iterator[Callable[..., TestTopology]]:
    """Return a function that opens a topology with options of `TopologyRequest`.

    The topology is rewound for the next test with the same options.
    """
    made: list[tuple[Any, TopologyRequest]] = []

    def make(**options: Any) -> TestTopology:
        wanted = TopologyRequest(**{"load": BANK.load, **options})
        bed = bench.open(wanted, request.node.name)
        made.append((bed, wanted))
        return TestTopology(bench, bed)

    yield make
    for bed, wanted in made:
        bench.close_bed(bed, wanted, "truncate")
