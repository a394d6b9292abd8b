"""Clean-up: removal of delivered transactions, and deactivation of Subscribers that are too far behind.

Source: the original's distribution clean-up and history clean-up (21010, 21074).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection, Error, pq

from twopc.log import get_logger
from twopc.sql import path
from twopc.sql.exclusive import free_key, others
from twopc.sql.render import render

Connection = AsyncConnection[Any]

_log = get_logger(__name__)

#: Number of blocks that one statement removes.
_BLOCK = 1000
#: Advisory lock: shared for sessions that read transactions possibly delivered already, exclusive for clean-up.
_NAME = "'msrepl retention'"
_MAY_READ = "has_table_privilege(a.usesysid, 'msrepl.msrepl_transactions', 'select')"
_FREE_KEY = free_key(_NAME, _MAY_READ)
_OTHERS = others(_NAME, _MAY_READ)
_LOCK_ONCE = "select pg_advisory_lock_shared(%s, %s), pg_advisory_unlock_shared(%s, %s)"

# clock_timestamp(): a transaction as old as the statement counts as older, with a retention of 0
_LATE = """
with late as (
    select distinct p.publisher_database_id, p.subscriber, c.is_copied
    from msrepl.mssubscription_positions p
    join msrepl.mssubscriptions s using (publisher_database_id, article_id, subscriber)
    cross join lateral (select s.status = 1 and s.subscription_seqno is null as is_copied) as c
    cross join lateral (
        select t.entry_time
        from (
            select b.seqnos, b.entry_times from msrepl.msrepl_blocks b
            where b.publisher_database_id = p.publisher_database_id and b.last_seqno > p.position
                and b.transactions > 0
            order by b.last_seqno, b.part limit 1
        ) as b
        cross join lateral unnest(b.seqnos, b.entry_times) as t (seqno, entry_time)
        where t.seqno > p.position
        order by t.seqno limit 1
    ) as next
    where next.entry_time < clock_timestamp() - %(max)s::interval
), given_up as (
    update msrepl.mssubscriptions s set status = 0
    from late l
    where (s.publisher_database_id, s.subscriber) = (l.publisher_database_id, l.subscriber) and s.status > 0
        -- whose copy is under way waits for everything: that is no reason to give up what its Subscriber has
        and (not l.is_copied or s.status = 1 and s.subscription_seqno is null)
    returning s.publisher_database_id, s.subscriber
), history as (
    insert into msrepl.msdistribution_history (publisher_database_id, subscriber, event, error, message)
    select distinct publisher_database_id, subscriber, 'deactivated', '21074',
           format('the subscription of %%s was deactivated: what it has not got is older than %%s; '
                  'reinitialise it', subscriber, %(max)s::interval)
    from given_up
)
select distinct subscriber from given_up order by 1
"""

_BOUNDS = """
select d.id, least(
    coalesce((select min(p.position) from msrepl.mssubscription_positions p
              where p.publisher_database_id = d.id), d.read_to),
    (select min(a.position) from msrepl.msrepl_archives a where a.publisher_database_id = d.id),
    -- who begins behind a transaction that is being stored does not wait for it
    d.open_seqno - 1,
    -- positions and commit times do not rise together: nothing after the first young one goes
    (select min(t.xact_seqno) - 1 from msrepl.msrepl_transactions t
     where %(min)s::interval > interval '0' and t.publisher_database_id = d.id
       and t.entry_time >= clock_timestamp() - %(min)s::interval))
