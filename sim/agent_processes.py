"""The log reader, an agent and the clean-up as processes of their own, given the nodes' connection strings.

The kind of each database and the slot's name are read from the databases. Independent of topologies: the roles of
the log reader and the agents have sufficient privileges.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg import AsyncConnection

from twopc.errors import ConfigurationError
from twopc.publisher.distribution import CleanUp, clean_up, keep_clean
from twopc.publisher.log_reader import LogReader, PassResult
from twopc.signals import stop_event
from twopc.sim.operate import attach
from twopc.sim.survey import connect
from twopc.sql import path
from twopc.subscriber.distribution_agent import Config, Profile

_KINDS = """
select to_regclass('msrepl.mspublisher_databases') is not null,
       to_regclass('msrepl.msreplication_subscriptions') is not null
"""
_PROFILE = """
select a.profile from msrepl.msdistribution_agents a
join msrepl.mspublisher_databases d on d.id = a.publisher_database_id
where (d.publisher, a.subscriber) = (%s, %s)
"""
Running = Callable[[], None]

_PUBLISHERS = "select publisher, slot from msrepl.mspublisher_databases order by 1"


def _ignore() -> None:
    """Ignore that the process is running, for callers that need no notification."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _NodeFacts:
    """The kinds of the given nodes."""

    distribution: str
    """Connection string of the distribution database."""
    slots: Mapping[str, str]
    """The slot of each Publisher that the distribution database records."""
    subscribers: tuple[str, ...]


async def _look(nodes: Mapping[str, str]) -> _NodeFacts:
    """Find the distribution database among the nodes, and read the Publishers that it records.

    Raises:
        ConfigurationError: a node cannot be reached, or none is a distribution database.
    """
    if not nodes:
        raise ConfigurationError("name the nodes: --node pub=DSN --node distribution=DSN ...")
    distribution, slots, subscribers = "", {}, []
    for name, dsn in nodes.items():
        try:
            connection: AsyncConnection[Any] = await connect(dsn)
        except psycopg.Error as error:
            raise ConfigurationError(f"node {name!r}: {error}") from None
        async with connection:
            row = await (await connection.execute(_KINDS)).fetchone()
            assert row is not None
            if row[0]:
                distribution = dsn
                cursor = await connection.execute(_PUBLISHERS)
                slots = dict(await cursor.fetchall())
            if row[1]:
                subscribers.append(name)
    if not distribution:
        raise ConfigurationError(
            f"none of {', '.join(nodes)} holds a distribution database: add --node distribution=DSN"
        )
    return _NodeFacts(distribution=distribution, slots=slots, subscribers=tuple(subscribers))


async def read_log(
    nodes: Mapping[str, str], *, once: bool = False, running: Running = _ignore
) -> PassResult | None:
    """Run a Publisher's log reader until SIGINT or SIGTERM.

    Args:
        nodes: the Publisher and the distribution database, by their names; they may be one database.
        once: store what is in the log, and end.
        running: called once signals stop the log reader cleanly.

    Returns:
        What was stored, if `once`.

    Raises:
        ConfigurationError: none of the nodes is a Publisher that the distribution database records; the slot does
            not exist, or is read by another process.
    """
    result = await _look(nodes)
    publishers = [name for name in nodes if name in result.slots]
    if len(publishers) != 1:
        known = ", ".join(result.slots) or "none: `twopc subscribe` first"
        raise ConfigurationError(
            f"{len(publishers)} of {', '.join(nodes)} are Publishers of this distribution database; it "
            f"must be one; it knows {known}"
        )
    reader = LogReader(
        publisher=publishers[0],
        publisher_dsn=nodes[publishers[0]],
        distribution_dsn=result.distribution,
        slot=result.slots[publishers[0]],
    )
    try:
        if once:
            return await reader.run_once()
        await reader.run(stopped_by_signals(running))
        return None
    finally:
        await reader.close()


