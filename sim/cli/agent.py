"""``twopc agent``: log reader, distribution agents and clean-up, each as a separate process."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial
from typing import Annotated, Any

import typer

from twopc.sim.cli.connection_strings import parse_nodes
from twopc.sim.cli.place import NamedNodes, SubscriberName, say_running
from twopc.sim.cli.up import MAX_HOURS

agent = typer.Typer(
    help="Run the log reader, a Subscriber's distribution agent, or clean-up until Ctrl-C or SIGTERM.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Batch = Annotated[
    int | None,
    typer.Option("--batch", help="CommitBatchSize: transactions per commit. Default: 100."),
]
Threshold = Annotated[
    int | None,
    typer.Option("--threshold", help="CommitBatchThreshold: commands per commit. Default: 1000."),
]
Streams = Annotated[
    int | None,
    typer.Option("--streams", help="SubscriptionStreams: connections, 1 to 64. Default: 1."),
]
SkipErrors = Annotated[
    str | None,
    typer.Option(
        "--skip-errors",
        metavar="20598:2627:…",
        help="SkipErrors: errors whose transactions are skipped. Default: none.",
    ),
]
Polling = Annotated[
    int | None,
    typer.Option(
        "--polling-ms",
        help="PollingInterval in milliseconds; a notification wakes the agent earlier. Default: 5000.",
    ),
]
Once = Annotated[bool, typer.Option("--once", help="Process what is pending and exit.")]


def profile_of(
    batch: int | None,
    threshold: int | None,
    streams: int | None,
    skip_errors: str | None,
    polling_ms: int | None,
) -> dict[str, Any]:
    """Return the fields of an agent's profile that are given."""
    lines = {
        "commit_batch_size": batch,
        "commit_batch_threshold": threshold,
        "subscription_streams": streams,
        "skip_errors": None
        if skip_errors is None
        else tuple(error for error in skip_errors.split(":") if error),
        "polling_interval_ms": polling_ms,
    }
    return {name: value for name, value in lines.items() if value is not None}


@agent.command("log-reader")
def log_reader(nodes: NamedNodes, once: Once = False) -> None:
    """Read the Publisher's log into the distribution database.

    Requires two nodes, or one if they share a database: the Publisher under its name, and the distribution
    database. A role with REPLICATION and the privileges of the log reader is sufficient.
    """
    from twopc.sim.agent_processes import read_log

    running = partial(say_running, "log reader")
    read = asyncio.run(read_log(parse_nodes(nodes), once=once, running=running))
    if read is not None:
        print(f"{read.transactions} transactions, {read.commands} commands, up to {read.position}")


@agent.command("clean-up")
def clean_up(
    nodes: NamedNodes,
    every_s: Annotated[float, typer.Option(help="Interval in seconds.")] = 600,
    min_hours: Annotated[
        float,
        typer.Option(min=0, max=MAX_HOURS, help="Minimum retention of transactions in hours."),
    ] = 0,
    max_hours: Annotated[
        float,
        typer.Option(
            min=0,
            max=MAX_HOURS,
            help="Maximum retention in hours: a subscription with older pending transactions is deactivated (21074).",
        ),
    ] = 72,
    history_hours: Annotated[
        float, typer.Option(min=0, max=MAX_HOURS, help="Retention of history in hours.")
    ] = 48,
    archive_hours: Annotated[
        float,
        typer.Option(
            min=0,
            max=MAX_HOURS,
            help="Hours that clean-up waits for an archive that is not appended to.",
        ),
    ] = 72,
    once: Once = False,
) -> None:
    """Remove from the distribution database what every Subscriber has received.

    Requires one node, the distribution database, as administrator.
    """
    from twopc.sim.agent_processes import remove_delivered

    done = asyncio.run(
        remove_delivered(
            parse_nodes(nodes),
            every_s=every_s,
            once=once,
            running=partial(say_running, "clean-up"),
            min_retention=timedelta(hours=min_hours),
            max_retention=timedelta(hours=max_hours),
            history_retention=timedelta(hours=history_hours),
            archive_retention=timedelta(hours=archive_hours),
        )
    )
    if done is not None:
        print(done)
        for subscriber in done.deactivated:
            print(
                f"subscription of {subscriber} deactivated (21074): twopc reinitialise {subscriber}"
            )
        for folder in done.abandoned:
            print(f"archive {folder} is not waited for any longer")


@agent.command("distribution")
def distribution(
    subscriber: SubscriberName,
    nodes: NamedNodes,
    publisher: Annotated[
        str | None, typer.Option(help="The Publisher, if there are several.")
    ] = None,
    batch: Batch = None,
    threshold: Threshold = None,
    streams: Streams = None,
    skip_errors: SkipErrors = None,
    polling_ms: Polling = None,
    once: Once = False,
) -> None:
    """Deliver to a Subscriber from the distribution database.

    Requires two nodes, the Subscriber under its name and the distribution database. Options that are not
    given are those stored with the subscription.
    """
    from twopc.sim.agent_processes import agent_config
    from twopc.subscriber.distribution_agent import main

    config = asyncio.run(
        agent_config(
            parse_nodes(nodes),
            subscriber,
            publisher=publisher,
            settings=profile_of(batch, threshold, streams, skip_errors, polling_ms),
            once=once,
        )
    )
    done = main(config, running=partial(say_running, f"agent of {subscriber}"))
    skipped = f", {done.skipped} left out" if done.skipped else ""
    print(
        f"{done.transactions} transactions, {done.commands} commands in {done.batches} commits{skipped}, "
        f"up to {done.position}"
    )