from msrepl.mspublisher_databases d
order by d.id
"""

# A separate event: unlike a Subscriber, an archive cannot be reinitialised.
_ABANDON = """
with abandoned as (
    delete from msrepl.msrepl_archives a where a.appended_at < clock_timestamp() - %(archive)s::interval
    returning a.publisher_database_id, a.folder, a.position
), history as (
    insert into msrepl.msdistribution_history (publisher_database_id, event, message)
    select publisher_database_id, 'removed',
           format('archive %%s was not appended to for %%s: what is after %%s is not kept for it any longer',
                  folder, %(archive)s::interval, position)
    from abandoned
)
select folder from abandoned order by 1
"""

_REMOVE = """
with next as (
    select max(last_seqno) as last, coalesce(max(number), 0) as blocks from (
        select last_seqno, row_number() over (order by last_seqno, part) as number
        from (
            select last_seqno, part from msrepl.msrepl_blocks
            where publisher_database_id = %(database)s and last_seqno <= %(bound)s
            order by last_seqno, part limit %(block)s) as first) as numbered
), removed as (
    delete from msrepl.msrepl_blocks b using next
    where b.publisher_database_id = %(database)s and b.last_seqno <= next.last
    returning b.transactions, b.commands
), moved as (
    update msrepl.mspublisher_databases d set removed_to = greatest(d.removed_to, next.last)
    from next where d.id = %(database)s and next.last is not null
)
select (select blocks from next), coalesce(sum(transactions), 0), coalesce(sum(commands), 0) from removed
"""

_HISTORY = (
    "delete from msrepl.msdistribution_history where at < clock_timestamp() - %s::interval",
    """
    with old as (
        delete from msrepl.mstracer_tokens
        where coalesce(distributor_commit, publisher_commit) < clock_timestamp() - %s::interval
        returning publisher_database_id, tracer_id
    )
    delete from msrepl.mstracer_history h using old o
    where (h.publisher_database_id, h.tracer_id) = (o.publisher_database_id, o.tracer_id)
    """,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanUp:
    """Result of a clean-up."""

    transactions: int
    commands: int
    duration_s: float
    deactivated: tuple[str, ...]
    """Subscribers whose subscriptions were deactivated."""
    abandoned: tuple[str, ...] = ()
    """Folders of archives for which transactions are no longer kept."""
    held: bool = False
    """Whether no transactions were removed because a session was still reading them (`kept`)."""

    def __str__(self) -> str:
        rows = self.transactions + self.commands
        rate = rows / self.duration_s if self.duration_s else 0.0
        return (
            f"Removed {self.transactions} replicated transactions consisting of {self.commands} "
            f"statements in {self.duration_s:.1f} seconds ({rate:.0f} rows/sec)."
        )


@asynccontextmanager
async def kept(connection: Connection) -> AsyncIterator[None]:
    """Return a context in which no stored transaction is removed, even if every Subscriber has received it.

    Args:
        connection: in autocommit mode.
    """
    key = await _key(connection)
    await connection.execute("select pg_advisory_lock_shared(%s, %s)", key)
    try:
        # wait for a clean-up that uses another key because an unrelated session held this one when it began
        for *other, _ in await (await connection.execute(_OTHERS)).fetchall():
            await connection.execute(_LOCK_ONCE, [*other, *other])
        yield
    finally:
        if connection.info.transaction_status == pq.TransactionStatus.IDLE:
            await connection.execute("select pg_advisory_unlock_shared(%s, %s)", key)


@asynccontextmanager
async def alone(connection: Connection) -> AsyncIterator[bool]:
    """Return a context in which no session is within `kept`, and none enters it; False if one is there now.

    Args:
        connection: in autocommit mode.
    """
    key = await _key(connection)
    row = await (await connection.execute("select pg_try_advisory_lock(%s, %s)", key)).fetchone()
    is_taken = row is not None and bool(row[0])
    try:
        yield is_taken and await (await connection.execute(_OTHERS)).fetchone() is None
    finally:
        if is_taken:
            await connection.execute("select pg_advisory_unlock(%s, %s)", key)


async def _key(connection: Connection) -> list[int]:
    key: list[int]
    ((*key, strangers),) = await (await connection.execute(_FREE_KEY)).fetchall()
    if strangers:
        _log.warning("strangers hold advisory locks of the clean-up", holders=strangers)
    return key


async def clean_up(
    connection: Connection,
    *,
    min_retention: timedelta = timedelta(0),
    max_retention: timedelta = timedelta(hours=72),
    history_retention: timedelta = timedelta(hours=48),
    archive_retention: timedelta = timedelta(hours=72),
) -> CleanUp:
    """Remove transactions that every Subscriber has received, in blocks that are committed one by one.

    Args:
        connection: an administrator's, in autocommit mode.
        min_retention: transactions committed at the Publisher within this time are always kept.
        max_retention: a subscription for which an older transaction waits is deactivated, and no longer keeps
            transactions.
        history_retention: for the history of agents and of tracer tokens.
        archive_retention: an archive that was not appended to for this time no longer keeps transactions.
    """
    began = time.perf_counter()
    given_up = await connection.execute(_LATE, {"max": max_retention})
    deactivated = tuple(name for (name,) in await given_up.fetchall())
    # the table is missing in distribution databases installed before archives were registered
    await connection.execute(render("twopc.publisher", "msrepl_archives").encode())
    late = await connection.execute(_ABANDON, {"archive": archive_retention})
    abandoned = tuple(folder for (folder,) in await late.fetchall())
    transactions = commands = 0
    async with alone(connection) as free:
        if free:
            transactions, commands = await _remove(connection, min_retention)
    for statement in _HISTORY:
        await connection.execute(statement.encode(), (history_retention,))
    return CleanUp(
        transactions=transactions,
        commands=commands,
        duration_s=time.perf_counter() - began,
        deactivated=deactivated,
        abandoned=abandoned,
        held=not free,
    )


async def keep_clean(
    dsn: str, stop: asyncio.Event, *, every_s: float = 600.0, **retention: Any
) -> None:
    """Clean up at intervals until told to stop; errors of a server are logged, and the next round tries again.

    Args:
        dsn: an administrator's connection string.
        retention: see `clean_up`.
    """
    while not stop.is_set():
        try:
            async with await AsyncConnection.connect(
                path.kept_alive(dsn), autocommit=True, options=path.options(dsn)
            ) as connection:
                done = await clean_up(connection, **retention)
            _log.info("cleaned up", removed=str(done), deactivated=done.deactivated)
        except Error as error:
            _log.warning("nothing was cleaned up", error=str(error))
        with suppress(TimeoutError):
            await asyncio.wait_for(stop.wait(), every_s)


async def _remove(connection: Connection, min_retention: timedelta) -> tuple[int, int]:
    """Remove transactions and their commands; return the number of each."""
    bounds = await (await connection.execute(_BOUNDS, {"min": min_retention})).fetchall()
    transactions = commands = 0
    for database, bound in bounds:
        removed = (0, 0)
        while True:
            cursor = await connection.execute(
                _REMOVE, {"database": database, "bound": bound, "block": _BLOCK}
            )
            row = await cursor.fetchone()
            assert row is not None
            removed = (removed[0] + int(row[1]), removed[1] + int(row[2]))
            if row[0] < _BLOCK:
                break
        if removed[0]:
            await connection.execute(
                """
                insert into msrepl.msdistribution_history
                    (publisher_database_id, event, transactions, commands, xact_seqno)
                values (%s, 'removed', %s, %s, %s)
                """,
                (database, *removed, bound),
            )
        transactions, commands = transactions + removed[0], commands + removed[1]
    return transactions, commands
