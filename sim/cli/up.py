"""``twopc up, down``: start and stop a topology that stays."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from twopc.sim.up import State
    from twopc.sim.up.watch import IdleProcesses

#: Maximum retention: ten years. A date that long ago is valid, and no archive waits longer.
MAX_HOURS = 87_600

Folder = Annotated[
    Path | None,
    typer.Option(
        "--state",
        help="The topology's folder. Default: a folder in the user's cache.",
        metavar="DIR",
    ),
]


def folder_of(folder: Path | None) -> Path:
    """Return the given folder, else the default one."""
    from twopc.sim.up import default_folder

    return folder or default_folder()


_Metrics = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        metavar="PORT",
        help="Serve Prometheus metrics on this port of 127.0.0.1 from now on; 0: stop.",
    ),
]
_ArchiveHours = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=MAX_HOURS,
        help="Hours that clean-up waits for an archive that is not appended to, from now on. Default: 72.",
    ),
]

_Every = Annotated[
    float | None,
    typer.Option(
        "--every",
        min=0.1,
        help="Seconds between two sessions of a merge agent, from now on. Default: 10.",
    ),
]


def up(
    scenario: Annotated[
        Path | None,
        typer.Argument(
            help="Scenario file that gives nodes, tables and rows. Default: the existing topology, or else two accounts."
        ),
    ] = None,
    subscribers: Annotated[
        int | None,
        typer.Option(
            "--subscribers",
            "-s",
            min=1,
            max=9,
            help="Number of Subscribers, with a table of two accounts.",
        ),
    ] = None,
    merge: Annotated[
        bool,
        typer.Option("--merge", help="Merge replication, with a table of two customers."),
    ] = False,
    each: Annotated[
        bool, typer.Option("--each", help="Start one server for each node instead of one for all.")
    ] = False,
    nodes: Annotated[
        bool,
        typer.Option(
            "--nodes",
            help="Print only the --node options for other commands; they refer to a password file.",
        ),
    ] = False,
    metrics: _Metrics = None,
    archive_hours: _ArchiveHours = None,
    merge_every_s: _Every = None,
    folder: Folder = None,
) -> None:
    """Start a topology that stays: servers, agents and a resolver. Any client may write at every Subscriber.
    If the scenario's nodes merge: servers and merge agents.

    If the topology exists, whatever of it does not run is started: after `twopc down`, a crash, or a restart
    of the machine.
    """
    from twopc.sim.up import load
    from twopc.sim.up import up as bring_up

    if scenario is not None and (subscribers is not None or merge):
        other = "--merge" if merge else "--subscribers"
        raise typer.BadParameter(f"name a scenario or {other}, not both")
    place = folder_of(folder)
    if nodes:
        print(node_options(load(place)))
        return

    def say(what: str) -> None:
        print(what, file=sys.stderr, flush=True)

    show(
        bring_up(
            place,
            scenario=scenario,
            subscribers=subscribers,
            merge=merge,
            each=each,
            metrics_port=metrics,
            archive_hours=archive_hours,
            merge_every_s=merge_every_s,
            say=say,
        )
    )


def node_options(state: State) -> str:
    """Return the ``--node`` options for other commands, without passwords."""
    words = (f"{name}={dsn}" for name, dsn in state.dsns_without_password().items())
    return " ".join(f"--node {shlex.quote(word)}" for word in words)


def idle_processes(folder: Path | None) -> IdleProcesses:
    """Return the servers and processes of a folder that should run but do not, or are suspended."""
    from twopc.sim.up import load
    from twopc.sim.up.watch import idle

    return asyncio.run(idle(load(folder_of(folder))))


def tell_idle(idle: IdleProcesses) -> None:
    """Print idle processes, with the remedies."""
    if idle.missing:
        print(f"not running: {', '.join(idle.missing)}; `twopc up` starts them")
    for each in idle.stopped:
        print(f"stopped: {each}")


def show(state: State) -> None:
    """Print the nodes, how to connect to them, and the running processes."""
    from twopc.sim.up.parts import running

    option = option_of(state)
    print(f"{state.name}: of {state.source}, in {state.folder}")
    about = {"publisher": "Publisher ", "subscriber": "Subscriber"}
    width = max(len(name) for name, node in state.nodes.items() if node.kind in about)
    for name, node in state.nodes.items():
        if node.kind in about:
            print(f"  {name:{width}}  {about[node.kind]}  psql '{uri(node.app_dsn)}'")
    print(f"running: {', '.join(str(part) for part in sorted(running(state.folder)))}")
    if state.metrics_port:
        print(f"metrics: http://127.0.0.1:{state.metrics_port}/metrics")
    further = f"twopc merge conflicts{option}" if state.merges else "twopc tour"
    print(f"next: twopc watch{option} | {further} | twopc down{option}")


def option_of(state: State) -> str:
    """Return the option by which other commands find the topology; empty for the default folder."""
    from twopc.sim.up import default_folder

    is_usual = state.folder == default_folder()
    return "" if is_usual else f" --state {shlex.quote(str(state.folder))}"


def uri(dsn: str) -> str:
    """Return a connection string as a URI, which every client accepts."""
    from urllib.parse import quote

    from psycopg import conninfo

    parts = conninfo.conninfo_to_dict(dsn)
    user, password = quote(str(parts["user"])), quote(str(parts["password"]), safe="")
    return f"postgresql://{user}:{password}@{parts['host']}:{parts['port']}/{quote(str(parts['dbname']))}"


def down(
    folder: Folder = None,
    gone: Annotated[
        bool,
        typer.Option(
            "--remove", help="Delete it as well; otherwise the next `twopc up` continues with it."
        ),
    ] = False,
) -> None:
    """Stop the topology that `twopc up` started."""
    from twopc.sim.up import down as take_down
    from twopc.sim.up import remove

    place = folder_of(folder)
    if gone:
        remove(place)
        print(f"{place}: ended and removed")
        return
    state = take_down(place)
    print(f"{state.name}: ended; `twopc up{option_of(state)}` goes on with it")
