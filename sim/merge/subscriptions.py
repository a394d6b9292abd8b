"""Beginning, reinitialising and ending of subscriptions of merge replication, at both ends.

Every function takes administrators' connections.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import AsyncConnection

from twopc.drivers.merge import neighbours, partitions, retention, schema_changes, tracking
from twopc.drivers.merge.neighbours import MergeNeighbour
from twopc.drivers.merge.ranges import begin_ranges
from twopc.errors import MergeError, SubscriptionError
from twopc.merge.marks import Generation
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.merge.schema_changes import mark_of, missing_steps
from twopc.publisher.merge import publication
from twopc.publisher.merge.schema_changes import LOCK_TIMEOUT_MS
from twopc.sim.merge import moments
from twopc.sim.merge.snapshot_schema import copied_articles
from twopc.sim.topology.grants import grant_tables
from twopc.sql import path
from twopc.subscriber.merge import subscription

Connection = AsyncConnection[Any]

_KIND = "select subscriber_type = 1, priority, partition_id from msrepl.sysmergesubscriptions where subscriber_server = %s"
_OWN_PRIORITY = "select case when subscriber_type = 1 then priority end from msrepl.sysmergesubscriptions where is_self"
#: Number of rows of an article that were changed at this node, and that the Publisher has not confirmed.
_UNSENT = """
select count(*) from msrepl.msmerge_metadata as m
join msrepl.sysmergesubscriptions as p on p.is_publisher
left join msrepl.msmerge_genhistory as g on g.generation = p.sentgen
where m.tablenick = %s and m.source is distinct from p.replnickname
  and pg_visible_in_snapshot(m.xid, g.snap) is not true
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionKind:
    """The kind of a subscription."""

    is_server: bool
    """Whether it is a server subscription, with a priority of its own."""
    priority: float
    partition: int | None
    """Partition; None: the publication is not filtered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePair:
    """A Publisher and one of its Subscribers."""

    publisher: str
    subscriber: str
    above: Connection
    below: Connection
    connect_above: Callable[[], Awaitable[Connection]]
    """Opens a further connection to the Publisher."""
    app_role: str
    """The application's role, which is granted the use of the tables."""
    without: Set[MergeProtection] = NOTHING_LEFT_OUT
    """Protections that are switched off, to show their purpose."""


async def subscription_kind(publisher: Connection, subscriber: str) -> SubscriptionKind | None:
    """Return the kind of a Subscriber's subscription; None: the node does not subscribe."""
    row = await (await publisher.execute(_KIND, (subscriber,))).fetchone()
    if row is None:
        return None
    return SubscriptionKind(is_server=row[0], priority=row[1], partition=row[2])


async def check_kind(
    subscriber: str, kind: str, priority: float | None, publisher: Connection, above: str
) -> None:
    """Refuse an invalid kind or priority.

    Args:
        publisher: a connection to the Publisher; it may be a republisher.
        above: its name.

    Raises:
        SubscriptionError: the kind or the priority is invalid, or the Publisher's own subscription does not allow
            it.
    """
    if kind not in ("client", "server"):
        raise SubscriptionError(f"{subscriber}: kind {kind!r}: use 'client' or 'server'")
    if kind == "client" and priority is not None:
        raise SubscriptionError(f"{subscriber}: a client subscription has no priority (20044)")
    limit = await own_priority(publisher)
    if limit is None:
        raise SubscriptionError(
            f"{subscriber}: {above} has a client subscription itself, and cannot publish to others (21087): give it "
            "a server subscription with a priority"
        )
    if priority is not None and not 0 <= priority < limit:
        raise SubscriptionError(
            f"{subscriber}: priority {priority} is not from 0 to less than the Publisher's {limit:g} (20049, 20088)"
        )


def check_encodings(pair: MergePair) -> None:
    """Refuse databases of different encodings: a character that one of them lacks would stop every session.

    Raises:
        SubscriptionError: names both encodings.
    """
    above, below = (
        each.info.parameter_status("server_encoding") for each in (pair.above, pair.below)
    )
    if above != below:
        raise SubscriptionError(
            f"{pair.subscriber}: its database {pair.below.info.dbname!r} has encoding {below}, and that of "
            f"{pair.publisher}, {pair.above.info.dbname!r}, has {above}: characters that one of them lacks could not "
            f"travel. Create a database with encoding {above} for {pair.subscriber}"
        )


async def own_priority(node: Connection) -> float | None:
    """Return the priority of a node's own changes; None: it has a client subscription."""
    [(priority,)] = await (await node.execute(_OWN_PRIORITY)).fetchall()
    return None if priority is None else float(priority)


async def begin(pair: MergePair, kind: SubscriptionKind, *, over: bool = False) -> None:
    """Create a Subscriber's tables with the rows that the Publisher has in one snapshot, and register it at both
    ends.

    Other sessions do not wait for the copy: that snapshot is the generation with which the subscription begins. The
    agents' roles must exist. Runs inside a transaction of the Subscriber.

    Args:
        over: the Subscriber has the tables already, and their content is replaced.
    """
    below = pair.below
    await tracking.install(below)
    await neighbours.name_self(
        below, pair.subscriber, priority=kind.priority if kind.is_server else None
    )
    await enter(pair, kind, await _copy(pair, kind, over=over))


