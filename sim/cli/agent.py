"""``twopc agent``: log reader, distribution agents and clean-up, each as a process of its own."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from functools import partial
from typing import Annotated

import typer

from sim.cli.operate import Nodes, parse_nodes

agent = typer.Typer(
    help="Run the log reader, a Subscriber's distribution agent, or clean-up until Ctrl-C or SIGTERM.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Once = Annotated[bool, typer.Option("--once", help="Do what there is to do now, and end.")]


def _say(who: str) -> None:
    """Tell the terminal, or whoever started us, that from now on a signal ends it in order."""
    print(f"{who}: runs until Ctrl-C or SIGTERM", file=sys.stderr, flush=True)


@agent.command("log-reader")
def log_reader(nodes: Nodes, once: Once = False) -> None:
    """Read the Publisher's log into the distribution database.

    Needs two nodes (or one, if they share a database): the Publisher under its name, and the distribution
    database. A role with REPLICATION that may store is enough.
    """
    from sim.standing import read_log

    running = partial(_say, "log reader")
    read = asyncio.run(read_log(parse_nodes(nodes), once=once, running=running))
    if read is not None:
        print(f"{read.transactions} transactions, {read.commands} commands, up to {read.position}")


@agent.command("clean-up")
def clean_up(
    nodes: Nodes,
    every_s: Annotated[float, typer.Option(help="Seconds from one clean-up to the next.")] = 600,
    min_hours: Annotated[
        float, typer.Option(help="Younger transactions stay, delivered or not.")
    ] = 0,
    max_hours: Annotated[
        float,
        typer.Option(help="A subscription for which something older waits is deactivated (21074)."),
    ] = 72,
    history_hours: Annotated[float, typer.Option(help="How long history is kept.")] = 48,
    once: Once = False,
) -> None:
    """Remove from the distribution database what every Subscriber has got.

    Needs one node, the distribution database, as its administrator.
    """
    from sim.standing import remove_delivered

    done = asyncio.run(
        remove_delivered(
            parse_nodes(nodes),
            every_s=every_s,
            once=once,
            running=partial(_say, "clean-up"),
            min_retention=timedelta(hours=min_hours),
            max_retention=timedelta(hours=max_hours),
            history_retention=timedelta(hours=history_hours),
        )
    )
    if done is not None:
        print(done)
        for subscriber in done.deactivated:
            print(f"subscription of {subscriber} deactivated (21074): reinitialise it")


@agent.command("distribution")
def distribution(
    subscriber: Annotated[str, typer.Argument(help="Name of the Subscriber.")],
    nodes: Nodes,
    publisher: Annotated[
        str | None, typer.Option(help="Whose changes, if there are several Publishers.")
    ] = None,
    batch: Annotated[int, typer.Option(help="CommitBatchSize: transactions to a commit.")] = 100,
    threshold: Annotated[
        int, typer.Option(help="CommitBatchThreshold: commands to a commit.")
    ] = 1000,
    streams: Annotated[int, typer.Option(help="SubscriptionStreams: connections, 1 to 64.")] = 1,
    skip_errors: Annotated[
        str,
        typer.Option(metavar="20598:2627:…", help="SkipErrors: errors that drop a transaction."),
    ] = "",
    polling_ms: Annotated[
        int, typer.Option(help="PollingInterval, in milliseconds; news wakes it earlier.")
    ] = 5000,
    once: Once = False,
) -> None:
    """Bring to a Subscriber what is in the distribution database.

    Needs two nodes, the Subscriber under its name and the distribution database; it may run beside either.
    """
    from sim.standing import agent_config
    from subscriber.distribution_agent import Profile, main

    profile = Profile(
        commit_batch_size=batch,
        commit_batch_threshold=threshold,
        subscription_streams=streams,
        skip_errors=tuple(error for error in skip_errors.split(":") if error),
        polling_interval_ms=polling_ms,
    )
    config = asyncio.run(
        agent_config(
            parse_nodes(nodes), subscriber, publisher=publisher, profile=profile, once=once
        )
    )
    done = main(config, running=partial(_say, f"agent of {subscriber}"))
    skipped = f", {done.skipped} left out" if done.skipped else ""
    print(
        f"{done.transactions} transactions, {done.commands} commands in {done.batches} commits{skipped}, "
        f"up to {done.position}"
    )