async def remove_delivered(
    nodes: Mapping[str, str],
    *,
    every_s: float,
    once: bool = False,
    running: Running = _ignore,
    **retention: Any,
) -> CleanUp | None:
    """Clean up a distribution database until SIGINT or SIGTERM.

    Args:
        nodes: the distribution database, with an administrator's connection string.
        once: clean up now, and end.
        running: called once signals stop the clean-up cleanly.
        retention: see `twopc.publisher.distribution.clean_up`.

    Returns:
        What was removed, if `once`.

    Raises:
        ConfigurationError: none of the nodes is a distribution database.
    """
    result = await _look(nodes)
    if not once:
        stop = stopped_by_signals(running)
        await keep_clean(result.distribution, stop, every_s=every_s, **retention)
        return None
    async with await AsyncConnection.connect(
        result.distribution, autocommit=True, options=path.options(result.distribution)
    ) as connection:
        return await clean_up(connection, **retention)


async def resolve(
    nodes: Mapping[str, str],
    *,
    coordinator: str | None = None,
    newcomers: Collection[str] = (),
    running: Callable[[list[str]], None],
) -> int:
    """Run the resolvers of the Subscribers where any client may write, until SIGINT or SIGTERM.

    Args:
        nodes: Publisher, distribution database and Subscribers.
        coordinator: the topology's name, if the decision log contains several.
        newcomers: nodes that may not subscribe yet.
        running: called with those Subscribers once signals stop the resolvers cleanly.

    Returns:
        Number of branches that were finished because a Subscriber notified its resolver.

    Raises:
        ConfigurationError: a node cannot be reached, or there is no node at which any client may write.
    """
    async with await attach(nodes, coordinator=coordinator, newcomers=newcomers) as topology:
        await topology.any_client.start()
        if not topology.any_client.resolvers:
            raise ConfigurationError(
                f"at none of {', '.join(nodes)} any client may write: `twopc any-client on` first"
            )
        stop = stopped_by_signals(lambda: running([*topology.any_client.resolvers]))
        await stop.wait()
        return sum(resolver.finished for resolver in topology.any_client.resolvers.values())


def stopped_by_signals(running: Running) -> asyncio.Event:
    """Return an event that SIGINT and SIGTERM set; call `running` once the handlers are installed."""
    stop = stop_event()
    running()
    return stop


async def agent_config(
    nodes: Mapping[str, str],
    subscriber: str,
    *,
    publisher: str | None,
    settings: Mapping[str, Any] | None = None,
    once: bool,
) -> Config:
    """Return the configuration of a Subscriber's agent; see `twopc.subscriber.distribution_agent.main`.

    Args:
        nodes: the Subscriber and the distribution database.
        settings: fields of the agent's profile that override those stored with the subscription.
        publisher: None: the only one that the distribution database records.

    Raises:
        ConfigurationError: the Subscriber is not among the nodes, or does not subscribe; or there are several
            Publishers to choose from, or none.
    """
    result = await _look(nodes)
    if subscriber not in nodes:
        raise ConfigurationError(f"say where {subscriber!r} is: --node {subscriber}=DSN")
    if subscriber not in result.subscribers:
        raise ConfigurationError(
            f"node {subscriber!r}: nothing is distributed to this database: `twopc subscribe {subscriber}` first"
        )
    if publisher is None and len(result.slots) != 1:
        raise ConfigurationError(
            "the distribution database knows several Publishers: say --publisher "
            f"{' or '.join(result.slots)}"
            if result.slots
            else "the distribution database knows no Publisher: `twopc subscribe` first"
        )
    name = publisher or next(iter(result.slots))
    return Config(
        subscriber=subscriber,
        publisher=name,
        distribution_dsn=result.distribution,
        subscriber_dsn=nodes[subscriber],
        profile=await _profile(result.distribution, name, subscriber, settings)
        if settings
        else None,
        once=once,
    )


async def _profile(
    distribution: str, publisher: str, subscriber: str, settings: Mapping[str, Any]
) -> Profile:
    async with await AsyncConnection.connect(
        distribution, autocommit=True, options=path.options(distribution)
    ) as connection:
        cursor = await connection.execute(_PROFILE, (publisher, subscriber))
        row = await cursor.fetchone()
    return replace(Profile.from_json(row[0] if row else {}), **settings)
