"""Status of a node of merge replication: its subscriptions, waiting rows, and transactions that hold rows back.

Every function takes an administrator's connection (a superuser's).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import class_row

Connection = AsyncConnection[Any]

_NODE = """
select s.subscriber_server as node, s.replnickname as replica,
       (select p.subscriber_server from msrepl.sysmergesubscriptions as p where p.is_publisher) as publisher,
       (select case when min(p.retention) > 0 then max(p.retention) else 0 end
        from msrepl.sysmergepublications as p) as retention_days,
       (select max(g.generation) from msrepl.msmerge_genhistory as g) as generation, r.cleaned,
       (select count(*) from msrepl.msmerge_metadata as m where not m.gone) as contents,
       (select count(*) from msrepl.msmerge_metadata as m where m.gone) as tombstones
from msrepl.sysmergesubscriptions as s, msrepl.msmerge_replica as r
where s.is_self
"""
#: Number of changed rows that wait for the neighbour whose row of ``sysmergesubscriptions`` is `s`; of filtered
#: articles those of its partition, and those that entered or left it when a generation was closed.
WAITING = """(
    select count(*) from (
        select m.tablenick, m.rowguid from msrepl.msmerge_metadata as m
        left join msrepl.msmerge_genhistory as g on g.generation = s.sentgen
        where m.source is distinct from s.replnickname and m.xid >= coalesce(pg_snapshot_xmin(g.snap), '0')
          and pg_visible_in_snapshot(m.xid, g.snap) is not true
          and (s.partition_id is null or m.tablenick not in (
                  select a.nickname from msrepl.sysmergearticles as a
                  join msrepl.sysmergepartitioninfo as i on i.artid = a.artid)
              or exists (select from msrepl.msmerge_current_partition_mappings as c
                         where c.tablenick = m.tablenick and c.rowguid = m.rowguid and c.partition_id = s.partition_id))
      union
        select c.tablenick, c.rowguid from msrepl.msmerge_current_partition_mappings as c
        where c.partition_id = s.partition_id and c.generation > s.sentgen
      union
        select p.tablenick, p.rowguid from msrepl.msmerge_past_partition_mappings as p
        where p.partition_id = s.partition_id and p.generation > s.sentgen) as w)"""
_NEIGHBOURS = f"""
select s.subscriber_server as neighbour, s.is_publisher, s.subscriber_type = 1 as is_server, s.priority,
       case when s.status = 2 then 'dropped' when msrepl.merge_is_expired(s) then 'expired' else 'active' end as state,
       coalesce(s.last_sync_date, s.subscribed_at) as last_session,
       case when not s.is_publisher and p.retention > 0
            then coalesce(s.last_sync_date, s.subscribed_at) + make_interval(days => p.retention) end as expires,
       s.sentgen as sent, s.recgen as received, s.coming_gen is not null as is_cut,
       {WAITING} as waiting
from msrepl.sysmergesubscriptions as s,
     (select case when min(p.retention) > 0 then max(p.retention) else 0 end as retention
      from msrepl.sysmergepublications as p) as p
where s.login is not null
order by not s.is_publisher, 1
"""  # noqa: S608 -- two constants
#: Open transactions that have changed merged tables: their rows are in no generation.
_OPEN = """
select coalesce(x.gid, 'process ' || l.pid) as name, x.gid is not null as is_prepared,
       coalesce(x.prepared, t.xact_start) as since,
       array_agg(distinct a.source_schema || '.' || a.source_object order by a.source_schema || '.' || a.source_object) as tables
from msrepl.sysmergearticles as a
join pg_locks as l on l.relation = a.objid and l.mode = 'RowExclusiveLock' and l.granted
join pg_database as d on d.oid = l.database and d.datname = current_database()
left join pg_stat_activity as t on t.pid = l.pid
left join pg_locks as i
    on l.pid is null and i.pid is null and i.virtualtransaction = l.virtualtransaction and i.locktype = 'transactionid'
left join pg_prepared_xacts as x on x.transaction = i.transactionid
where l.pid is distinct from pg_backend_pid()
group by 1, 2, 3
order by 3
"""
_SESSIONS = """
select s.session_id as number, s.subscriber_server as subscriber, s.start_time as started, s.end_time as ended,
       s.duration as duration_s, s.upload_rows as uploaded, s.download_rows as downloaded, s.conflicts,
       s.rows_deferred as deferred, s.rows_retried as retried, s.metadata_rows_cleanedup as forgotten, s.resumed, s.anew,
       s.error
