"""The fixtures. Their imports are made when a test requests one of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from twopc.errors import TwopcError
from twopc.sim.pytest_plugin import config
from twopc.sim.pytest_plugin.marks import options_of, wrong
from twopc.sim.pytest_plugin.sections import TOPOLOGIES

if TYPE_CHECKING:
    from twopc.sim.pytest_plugin.scenario_play import FileOutcome, FilePlayer
    from twopc.sim.testing.asynchronous import AsyncTestTopology
    from twopc.sim.testing.bench import Bench, Reset, TopologyRequest
    from twopc.sim.testing.blocking_bench import TestTopology
    from twopc.sim.testing.merge_doubles import AsyncTestMerge, TestMerge


@pytest.fixture(scope="session")
def twopc_server(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The server: the one that ``--twopc-pg`` names, otherwise one started for this process.

    Override it to use another one: return `twopc.sim.testing.Server(dsn=…)`, a DSN, the process of
    pytest-postgresql or a container of testcontainers.
    """
    from twopc.errors import ServerError
    from twopc.server.choice import choose

    try:
        server = choose(config.settings_of(request.config).pg)
    except ServerError as error:
        raise wrong(f"no PostgreSQL server: {error}") from None
    yield server
    server.stop()


@pytest.fixture(scope="session")
def twopc_template() -> Sequence[Any]:
    """The content of every topology: override it to return a list of files (`Path`), SQL, functions that are passed
    the topology, or ``module:function``. Tables with a primary key are published and subscribed.
    """
    return ()


@pytest.fixture(scope="session")
def twopc_bench(request: pytest.FixtureRequest, twopc_server: Any) -> Iterator[Bench]:
    """The state that all tests of this process share: an event loop, and topologies ready for use."""
    from twopc.sim.testing.bench import Bench

    bench = Bench(
        lambda: twopc_server,
        worker=os.environ.get("PYTEST_XDIST_WORKER", "main"),
        timeout_s=config.timeout_s(request.config),
    )
    yield bench
    bench.close()
    request.config.stash.setdefault(LEFT_OPEN, []).extend(bench.left_open)


@pytest.fixture(scope="session")
def twopc_player(request: pytest.FixtureRequest) -> Iterator[FilePlayer]:
    """The player of scenario files for this process: on the server of all tests, or in the model, without a server."""
    from twopc.sim.pytest_plugin.scenario_play import FilePlayer

    on = config.stage(request.config)
    bench = request.getfixturevalue("twopc_bench") if on == "postgres" else None
    player = FilePlayer(bench, on=on)
    yield player
    player.close()


@pytest.fixture
def twopc_run(request: pytest.FixtureRequest, twopc_player: FilePlayer) -> FileOutcome:
    """Outcome of the scenario file of ``@pytest.mark.twopc_scenario(file, orders="")``.

    The file is searched for in the test's folder first. An order that does not meet its expectations fails the test
    at once; otherwise `history` and `verdicts` can be examined.
    """
    from twopc.sim.pytest_plugin.collect import selection, shown
    from twopc.sim.scenario.check import load

    mark = request.node.get_closest_marker("twopc_scenario")
    if mark is None:
        raise wrong("twopc_run needs @pytest.mark.twopc_scenario('file.twopc.yaml')")
    file, orders = _arguments(*mark.args, **mark.kwargs)
    path = request.path.parent / file
    try:
        loaded = load(shown(path if path.exists() else Path(file)))
        outcome = twopc_player.play(loaded, selection(request.config, orders))
    except TwopcError as error:
        raise wrong(str(error)) from None
    if outcome.is_wrong:
        raise wrong(outcome.text())
    if outcome.skipped:
        pytest.skip(outcome.skipped)
    return outcome


def _arguments(file: str, orders: str = "") -> tuple[str, str]:
    """Return the arguments of the mark ``twopc_scenario``."""
    return file, orders


@pytest.fixture
def twopc_factory(
    request: pytest.FixtureRequest, twopc_bench: Bench, twopc_template: Any, twopc_repetition: int
) -> Iterator[Callable[..., TestTopology]]:
    """Creates topologies for this test: ``twopc_factory(subscribers=3, load=[…], isolation="serializable")``.

    Options are those of the mark; an option that is left out is taken from the mark, or has its default.
    """
    made: list[tuple[TestTopology, TopologyRequest, Reset]] = []

    def make(**options: Any) -> TestTopology:
        asked = options_of(request.node.iter_markers("twopc"), options)
        topology, needed = open_topology(request, twopc_bench, twopc_template, asked)
        made.append((topology, needed, asked.reset))
        return topology

    yield make
    for topology, requested, reset in reversed(made):
        give_back(request.node, twopc_bench, topology, requested, reset)