async def enter(pair: MergePair, kind: SubscriptionKind, generation: Generation) -> None:
    """Register a Subscriber that has all rows of a generation at both ends. Runs inside a transaction of the
    Subscriber.
    """
    above, below = pair.above, pair.below
    replica = await neighbours.name_self(below, pair.subscriber)
    await neighbours.admit(
        below,
        MergeNeighbour(
            name=pair.publisher,
            replica=await neighbours.name_self(above, pair.publisher),
            is_publisher=True,
            is_server=True,
            priority=100,
            received=generation,
        ),
    )
    async with above.transaction():
        await above.execute(
            "delete from msrepl.sysmergesubscriptions where subscriber_server = %s",
            (pair.subscriber,),
        )
        await neighbours.admit(
            above,
            MergeNeighbour(
                name=pair.subscriber,
                replica=replica,
                is_publisher=False,
                is_server=kind.is_server,
                priority=kind.priority,
                sent=generation,
                partition=kind.partition,
            ),
        )
        await begin_ranges(above, below, pair.subscriber, pair.without)


async def withdraw(pair: MergePair) -> None:
    """Remove a Subscriber whose subscription did not begin, with the agents' roles, at each end that still answers."""
    with suppress(psycopg.Error):
        await neighbours.dismiss(pair.above, pair.subscriber)
    with suppress(psycopg.Error):
        await neighbours.drop_agent(pair.below, pair.publisher)


async def leave(pair: MergePair) -> None:
    """End tracking at a Subscriber; its tables stay, as ordinary ones."""
    await subscription.leave(pair.below)
    await neighbours.dismiss(pair.below, pair.publisher)
    await tracking.uninstall(pair.below)


async def renew(pair: MergePair, kind: SubscriptionKind) -> None:
    """Reinitialise a subscription from the Publisher's tables, as another replica. The agents' roles stay.

    Raises:
        SubscriptionError: a table that is not merged refers to one that is; nothing is changed.
    """
    async with pair.below.transaction():
        await subscription.leave(pair.below)
        await tracking.uninstall(pair.below)
        await begin(pair, kind, over=True)


async def bring_schema(pair: MergePair) -> None:
    """Perform the Publisher's schema changes at a Subscriber, before its tables are filled again.

    If the Subscriber has made a schema change that the Publisher does not have, its tables are left unchanged.
    """
    above, below = [await schema_changes.schema_changes(each) for each in (pair.above, pair.below)]
    with suppress(MergeError):
        for change in missing_steps(pair.publisher, above, pair.subscriber, mark_of(below)):
            await schema_changes.replay(pair.below, change, lock_timeout_ms=LOCK_TIMEOUT_MS)


async def unsent(below: Connection) -> dict[str, int]:
    """Return the number of rows that a Subscriber has changed and its Publisher has not confirmed, by table."""
    counts = {}
    for stored in await tracking.stored_articles(below):
        row = await (await below.execute(_UNSENT, (stored.nickname,))).fetchone()
        if row is not None and row[0]:
            counts[stored.source_object] = int(row[0])
    return counts


async def _copy(pair: MergePair, kind: SubscriptionKind, *, over: bool) -> Generation:
    """Copy tables, rows and their metadata; return the generation of the copy."""
    above, below = pair.above, pair.below
    publisher = await neighbours.name_self(above, pair.publisher)
    async with await pair.connect_above() as reader, reader.transaction():
        generation = await moments.close_moment(above, [reader], kind.partition)
        await reader.execute(path.SET_LOCAL)
        copied = await copied_articles(reader)
        articles = [article for _, article in copied]
        await schema_changes.adopt(below, await schema_changes.schema_changes(reader))
        if over:
            for article in articles:
                if await subscription.is_there(below, article.schema, article.table):
                    await subscription.check_columns(below, article)
        async with subscription.emptied(below, articles) if over else nullcontext():
            for each, article in copied:
                blocks = moments.row_blocks(reader, article, each)
                await subscription.receive_table(below, article, blocks, over=over)
        if not over:
            await subscription.join_tables(below, articles)
        await below.execute(path.SET_LOCAL)
        for each, _ in copied:
            await subscription.track(
                below,
                each,
                publication.PUBLICATION,
                floor=await moments.floor_of(reader, each.nickname),
                is_client=not kind.is_server,
                without=pair.without,
            )
            blocks = moments.metadata_blocks(reader, each)
            await subscription.receive_metadata(below, each, publisher, blocks)
            await grant_tables(below, each.schema, each.table, pair.app_role)
        values = await partitions.values(reader, kind.partition)
        await subscription.guard_partition(below, [each for each, _ in copied], values)
        await retention.set_retention(below, await retention.read_retention(reader))
    return generation
