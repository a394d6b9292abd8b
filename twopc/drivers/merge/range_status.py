"""Status of identity ranges: the values that each node holds, and how many are left.

Functions take an administrator's connection (a superuser's).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from twopc import names
from twopc.merge.ranges import RANGES, AllottedRange, RangesHeld

Connection = AsyncConnection[Any]

#: Query with one row for each article with ranges: the ranges from which this node draws, and the next value.
_ARTICLES = """
select a.artid, a.source_schema, a.source_object, a.identity_column, msrepl.merge_identity_left(a.artid),
       case when case when a.created_table then s.subscriber_type = 1 else exists (
               select from msrepl.sysmergesubscriptions as o where o.subscriber_type = 1 and o.login is not null and o.status = 1) end
           then a.pub_identity_range else a.identity_range end,
       a.identity_threshold, a.created_table,
       case when a.created_table then (
           select r.range_begin + (greatest(r.place_begin, d.last + 1) - r.place_begin) * a.identity_step
           from msrepl.msmerge_identity_range as r
           where r.artid = a.artid and r.place_end > d.last order by r.place_end limit 1)
       else d.last + q.seqincrement end
from msrepl.sysmergearticles as a
join pg_sequence as q on q.seqrelid = a.identity_sequence
cross join lateral (select coalesce(pg_sequence_last_value(q.seqrelid), q.seqstart - q.seqincrement) as last) as d
left join msrepl.sysmergesubscriptions as s on s.is_self
where a.identity_column is not null
order by a.nickname
"""
#: Ranges from which this node draws have places; it has allotted the others.
_RANGES = """
select r.artid, r.place_end is not null, r.subscriber_server, coalesce(r.allotment, r.id), r.range_begin, r.range_end
from msrepl.msmerge_identity_range as r
where r.place_end is null
   or r.place_end > coalesce((
        select pg_sequence_last_value(a.identity_sequence) from msrepl.sysmergearticles as a where a.artid = r.artid), 0)
order by r.place_end, r.id
"""
_UNKNOWN = """
select s.subscriber_server from msrepl.sysmergesubscriptions as s
where not s.ranges_known and not s.is_publisher and s.login is not null and s.status = 1
order by 1
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeStatus:
    """The identity values of one table at one node."""

    node: str
    table: str
    column: str
    is_own: bool
    """Whether the node draws from ranges that were allotted to it; if not, from the table's own sequence."""
    left: int
    """Number of values that the node can still draw."""
    next: int | None
    """The next value; None if there is none."""
    size: int
    """Number of values in a range: of the ranges that the node gets or, if it gets none, of the largest that it
    allots now.
    """
    threshold_percent: int
    drawn_from: tuple[AllottedRange, ...]
    """The node's own ranges that are not used up, in the order in which it draws from them."""
    allotted: tuple[tuple[str, AllottedRange], ...]
    """Ranges that the node has allotted, with their Subscribers, in the order of allotment; including former
    Subscribers.
    """
    waits_for: tuple[str, ...]
    """Subscribers with each of which a restored node must have a session before it allots ranges."""

    @property
    def due(self) -> int:
        """Number of values that a session would allot now."""
        return self._held.missing if self.is_own else 0

    @property
    def is_short(self) -> bool:
        """Whether few values are left: at a Subscriber because sessions did not bring further ranges, otherwise
        because of the type.
        """
        return self._held.is_short if self.is_own else self.left < RANGES * self.size

    @property
    def _held(self) -> RangesHeld:
        return RangesHeld(
            left=self.left,
            size=self.size,
            threshold_percent=self.threshold_percent,
            received=None,
            newest=None,
        )


async def read_ranges(connection: Connection, node: str) -> list[RangeStatus]:
    """Return the status of each merged table that has ranges, at one node."""
    async with connection.transaction():
        await connection.execute("set local transaction isolation level repeatable read")
        articles = await (await connection.execute(_ARTICLES)).fetchall()
        ranges = await (await connection.execute(_RANGES)).fetchall()
        unknown = await (await connection.execute(_UNKNOWN)).fetchall()
    return [
        RangeStatus(
            node=node,
            table=names.article_name(schema, table),
            column=column,
            is_own=is_own,
            left=left,
            next=following if left else None,
            size=size,
            threshold_percent=threshold,
            drawn_from=tuple(
                AllottedRange(allotment=number, first=first, last=last)
                for each, own, _, number, first, last in ranges
                if own and each == artid
            ),
            allotted=tuple(
                (holder, AllottedRange(allotment=number, first=first, last=last))
                for each, own, holder, number, first, last in ranges
                if not own and each == artid
            ),
            waits_for=tuple(name for (name,) in unknown),
        )
        for artid, schema, table, column, left, size, threshold, is_own, following in articles
    ]
