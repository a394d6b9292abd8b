"""Setting up, starting and stopping a topology that is left running.

Everything is in one folder: servers' directories, the state (`state`), and the processes' logs.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from twopc.errors import ConfigurationError, ScenarioError, ServerError
from twopc.names import is_node_name
from twopc.server.persistent import LastingServer
from twopc.sim.merge import MergeTopology
from twopc.sim.scenario import check
from twopc.sim.scenario.merge_setup import set_up_merge
from twopc.sim.scenario.postgres_setup import set_up
from twopc.sim.topology import Topology
from twopc.sim.topology.nodes import Node
from twopc.sim.up import parts
from twopc.sim.up.state import State, StateNode, load, locked, look

if TYPE_CHECKING:
    from twopc.sim.scenario.check import LoadedScenario
    from twopc.sim.scenario.model import Scenario

_DEMO = Path(__file__).with_name("demo.twopc.yaml")
_DEMO_MERGE = Path(__file__).with_name("demo_merge.twopc.yaml")
#: Default interval between two sessions of a merge agent.
_MERGE_EVERY_S = 10.0
#: The name of the distribution database among the nodes.
DISTRIBUTION = "distribution"

Say = Callable[[str], None]


def _discard(_: str) -> None:
    """Discard a message."""


def up(
    folder: Path,
    *,
    scenario: Path | None = None,
    subscribers: int | None = None,
    merge: bool = False,
    each: bool = False,
    metrics_port: int | None = None,
    archive_hours: float | None = None,
    merge_every_s: float | None = None,
    say: Say = _discard,
) -> State:
    """Start the topology of a folder; set it up first if the folder has none.

    Args:
        scenario: source of nodes, tables and rows; None: two accounts, at `subscribers` Subscribers.
        merge: without a scenario: two customers, with merge replication.
        each: a server for each node, instead of one for all.
        metrics_port: port of Prometheus metrics from now on; 0: none; None: unchanged.
        archive_hours: how long clean-up waits for an archive that is not appended to; None: unchanged.
        merge_every_s: with merge replication: interval between two sessions of an agent; None: unchanged.
        say: called with messages about progress.

    Raises:
        ConfigurationError: another topology was set up in the folder.
        ScenarioError: the scenario cannot be read.
        ServerError: a server or a process does not start.
    """
    folder = folder.absolute()
    source = str(scenario.absolute()) if scenario is not None else None
    if source is None and (subscribers is not None or merge):
        source = f"{'--merge ' * merge}--subscribers {subscribers or 2}"
    loaded = _loaded(scenario, subscribers, merge=merge) if source is not None else None
    with locked(folder):
        state = look(folder)
        if state is None:
            _clear(folder)  # left by an interrupted setup
            say("setting up: servers, tables, subscriptions")
            loaded = loaded or _loaded(None, None, merge=False)
            try:
                state = _make(folder, loaded, source or "--subscribers 2", each=each)
            except BaseException:
                _clear(folder)
                raise
        elif source is not None and source != state.source:
            raise ConfigurationError(
                f"{folder} holds the topology of {state.source}: `twopc down --remove` first, or another "
                "--state"
            )
        state = _adjusted(state, metrics_port, archive_hours, merge_every_s)
        processes = "merge agents" if state.merges else "log reader, agents, resolver, clean-up"
        say(f"starting: servers, {processes}")
        for name in state.servers:
            server_of(state, name).start()
        parts.start(state)
    return state


def _adjusted(
    state: State,
    metrics_port: int | None,
    archive_hours: float | None,
    merge_every_s: float | None,
) -> State:
    """Save new settings, and stop the processes that run with old ones.

    Raises:
        ConfigurationError: a setting of merge replication, for a topology without it.
    """
    if merge_every_s is not None and not state.merges:
        raise ConfigurationError(
            f"{state.folder} holds a topology that does not merge, so its agents have no interval: leave out --every"
        )
    port = state.metrics_port if metrics_port is None else metrics_port or None
    hours = state.archive_hours if archive_hours is None else archive_hours
    if port != state.metrics_port:
        parts.stop(state.folder, parts.METRICS)
    if hours != state.archive_hours:
        parts.stop(state.folder, parts.CLEAN_UP)
    every_s = state.merge_every_s if merge_every_s is None else merge_every_s
    if every_s != state.merge_every_s:
        parts.stop(state.folder, parts.MERGE_AGENT)
    changed = replace(state, metrics_port=port, archive_hours=hours, merge_every_s=every_s)
    if changed != state:
        changed.save()
    return changed


def down(folder: Path) -> State:
    """Stop processes and servers of a folder cleanly; all data is kept for the next `up`.

    Raises:
        ConfigurationError: no topology was set up in the folder.
    """
    folder = folder.absolute()
    state = load(folder)
    with locked(folder):
        parts.stop(folder)
        for name in state.servers:
            server_of(state, name).stop()
    return state


def remove(folder: Path) -> None:
    """Stop everything of a folder and remove the folder. No effect if it does not exist.

    Raises:
        ConfigurationError: it is not the folder of a topology.
    """
    folder = folder.absolute()
    if not folder.exists():
        return
    if not (folder / "lock").exists():
        raise ConfigurationError(f"{folder} is no folder of ours: there is no file `lock` in it")
    with locked(folder):
        _clear(folder)
    shutil.rmtree(folder)


def server_of(state: State, name: str) -> LastingServer:
    """Return one of the topology's servers."""
    return LastingServer.open(state.folder / "servers" / name)


