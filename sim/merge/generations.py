"""Reading of a node's generations: when each was closed, how many rows it contains, and which neighbours have it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import class_row

_GENERATIONS = """
with closed as (
    select h.generation, h.guidsrc, h.coldate, h.snap, lag(h.snap) over (order by h.generation) as former
    from msrepl.msmerge_genhistory as h
), shown as (
    (select c.* from closed as c where c.generation > 0 order by c.generation desc limit %(limit)s)
    union all
    select null, null, null, null, (select c.snap from closed as c order by c.generation desc limit 1)
)
select s.generation as number, s.guidsrc as guid, s.coldate as closed,
       c.changed_rows, c.received_rows,
       array(select n.subscriber_server from msrepl.sysmergesubscriptions as n
             where n.login is not null and n.sentgen >= s.generation order by 1) as sent_to
from shown as s,
lateral (
    select count(*) as changed_rows, count(m.source) as received_rows from msrepl.msmerge_metadata as m
    where m.xid >= pg_snapshot_xmin(s.former) and not pg_visible_in_snapshot(m.xid, s.former)
      and (s.snap is null or pg_visible_in_snapshot(m.xid, s.snap))
) as c
order by s.generation nulls last
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownGeneration:
    """A generation of a node; the last one is open."""

    number: int | None
    """Number; None: the generation is open, and gets its number from the next session."""
    guid: UUID | None
    closed: datetime | None
    changed_rows: int
    """Number of rows whose last change is in the generation."""
    received_rows: int
    """Number of those rows that were received from a neighbour unchanged."""
    sent_to: list[str]
    """Neighbours that have the generation."""


async def read_generations(
    connection: AsyncConnection[Any], *, limit: int = 10
) -> list[ShownGeneration]:
    """Return a node's newest generations, oldest first, and the open one.

    Args:
        limit: maximum number of closed generations.
    """
    async with connection.cursor(row_factory=class_row(ShownGeneration)) as cursor:
        await cursor.execute(_GENERATIONS, {"limit": limit})
        return await cursor.fetchall()