def open_topology(
    request: pytest.FixtureRequest, bench: Bench, template: Any, asked: Any, *, group: str = ""
) -> tuple[TestTopology, TopologyRequest]:
    """Return a topology for the test, or the scope, of a request; requests of one `group` share databases."""
    from twopc.sim.testing.blocking_bench import TestTopology

    requested = asked.request(template, group, any_client=config.any_client(request.config))
    settings = config.settings_of(request.config)
    try:
        bed = bench.open(requested, request.node.name)
    except TwopcError as error:
        raise wrong(str(error)) from None
    topology = TestTopology(
        bench,
        bed,
        isolation=asked.isolation,
        seed=(settings.seed or 0) if asked.seed is None else asked.seed,
    )
    topology.orders = config.one_order(request.config) or settings.orders
    request.node.stash.setdefault(TOPOLOGIES, []).append(topology)
    try:
        for fault in asked.faults:
            topology.fault(**fault)
    except (TwopcError, TypeError) as error:
        bench.close_bed(bed, requested, asked.reset)
        raise wrong(f"faults: {error}") from None
    return topology, requested


def give_back(
    node: Any, bench: Bench, topology: TestTopology, requested: TopologyRequest, reset: Reset
) -> None:
    """End a test's sessions, and give its topology back.

    Transactions that the test has left prepared have failed it already; those found only now are an error here.
    """
    keep = config.keeps(node.config, failed=node.stash.get(FAILED, False))
    # an embedded server has none, since it ends with the tests
    place = getattr(bench.server, "where", "")
    if keep and not place:
        bench.close_bed(topology.bed, requested, reset)
        raise wrong(
            "--twopc-keep needs a server that stays: the one that was started for these tests ends with them. "
            "Name one with --twopc-pg URL"
        )
    if keep:
        nodes = topology.bed.topology.nodes.items()
        kept = [(node.name, name, f"{place}/{each.database}") for name, each in nodes]
        node.config.stash.setdefault(KEPT, []).extend(kept)
    left = bench.close_bed(topology.bed, requested, reset, keep=keep)
    if left:
        raise wrong(left_behind(left))


#: Whether a test has failed.
FAILED = pytest.StashKey[bool]()
#: Tests, each with the transaction that it has left open.
LEFT_OPEN = pytest.StashKey["list[tuple[str, str]]"]()
#: Test, node and place of each database that was kept for inspection.
KEPT = pytest.StashKey["list[tuple[str, str, str]]"]()


def left_behind(left: Sequence[str]) -> str:
    """Return the message for a test that has left prepared transactions."""
    listed = "\n  ".join(left)
    return (
        f"the test left prepared transactions, which are rolled back now:\n  {listed}\n"
        "A branch that is prepared holds its locks, and keeps its database from being dropped: commit it or "
        "roll it back, or wait with twopc.settle()"
    )


def not_reached(armed: Sequence[str]) -> str:
    """Return the message for a test whose faults have not struck, or had no effect."""
    listed = "\n  ".join(armed)
    return (
        f"a fault was not reached, or had nothing to act on, so the test has not tried it:\n  {listed}\n"
        "Name a point that its transactions come to, and where it can act, or allow it: required=False"
    )


@pytest.fixture
def twopc(twopc_factory: Callable[..., TestTopology]) -> TestTopology:
    """A Publisher and two Subscribers on real PostgreSQL, set up for this test alone.

    ``@pytest.mark.twopc(subscribers=3, …)`` changes the properties of the topology.
    """
    return twopc_factory()


@pytest.fixture
def twopc_async(twopc_factory: Callable[..., TestTopology]) -> AsyncTestTopology:
    """The topology of `twopc` in awaitable form, for tests with any event loop."""
    from twopc.sim.testing.asynchronous import AsyncTestTopology

    return AsyncTestTopology(twopc_factory())


@pytest.fixture
def twopc_repetition(request: pytest.FixtureRequest) -> int:
    """Number of the test's repetition, with ``--twopc-repeat``."""
    return int(getattr(request, "param", 0))


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