def _clear(folder: Path) -> None:
    """Stop everything in a folder and remove its content, except the lock."""
    parts.stop(folder)
    servers = folder / "servers"
    if servers.is_dir():
        for directory in servers.iterdir():
            LastingServer(directory=directory, port=0, password="").remove()
        servers.rmdir()
    for path in folder.iterdir():
        if path.is_file() and path.name != "lock":
            path.unlink()


def _loaded(scenario: Path | None, subscribers: int | None, *, merge: bool) -> LoadedScenario:
    """Return the scenario to set up.

    Raises:
        ScenarioError: it cannot be read.
    """
    if scenario is not None:
        return check.load(scenario)
    names = ", ".join(f"sub{number}" for number in range(1, (subscribers or 2) + 1))
    if (subscribers or 2) < 1:
        raise ScenarioError("--subscribers: at least one")
    demo, title = (_DEMO_MERGE, "two customers") if merge else (_DEMO, "two accounts")
    return check.parse(demo.read_text(encoding="utf-8").replace("sub1, sub2", names), title)


def _make(folder: Path, loaded: LoadedScenario, source: str, *, each: bool) -> State:
    scenario = loaded.scenario
    nodes = (*scenario.topology.nodes, *(() if scenario.merges else (DISTRIBUTION,)))
    server_for = {
        name: (name if name != DISTRIBUTION else scenario.topology.publisher) if each else "all"
        for name in nodes
    }
    (folder / "servers").mkdir(mode=0o755)
    servers = {}
    for name in dict.fromkeys(server_for.values()):
        made = LastingServer.create(folder / "servers" / name, scenario.topology.settings)
        made.start()
        servers[name] = made
    for name in nodes:
        servers[server_for[name]].create_database(name)
    dsns = {name: servers[server_for[name]].dsn(name) for name in nodes}
    install = _install_merge if scenario.merges else _install
    name = _name(scenario.name)
    state = State(
        folder=folder,
        name=name,
        source=source,
        nodes={
            node.name: StateNode(
                kind=node.kind, server=server_for[node.name], dsn=node.dsn, app_dsn=node.app_dsn
            )
            for node in asyncio.run(install(name, scenario, dsns))
        },
        merge_every_s=_MERGE_EVERY_S if scenario.merges else None,
    )
    state.save()
    return state


async def _install(name: str, scenario: Scenario, dsns: Mapping[str, str]) -> list[Node]:
    """Set up a topology on the servers; return its nodes."""
    topology = Topology(
        publisher=scenario.topology.publisher,
        subscribers=scenario.topology.subscribers,
        dsns=dsns,
        name=name,
        keep=True,
        lock_timeout_ms=scenario.topology.timeouts.lock_ms,
    )
    async with topology:
        await set_up(topology, scenario)
        if await topology.any_client.updating():
            await topology.allow_any_client(resolve=False)
        return [*topology.nodes.values()]


async def _install_merge(name: str, scenario: Scenario, dsns: Mapping[str, str]) -> list[Node]:
    """Set up a topology of merge replication on the servers; return its nodes."""
    topology = MergeTopology(tree=scenario.topology.tree, dsns=dsns, name=name)
    async with topology:
        await set_up_merge(topology, scenario)
        return [*topology.nodes.values()]


def _name(scenario: str) -> str:
    """Return the topology's name, which is part of gids."""
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", scenario)[:40]
    if not is_node_name(name):
        raise ServerError(f"a topology cannot be called {scenario!r}")
    return name
