"""``twopc any-client, resolver``: clients without a coordinator, and the process that finishes their transactions."""

from __future__ import annotations

import asyncio

import typer

from twopc.sim.cli.command import command
from twopc.sim.cli.connection_strings import parse_nodes
from twopc.sim.cli.place import (
    CoordinatorName,
    NamedNodes,
    Subscribers,
    TopologyPlace,
    say_running,
)

any_client = typer.Typer(
    help="Allow or forbid, per Subscriber, changes by clients without a coordinator.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


@any_client.command("on")
@command
def on(at: TopologyPlace, subscribers: Subscribers = None) -> None:
    """Allow changes by any client. Requires a running resolver: `twopc resolver`."""
    names = tuple(subscribers or ())
    at.run(lambda t: t.allow_any_client(*names, resolve=False))
    print("any client may change subscribed tables; let `twopc resolver` run")


@any_client.command("off")
@command
def off(at: TopologyPlace, subscribers: Subscribers = None) -> None:
    """Allow only transactions of a coordinator. Pending decisions are finished first."""
    names = tuple(subscribers or ())
    at.run(lambda t: t.forbid_any_client(*names))
    print("only coordinators' transactions may change subscribed tables")


def resolver(nodes: NamedNodes, coordinator: CoordinatorName = None) -> None:
    """Finish at the Publisher what clients have committed at Subscribers, until Ctrl-C or SIGTERM.

    Requires the Publisher, the distribution database and the Subscribers concerned, each with an
    administrator's connection string. Several can run at once.
    """
    from twopc.sim.agent_processes import resolve

    def running(subscribers: list[str]) -> None:
        say_running(f"resolver of {', '.join(subscribers)}")

    finished = asyncio.run(resolve(parse_nodes(nodes), coordinator=coordinator, running=running))
    print(f"{finished} branches finished at once")
