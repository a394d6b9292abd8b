"""A Publisher's records of its snapshots in files: their locations and digests, and whether Subscribers may have
snapshots made.

Every function takes an administrator's connection (a superuser's).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection
from psycopg.rows import class_row

from twopc.merge.marks import Generation

Connection = AsyncConnection[Any]

_IS_KNOWN = """
select from msrepl.msmerge_genhistory as g, msrepl.msmerge_replica as r
where g.generation = %s and g.guidsrc = %s and r.cleaned <= g.generation
"""
_RECORDED = """
select d.digest, d.partition_id as partition, d.dynamic_snapshot_location as location, d.generation as number,
       d.guidsrc as guid, d.initiated_by,
       exists (select from msrepl.msmerge_genhistory as g, msrepl.msmerge_replica as r
               where g.generation = d.generation and g.guidsrc = d.guidsrc and r.cleaned <= g.generation) as is_usable
from msrepl.msmerge_dynamic_snapshots as d order by d.last_updated desc, d.digest
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedSnapshot:
    """A completed snapshot in files."""

    digest: str
    """SHA-256 of the snapshot's manifest."""
    partition: int | None
    location: str
    number: int
    """Number of the snapshot's generation."""
    guid: UUID
    initiated_by: str | None
    """The Subscriber for which the snapshot was made; None if an administrator has made it."""
    is_usable: bool = True
    """Whether the Publisher can continue from the snapshot's generation: it has kept all metadata since."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotSettings:
    """A publication's settings for snapshots in files."""

    folder: str | None
    """The folder in which snapshots were last written; None if there was none yet."""
    subscribers_may_start: bool


async def is_known(connection: Connection, generation: Generation) -> bool:
    """Return whether a Publisher can continue from one of its generations."""
    return bool(
        (await connection.execute(_IS_KNOWN, (generation.number, generation.guid))).rowcount
    )


async def recorded(connection: Connection) -> list[RecordedSnapshot]:
    """Return the snapshots of a Publisher, newest first."""
    async with connection.cursor(row_factory=class_row(RecordedSnapshot)) as cursor:
        await cursor.execute(_RECORDED)
        return await cursor.fetchall()


async def record(connection: Connection, snapshot: RecordedSnapshot) -> None:
    """Record a snapshot at a Publisher, and remove records of snapshots whose generations are no longer known."""
    async with connection.transaction():
        await connection.execute(
            "delete from msrepl.msmerge_dynamic_snapshots as d where not exists ("
            " select from msrepl.msmerge_genhistory as g, msrepl.msmerge_replica as r"
            " where g.generation = d.generation and g.guidsrc = d.guidsrc and r.cleaned <= g.generation)"
        )
        await connection.execute(
            "insert into msrepl.msmerge_dynamic_snapshots (digest, partition_id, dynamic_snapshot_location, generation,"
            " guidsrc, initiated_by) values (%s, %s, %s, %s, %s, %s) on conflict (digest) do update"
            " set dynamic_snapshot_location = excluded.dynamic_snapshot_location, last_updated = clock_timestamp(),"
            " initiated_by = case when excluded.initiated_by is null then null"
            " else msmerge_dynamic_snapshots.initiated_by end",
            (
                snapshot.digest,
                snapshot.partition,
                snapshot.location,
                snapshot.number,
                snapshot.guid,
                snapshot.initiated_by,
            ),
        )


async def read_settings(connection: Connection) -> SnapshotSettings:
    """Return the settings of a Publisher's publication for snapshots in files."""
    cursor = await connection.execute(
        "select min(snapshot_folder), coalesce(bool_and(allow_subscriber_initiated_snapshot), false)"
        " from msrepl.sysmergepublications"
    )
    [(folder, may_start)] = await cursor.fetchall()
    return SnapshotSettings(folder=folder, subscribers_may_start=may_start)


async def set_folder(connection: Connection, folder: str) -> None:
    """Record the folder in which snapshots are written."""
    await connection.execute(
        "update msrepl.sysmergepublications set snapshot_folder = %s", (folder,)
    )


async def let_subscribers_start(connection: Connection, *, may: bool) -> None:
    """Set whether Subscribers may have snapshots made (``@allow_subscriber_initiated_snapshot``)."""
    await connection.execute(
        "update msrepl.sysmergepublications set allow_subscriber_initiated_snapshot = %s", (may,)
    )
