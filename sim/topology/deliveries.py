"""Reading of what agents have delivered, suppressed or skipped, between two positions of a Subscriber.

For scenarios and tests: read from the distribution database and the Publisher's branch markers.
"""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection, AsyncRawCursor
from psycopg.rows import class_row
from psycopg.types.string import TextLoader

from twopc.lsn import lsn_value
from twopc.publisher.distribution import registry
from twopc.publisher.proc_execution import proc_articles
from twopc.sim.deliveries import ReportedDelivery, deliveries
from twopc.subscriber.distribution_agent import queries
from twopc.subscriber.distribution_agent.loads import DecodedCommand, subscription_of
from twopc.subscriber.distribution_agent.planner import ArticleTerms

Connection = AsyncConnection[Any]

_COMMANDS = """
select (c.xact_seqno - '0/0')::bigint as seqno, t.xact_id::text::bigint as xid, c.command_id, c.article_id, c.type,
       c.originator_id as originator, c.command
from msrepl.transactions_between(%(publisher)s, %(after)s, %(upto)s) t
join msrepl.commands_between(%(publisher)s, %(after)s, %(upto)s) c using (xact_seqno)
order by c.xact_seqno, c.command_id
"""
_SKIPPED = """
select xact_seqno::text, max(error) from msrepl.msdistribution_history
where publisher_database_id = %s and subscriber = %s and event = 'skipped' group by xact_seqno
"""
_ORIGINATORS = "select id, srvname from msrepl.msrepl_originators where publisher_database_id = %s"
_MARKERS = (
    "select xid::text::bigint, gid from msrepl.branch_marker where xid = any (%s::text[]::xid8[])"
)


async def between(
    distribution: Connection, publisher: Connection, number: int, *,
    publisher_name: str, subscriber: str, after: str, upto: str,
) -> list[ReportedDelivery]:  # fmt: skip
    """Return an agent's treatment of the transactions between two positions of its Subscriber, in commit order.

    Args:
        number: the Publisher's number in the distribution database.
    """
    async with distribution.cursor(row_factory=class_row(DecodedCommand)) as cursor:
        await cursor.execute(_COMMANDS, {"publisher": number, "after": after, "upto": upto})
        commands = await cursor.fetchall()
    skipped = await distribution.execute(_SKIPPED, (number, subscriber))
    originators = await distribution.execute(_ORIGINATORS, (number,))
    markers = await publisher.execute(_MARKERS, ([str(each.xid) for each in commands],))
    return deliveries(
        commands,
        await _terms(distribution, number, subscriber),
        node=subscriber,
        publisher=publisher_name,
        articles={each.article_id: each for each in await registry.articles(distribution, number)},
        routines={each.article_id: each for each in await proc_articles(publisher)},
        originators=dict(await originators.fetchall()),
        markers=dict(await markers.fetchall()),
        skipped={lsn_value(seqno): error for seqno, error in await skipped.fetchall()},
    )


async def _terms(
    distribution: Connection, number: int, subscriber: str
) -> tuple[ArticleTerms, ...]:
    """Return the terms of a Subscriber's agent."""
    async with AsyncRawCursor(distribution) as cursor:
        cursor.adapters.register_loader("jsonb", TextLoader)
        await cursor.execute(queries.SUBSCRIPTIONS.text, (number, subscriber))
        return subscription_of(await cursor.fetchall()).terms
