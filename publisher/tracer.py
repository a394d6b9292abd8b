"""Tracer tokens: the latency of a transaction from the Publisher to each Subscriber.

A token is a message in the log, so it passes through the same stages as every transaction, and waits with them. The
log reader records when it has stored the token, each agent when it has delivered it.

Times are those of the servers' clocks; differences between clocks show in the latencies.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import class_row

from twopc.errors import SubscriptionError
from twopc.publisher.posted_messages import PostedMessage, post_message

Connection = AsyncConnection[Any]

PENDING = "Pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """Progress of a token to one Subscriber."""

    tracer_id: int
    subscriber: str
    publisher_commit: datetime
    """Time of the token's commit at the Publisher."""
    distributor_commit: datetime | None = None
    """Time of storage in the distribution database; None if not stored yet."""
    subscriber_commit: datetime | None = None
    """Time of delivery; None if not delivered yet."""

    @property
    def distributor_ms(self) -> float | None:
        """Latency from the Publisher to the distribution database, in milliseconds; None while pending."""
        return _ms(self.publisher_commit, self.distributor_commit)

    @property
    def subscriber_ms(self) -> float | None:
        """Latency from the distribution database to the Subscriber, in milliseconds; None while pending."""
        return _ms(self.distributor_commit, self.subscriber_commit)

    @property
    def total_ms(self) -> float | None:
        """Latency from commit to delivery, in milliseconds; None while pending."""
        return _ms(self.publisher_commit, self.subscriber_commit)

    def __str__(self) -> str:
        steps = (self.distributor_ms, self.subscriber_ms, self.total_ms)
        words = [PENDING if ms is None else f"{ms:.1f} ms" for ms in steps]
        return f"tracer token {self.tracer_id} to {self.subscriber}: {words[0]} + {words[1]} = {words[2]}"


def _ms(start: datetime | None, end: datetime | None) -> float | None:
    if start is None or end is None:
        return None
    return (end - start).total_seconds() * 1000


async def post_tracer_token(publisher: Connection) -> PostedMessage:
    """Post a token (the analogue of sp_posttracertoken).

    Args:
        publisher: an administrator's connection at the Publisher, in autocommit mode.

    Raises:
        SubscriptionError: there is no active subscription (21488).
    """
    cursor = await publisher.execute(
        "select exists (select from msrepl.syssubscriptions s where s.status = 'active')"
    )
    row = await cursor.fetchone()
    if row is None or not row[0]:
        raise SubscriptionError(
            "a tracer token needs an active subscription (21488): `twopc subscribe` first"
        )
    return await post_message(publisher, "tracer_token", {})


async def tracer_history(
    publisher: Connection, distribution: Connection, name: str, tracer_id: int | None = None
) -> list[Passage]:
    """Return the progress of tokens, the latest first (the analogue of sp_helptracertokenhistory).

    Args:
        name: of the Publisher, in the distribution database.
        tracer_id: one token; None for all known tokens.
    """
    cursor = await publisher.execute(
        "select id, created_at from msrepl.log_message "
        "where kind = 'tracer_token' and id = coalesce(%s, id)",
        (tracer_id,),
    )
    posted = await cursor.fetchall()
    async with distribution.cursor(row_factory=class_row(Passage)) as rows:
        await rows.execute(
            """
            with token as (
                select t.tracer_id, t.publisher_commit, t.distributor_commit
                from msrepl.mstracer_tokens t
                where t.publisher_database_id = (
                    select id from msrepl.mspublisher_databases where publisher = %(publisher)s)
                  and t.tracer_id = coalesce(%(token)s, t.tracer_id)
              union all
                select p.id, p.at, null
                from unnest(%(ids)s::bigint[], %(times)s::timestamptz[]) as p(id, at)
                where not exists (
                    select from msrepl.mstracer_tokens t
                    join msrepl.mspublisher_databases d on d.id = t.publisher_database_id
                    where d.publisher = %(publisher)s and t.tracer_id = p.id)
            )
            select t.tracer_id, s.subscriber, t.publisher_commit, t.distributor_commit,
                   h.subscriber_commit
            from token t
            cross join (select distinct m.subscriber, m.publisher_database_id as id
                        from msrepl.mssubscriptions m
                        join msrepl.mspublisher_databases d on d.id = m.publisher_database_id
                        where d.publisher = %(publisher)s and m.status = 2) s
            left join msrepl.mstracer_history h
                on (h.publisher_database_id, h.tracer_id, h.subscriber) = (s.id, t.tracer_id, s.subscriber)
            order by t.tracer_id desc, s.subscriber
            """,
            {
                "publisher": name,
                "token": tracer_id,
                "ids": [each[0] for each in posted],
                "times": [each[1] for each in posted],
            },
        )
        return await rows.fetchall()


async def delete_tracer_history(distribution: Connection, name: str, before: datetime) -> int:
    """Delete tokens committed before a time (the analogue of sp_deletetracertokenhistory); return their number."""
    cursor = await distribution.execute(
        """
        with gone as (
            delete from msrepl.mstracer_tokens t using msrepl.mspublisher_databases d
            where d.id = t.publisher_database_id and d.publisher = %s and t.publisher_commit < %s
            returning t.publisher_database_id, t.tracer_id
        ), history as (
            delete from msrepl.mstracer_history h using gone
            where (h.publisher_database_id, h.tracer_id) = (gone.publisher_database_id, gone.tracer_id)
        )
        select count(*) from gone
        """,
        (name, before),
    )
    row = await cursor.fetchone()
    return int(row[0]) if row is not None else 0
