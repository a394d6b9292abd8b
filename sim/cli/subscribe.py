"""``twopc subscribe, unsubscribe, refresh, reinitialise``: who gets what is published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from twopc.sim.cli.agent import Batch, Polling, SkipErrors, Streams, Threshold, profile_of
from twopc.sim.cli.place import (
    CoordinatorName,
    Filters,
    Folder,
    Nodes,
    Scripts,
    pairs,
    tell_left_out,
    texts_by_table,
    with_topology,
)

if TYPE_CHECKING:
    from twopc.sim.topology import Topology

Subscriber = Annotated[str, typer.Argument(metavar="SUBSCRIBER", help="Its name among the nodes.")]


def subscribe(
    subscriber: Subscriber,
    nodes: Nodes = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Agents alone change it, not its applications.")
    ] = False,
    sync: Annotated[
        str,
        typer.Option(
            metavar="TYPE",
            help="automatic; 'replication support only': the rows are there; none: the triggers' script too.",
        ),
    ] = "automatic",
    filters: Filters = None,
    scripts: Scripts = None,
    batch: Batch = None,
    threshold: Threshold = None,
    streams: Streams = None,
    skip_errors: SkipErrors = None,
    polling_ms: Polling = None,
    coordinator: CoordinatorName = None,
    folder: Folder = None,
) -> None:
    """Give a Subscriber everything that is published (sp_addsubscription, sp_link_publication).

    Tables, rows, link and triggers; others go on meanwhile. The options of its agent are kept with the
    subscription.
    """
    from twopc.subscriber.distribution_agent import Profile

    files = texts_by_table(scripts)
    conditions = pairs(filters, "--filter")
    profile = Profile(**profile_of(batch, threshold, streams, skip_errors, polling_ms))

    async def work(topology: Topology) -> None:
        await topology.subscribe(
            subscriber,
            sync=sync,  # type: ignore[arg-type]
            update_mode="read only" if read_only else "sync tran",
            filters=conditions,
            profile=profile,
            scripts=files,
        )

    with_topology(nodes, coordinator, work, folder=folder, blank=True)
    print(f"{subscriber}: subscribes{', read only' if read_only else ''}; {_next(nodes)}")


def _next(nodes: list[str] | None) -> str:
    return (
        "its agent: twopc agent distribution, or twopc sync"
        if nodes
        else "its agent: twopc up; its clients: twopc any-client on"
    )


def unsubscribe(
    subscriber: Subscriber,
    nodes: Nodes = None,
    coordinator: CoordinatorName = None,
    folder: Folder = None,
) -> None:
    """Take a subscription away at both ends; the rows stay (sp_dropsubscription)."""
    with_topology(
        nodes,
        coordinator,
        lambda t: t.unsubscribe(subscriber),
        folder=folder,
        blank=True,
    )
    print(f"{subscriber}: does not subscribe any more")


def reinitialise(
    subscriber: Subscriber,
    nodes: Nodes = None,
    coordinator: CoordinatorName = None,
    folder: Folder = None,
) -> None:
    """Copy every row to a Subscriber anew, while others go on (sp_reinitsubscription)."""
    with_topology(
        nodes, coordinator, lambda t: t.reinitialise(subscriber), folder=folder, blank=True
    )
    print(f"{subscriber}: has every row anew; twopc sync, or its agent, goes on from there")


def refresh(
    nodes: Nodes = None,
    subscribers: Annotated[
        list[str] | None, typer.Argument(metavar="[SUBSCRIBER]...", help="None: all.")
    ] = None,
    coordinator: CoordinatorName = None,
    folder: Folder = None,
) -> None:
    """Give Subscribers what was published after they subscribed (sp_refreshsubscriptions)."""
    names = tuple(subscribers or ())

    async def work(topology: Topology) -> tuple[dict[str, list[str]], list[str]]:
        done = await topology.refresh_subscriptions(*names)
        return done, [] if names else await topology.registration.left_out()

    done, left_out = with_topology(nodes, coordinator, work, folder=folder, blank=True)
    for name, got in done.items():
        print(f"{name}: {', '.join(got) or 'has everything'}")
    tell_left_out(left_out)
    if not done and not left_out:
        print("nobody subscribes: twopc subscribe SUBSCRIBER")