from msrepl.msmerge_sessions as s
where %(subscriber)s::text is null or s.subscriber_server = %(subscriber)s
order by s.session_id desc
limit %(limit)s
"""
_ARTICLES = """
select h.article_name as table, h.phase_id = 1 as is_upload, h.rows, h.deletes, h.conflicts, h.rows_deferred as deferred,
       h.rows_retried as retried
from msrepl.msmerge_articlehistory as h where h.session_id = %s
order by h.phase_id, h.article_name
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class NeighbourStatus:
    """Status of a node's relation to a neighbour."""

    neighbour: str
    is_publisher: bool
    """Whether the neighbour is the Publisher of the two."""
    is_server: bool
    priority: float
    state: str
    """``active``, ``expired`` or ``dropped``; always ``active`` for a Publisher."""
    last_session: datetime
    """Time of the end of the last complete session; at the Publisher, or of the subscription's beginning."""
    expires: datetime | None
    """Time at which the subscription expires without a session; None if never, or if the neighbour is the
    Publisher.
    """
    sent: int
    """The node's last generation that the neighbour has confirmed."""
    received: int
    """The neighbour's last generation that the node has received completely."""
    is_cut: bool
    """Whether a generation of the neighbour has arrived in part: a session was interrupted, or is in progress."""
    waiting: int
    """Number of rows that the neighbour does not have yet, including rows that fail there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnendedTransaction:
    """An open transaction whose rows are in no generation, so that no session propagates them."""

    name: str
    """The gid if the transaction is prepared, otherwise the pid of the backend."""
    is_prepared: bool
    since: datetime | None
    tables: Sequence[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """Status of a node."""

    node: str
    replica: int
    publisher: str | None
    """The Publisher to which the node subscribes; None if it is the topmost Publisher."""
    retention_days: int
    generation: int
    """The newest closed generation."""
    cleaned: int
    """The generation up to which metadata was removed."""
    contents: int
    """Number of rows that have metadata."""
    tombstones: int
    """Number of tombstones."""
    neighbours: Sequence[NeighbourStatus] = ()
    open_transactions: Sequence[UnendedTransaction] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleHistory:
    """Counts of a session for one table, in one direction."""

    table: str
    is_upload: bool
    rows: int
    """Rows that were written."""
    deletes: int
    """Rows that were deleted, included in `rows`."""
    conflicts: int
    deferred: int
    retried: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSession:
    """A session, as its Publisher has recorded it."""

    number: int
    subscriber: str
    started: datetime
    ended: datetime
    duration_s: float
    uploaded: int
    downloaded: int
    conflicts: int
    deferred: int
    retried: int
    forgotten: int
    """Number of rows whose metadata the Publisher removed."""
    resumed: bool
    anew: bool
    error: str | None
    """The error with which the session failed; None if it did not."""
    articles: Sequence[ArticleHistory] = ()


async def read_status(connection: Connection) -> NodeStatus:
    """Return the status of a node."""
    async with connection.cursor(row_factory=class_row(NodeStatus)) as cursor:
        await cursor.execute(_NODE)
        node = await cursor.fetchone()
    assert node is not None
    async with connection.cursor(row_factory=class_row(NeighbourStatus)) as cursor:
        await cursor.execute(_NEIGHBOURS)
        each = await cursor.fetchall()
    async with connection.cursor(row_factory=class_row(UnendedTransaction)) as cursor:
        await cursor.execute(_OPEN)
        return replace(node, neighbours=each, open_transactions=await cursor.fetchall())


async def read_sessions(
    connection: Connection, *, subscriber: str | None = None, limit: int = 20
) -> list[RecordedSession]:
    """Return the sessions that a Publisher has recorded, newest first.

    Args:
        subscriber: only sessions of this Subscriber.
        limit: maximum number of sessions.
    """
    async with connection.cursor(row_factory=class_row(RecordedSession)) as cursor:
        await cursor.execute(_SESSIONS, {"subscriber": subscriber, "limit": limit})
        recorded = await cursor.fetchall()
    results = []
    for session in recorded:
        async with connection.cursor(row_factory=class_row(ArticleHistory)) as cursor:
            await cursor.execute(_ARTICLES, (session.number,))
            results.append(replace(session, articles=await cursor.fetchall()))
    return results
