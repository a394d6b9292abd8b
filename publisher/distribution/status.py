"""State of log readers and agents, as recorded in the distribution database."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import class_row

from twopc.publisher.slot import SlotState

Connection = AsyncConnection[Any]

_READERS = """
select d.publisher, d.publisher_db, d.slot, d.read_to::text, d.slot_limit::text, d.last_commit, d.read_at, d.last_error,
       coalesce(sum(b.transactions), 0)::bigint as transactions, coalesce(sum(b.commands), 0)::bigint as commands
from msrepl.mspublisher_databases d
left join msrepl.msrepl_blocks b on b.publisher_database_id = d.id and b.last_seqno is distinct from d.open_seqno
group by d.id
order by d.publisher
"""

# An agent that has ended properly, or waits for a retry, has recorded so; one with status started has a session in
# this database. Waiting work is counted in whole transactions, some of which may have no command for this Subscriber.
# The rate is that of the last row of history with commands.
_AGENTS = """
select d.publisher, a.subscriber,
       case min(s.status) when 0 then 'inactive' when 1 then 'subscribed' when 2 then 'active'
            else 'unsubscribed' end as subscription,
       a.delivered::text, a.delivered_at,
       case when a.runstatus = 'started' and not exists (
                select from pg_stat_activity p
                where p.datname = current_database()
                  and p.application_name = left('msrepl agent ' || a.subscriber, 63))
            then 'dead' else a.runstatus end as runstatus,
       a.runstatus_at, a.last_error,
       w.transactions as waiting_transactions, w.commands as waiting_commands,
       extract(epoch from clock_timestamp() - w.oldest)::float8 as lag_s,
       case when h.duration_ms > 0 then h.commands * 1000 / h.duration_ms end as commands_per_s
from msrepl.msdistribution_agents a
join msrepl.mspublisher_databases d on d.id = a.publisher_database_id
left join msrepl.mssubscriptions s using (publisher_database_id, subscriber)
left join lateral (
    -- of the block in which the agent is, its transactions one by one
    select coalesce(sum(coalesce(t.transactions, b.transactions)), 0)::bigint as transactions,
        coalesce(sum(coalesce(t.commands, b.commands)), 0)::bigint as commands,
        min(coalesce(t.oldest, b.oldest)) as oldest
    from (
        select n.first_seqno <= a.delivered as reached, n.transactions, n.commands, n.entry_times[1] as oldest,
            n.seqnos, n.entry_times, n.counts
        from msrepl.msrepl_blocks n
        where n.publisher_database_id = a.publisher_database_id and n.last_seqno > a.delivered
            and n.last_seqno is distinct from d.open_seqno
    ) as b
    left join lateral (
        select count(*) as transactions, sum(t.commands) as commands, min(t.entry_time) as oldest
        from unnest(b.seqnos, b.entry_times, b.counts) as t (seqno, entry_time, commands)
        where t.seqno > a.delivered
    ) as t on b.reached
) as w on true
left join lateral (
    select h.duration_ms, h.commands from msrepl.msdistribution_history h
    where h.publisher_database_id = a.publisher_database_id and h.subscriber = a.subscriber
      and h.commands > 0
    order by h.id desc limit 1
) as h on true
group by d.publisher, a.publisher_database_id, a.subscriber, w.transactions, w.commands, w.oldest,
         h.duration_ms, h.commands
order by 1, 2
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaderStatus:
    """Progress of a Publisher's log reader; the state of the slot is known at the Publisher only."""

    publisher: str
    publisher_db: str
    slot: str
    read_to: str
    slot_limit: str
    """Position up to which the slot may have been moved; ``0/0`` if unknown."""
    last_commit: datetime | None
    read_at: datetime | None
    last_error: str | None
    transactions: int
    """Number of stored transactions: waiting, or not removed yet."""
    commands: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentStatus:
    """State of one Subscriber's agent."""

    publisher: str
    subscriber: str
    subscription: str
    """``active``, ``subscribed`` (no copy yet), ``inactive``: the lowest status among its articles."""
    delivered: str
    delivered_at: datetime | None
    runstatus: str
    """``never started``, ``started``, ``succeeded``, ``retry``, ``failed``; ``dead``: it ended without recording so;
    ``stopped``: its process is suspended, which only `twopc up` knows.
    """
    runstatus_at: datetime | None
    last_error: str | None
    waiting_transactions: int
    waiting_commands: int
    lag_s: float | None
    """Age of the oldest waiting transaction's commit; None if none waits. See `counting_unread`."""
    commands_per_s: float | None
    """Rate of the last period in which commands were delivered."""


async def readers(connection: Connection) -> list[ReaderStatus]:
    """Return the state of every Publisher's log reader."""
    async with connection.cursor(row_factory=class_row(ReaderStatus)) as cursor:
        await cursor.execute(_READERS)
        return await cursor.fetchall()


async def agents(connection: Connection) -> list[AgentStatus]:
    """Return the state of every Subscriber's agent."""
    async with connection.cursor(row_factory=class_row(AgentStatus)) as cursor:
        await cursor.execute(_AGENTS)
        return await cursor.fetchall()


def counting_unread(
    statuses: Iterable[AgentStatus], slot: SlotState | None
) -> tuple[AgentStatus, ...]:
    """Return states with a lag that includes unread log, whose number of transactions is unknown.

    Args:
        slot: of the Publisher's log; None if not known.
    """
    if slot is None or slot.unread_s is None:
        return tuple(statuses)
    unread_s = slot.unread_s
    return tuple(replace(each, lag_s=max(each.lag_s or 0.0, unread_s)) for each in statuses)
