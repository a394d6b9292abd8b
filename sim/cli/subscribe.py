"""``twopc subscribe, unsubscribe, refresh, reinitialise``: subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from twopc.sim.cli.agent import Batch, Polling, SkipErrors, Streams, Threshold, profile_of
from twopc.sim.cli.command import command
from twopc.sim.cli.place import (
    CoordinatorName,
    Filters,
    Folder,
    Nodes,
    Scripts,
    Subscribers,
    TopologyPlace,
    pairs,
    tell_left_out,
    texts_by_table,
)

if TYPE_CHECKING:
    from twopc.sim.topology import Topology

Subscriber = Annotated[
    str, typer.Argument(metavar="SUBSCRIBER", help="Name of the Subscriber among the nodes.")
]


def subscribe(
    subscriber: Subscriber,
    nodes: Nodes = None,
    read_only: Annotated[
        bool,
        typer.Option(
            "--read-only", help="Only agents change the Subscriber's tables, not its applications."
        ),
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
    """Create a Subscriber's subscription to everything that is published (sp_addsubscription, sp_link_publication).

    Creates tables, rows, link and triggers while the other nodes continue. The options of its agent are
    stored with the subscription.
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

    TopologyPlace(nodes=nodes, coordinator=coordinator, folder=folder).run(work, blank=True)
    further = "twopc up; its clients: twopc any-client on"
    if nodes:
        further = "twopc agent distribution, or twopc sync"
    print(f"{subscriber}: subscribes{', read only' if read_only else ''}; its agent: {further}")


@command
def unsubscribe(subscriber: Subscriber, at: TopologyPlace) -> None:
    """Drop a subscription at both ends; the rows stay (sp_dropsubscription)."""
    at.run(lambda t: t.unsubscribe(subscriber), blank=True)
    print(f"{subscriber}: does not subscribe any more")


@command
def reinitialise(subscriber: Subscriber, at: TopologyPlace) -> None:
    """Copy all rows to a Subscriber again, while the other nodes continue (sp_reinitsubscription)."""
    at.run(lambda t: t.reinitialise(subscriber), blank=True)
    print(f"{subscriber}: has every row anew; twopc sync, or its agent, goes on from there")


@command
def refresh(at: TopologyPlace, subscribers: Subscribers = None) -> None:
    """Add articles that were published later to subscriptions (sp_refreshsubscriptions)."""
    names = tuple(subscribers or ())

    async def work(topology: Topology) -> tuple[dict[str, list[str]], list[str]]:
        done = await topology.refresh_subscriptions(*names)
        return done, [] if names else await topology.registration.left_out()

    done, left_out = at.run(work, blank=True)
    for name, got in done.items():
        print(f"{name}: {', '.join(got) or 'has everything'}")
    tell_left_out(left_out)
    if not done and not left_out:
        print("no subscription: twopc subscribe SUBSCRIBER")
