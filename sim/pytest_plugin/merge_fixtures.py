"""The fixtures of merge replication. Their imports are made when a test requests one of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from twopc.sim.pytest_plugin import config
from twopc.sim.pytest_plugin.marks import wrong
from twopc.sim.pytest_plugin.sections import TOPOLOGIES

if TYPE_CHECKING:
    from twopc.sim.testing.bench import Bench
    from twopc.sim.testing.merge_doubles import AsyncTestMerge, TestMerge


@pytest.fixture(scope="session")
def twopc_merge_template() -> Sequence[Any]:
    """The content of every topology of merge replication; see `twopc_template`. Tables with a primary key are
    merged.
    """
    return ()


@pytest.fixture
def twopc_merge(
    request: pytest.FixtureRequest,
    twopc_bench: Bench,
    twopc_merge_template: Any,
    twopc_repetition: int,
) -> Iterator[TestMerge]:
    """A Publisher and two Subscribers of merge replication on real PostgreSQL, new for this test.

    ``@pytest.mark.twopc_merge(subscribers={"anna": {"kind": "server", "priority": 75}}, …)`` changes the properties
    of the topology.
    """
    from twopc.errors import TwopcError
    from twopc.sim.testing.merge_bed import MergeBed, request_of
    from twopc.sim.testing.merge_doubles import TestMerge

    options: dict[str, Any] = {}
    for mark in reversed(list(request.node.iter_markers("twopc_merge"))):
        if mark.args:
            raise wrong("@pytest.mark.twopc_merge takes named options only, as subscribers=3")
        options |= mark.kwargs
    try:
        requested = request_of(options, twopc_merge_template)
        bed = MergeBed(
            requested, twopc_bench.server, request.node.name, timeout_s=twopc_bench.timeout_s
        )
        made = TestMerge(twopc_bench, bed, seed=config.settings_of(request.config).seed or 0)
        made.renew()
    except (TwopcError, TypeError) as error:
        raise wrong(f"twopc_merge: {error}") from None
    request.node.stash.setdefault(TOPOLOGIES, []).append(made)
    yield made
    twopc_bench.call(made.bed.close)


@pytest.fixture
def twopc_merge_async(twopc_merge: TestMerge) -> AsyncTestMerge:
    """The topology of `twopc_merge` in awaitable form, for tests with any event loop."""
    from twopc.sim.testing.merge_doubles import AsyncTestMerge

    return AsyncTestMerge(twopc_merge)
