"""The replication slot that keeps a Publisher's log until it is read: made, dropped, looked at.

Knows nothing of what is in the log, nor of who reads it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection, errors, sql
from psycopg.rows import class_row

from twopc.errors import ServerError
from twopc.names import SLOT_PREFIX

Connection = AsyncConnection[Any]

PLUGIN = "pgoutput"

_LOOK_EVERY_S = 0.01

#: A new slot waits for every transaction that is open in the cluster, and a prepared one may stay open for
#: as long as it likes.
_IN_THE_WAY = """
select format('prepared transaction %L in database %I', gid, database)
from pg_prepared_xacts
union all
select format('pid %s in database %I (%s, since %s)', pid, datname,
              coalesce(nullif(application_name, ''), 'without application_name'), xact_start)
from pg_stat_activity
where backend_xid is not null and pid <> pg_backend_pid()
limit 5
"""

_HORIZON = "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1"

_END_READER = (
    "select pg_terminate_backend(active_pid) from pg_replication_slots where slot_name = %s"
)
_SET_TIMEOUTS = """
select set_config('statement_timeout', %s, false), set_config('lock_timeout', %s, false)
"""

_STATE = """
select slot_name::text as name, database::text, active, active_pid, plugin::text, two_phase,
       restart_lsn::text, confirmed_flush_lsn::text as confirmed_flush,
       wal_status, safe_wal_size, invalidation_reason, inactive_since,
       (pg_current_wal_flush_lsn() - confirmed_flush_lsn)::bigint as lag_bytes,
       (pg_current_wal_flush_lsn() - restart_lsn)::bigint as retained_bytes,
       -- its session is idle while it has confirmed what was sent; without a session all of it is unread
       case when not active and confirmed_flush_lsn < pg_current_wal_flush_lsn()
            then greatest(extract(epoch from clock_timestamp() - inactive_since), 0)
            when confirmed_flush_lsn < sent_lsn
            then greatest(extract(epoch from clock_timestamp() - reply_time), 0)
       end::float8 as unread_s
from pg_replication_slots left join pg_stat_replication on pid = active_pid
"""
_LOOK = _STATE + "where slot_name = %s"
_STRAYS = (
    _STATE
    + "where database = current_database() and slot_name like %s and not temporary"
    + " and slot_name is distinct from %s order by slot_name"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotState:
    """A slot, as the server shows it."""

    name: str
    database: str | None
    active: bool
    active_pid: int | None
    """The backend that reads it."""
    plugin: str | None
    two_phase: bool
    restart_lsn: str | None
    """From where on the server keeps its log for it; an open transaction holds it back."""
    confirmed_flush: str | None
    """What was committed before is not shown again."""
    wal_status: str | None
    """``reserved``, ``extended`` (beyond max_wal_size), ``unreserved`` (about to be lost) or ``lost``."""
    safe_wal_size: int | None
    """How many bytes may be written before it is in danger of being lost; None: there is no limit."""
    invalidation_reason: str | None
    """Why it cannot be read any more: ``wal_removed``, ``idle_timeout`` ..."""
    inactive_since: datetime | None
    lag_bytes: int | None
    """How much log there is that was not confirmed as read."""
    retained_bytes: int | None
    """How much log is kept for it."""
    unread_s: float | None
    """For how long there has been log that is not confirmed: since the last answer of its reader, at the reader's
    clock, or since it has had no reader. None: all that was sent is confirmed, or the log is peeked at."""

    @property
    def unread_bytes(self) -> int:
        """How much log its reader leaves unread; none while it keeps up with what is sent."""
        return 0 if self.unread_s is None else self.lag_bytes or 0

    @property
    def drop_statement(self) -> str:
        """What drops it; a slot's name holds nothing that must be quoted."""
        return f"select pg_drop_replication_slot('{self.name}')"

    @property
    def problem(self) -> str | None:
        """What is wrong with it, with the remedy; None if it can be read."""
        if self.invalidation_reason is not None or self.wal_status == "lost":
            return (
                f"replication slot {self.name!r} was invalidated by the server "
                f"({self.invalidation_reason or 'wal_removed'}): changes since then are lost to the "
                "Subscribers. Drop the slot, create it again and `twopc reinitialise` every Subscriber; "
                "raise max_slot_wal_keep_size or idle_replication_slot_timeout"
            )
        if self.plugin != PLUGIN or self.two_phase:
            what = f"plugin {self.plugin}" if self.plugin != PLUGIN else "two_phase"
            return (
                f"replication slot {self.name!r} is none of ours ({what}): drop it, or choose another "
                "name for the topology"
            )
        return None


async def look(connection: Connection, name: str) -> SlotState | None:
    """The slot as it is now; None if there is none of that name."""
    async with connection.cursor(row_factory=class_row(SlotState)) as cursor:
        await cursor.execute(_LOOK, (name,))
        return await cursor.fetchone()


async def strays(connection: Connection, registered: str | None) -> list[SlotState]:
    """Slots of ours in the database of `connection` that keep its log although they are not `registered`."""
    async with connection.cursor(row_factory=class_row(SlotState)) as cursor:
        await cursor.execute(_STRAYS, (f"{SLOT_PREFIX}%", registered))
        return await cursor.fetchall()


async def create(connection: Connection, name: str, *, timeout_ms: int = 30_000) -> str:
    """Create the slot in the database of `connection`; harmless if it is there and can be read.

    Whatever commits afterwards is in it. The publication must exist already.

    Args:
        connection: in autocommit mode, of a role with REPLICATION.
        timeout_ms: how long to wait for the transactions that are open in the cluster.

    Returns:
        From where on the log is read, a pg_lsn.

    Raises:
        ServerError: something prepared or open is in the way all that time (named), the slot of that name
            is unusable or another database's, or there is no room for one more.
    """
    result = await look(connection, name)
    if result is not None:
        return _usable(result, connection.info.dbname)
    command = sql.SQL("select lsn::text from pg_create_logical_replication_slot({}, {})").format(
        name, PLUGIN
    )
    cursor = await connection.execute(
        "select current_setting('statement_timeout'), current_setting('lock_timeout')"
    )
    before = await cursor.fetchone()
    await connection.execute(_SET_TIMEOUTS, (str(timeout_ms), "0"))
    try:
        cursor = await connection.execute(command)
        created = await cursor.fetchone()
        assert created is not None
        return str(created[0])
    except errors.QueryCanceled:
        cursor = await connection.execute(_IN_THE_WAY)
        there = ", ".join([text for (text,) in await cursor.fetchall()])
        raise ServerError(
            f"replication slot {name!r} could not be created within {timeout_ms} ms: it waits for what "
            f"is open anywhere in the cluster: {there or 'gone meanwhile; try again'}. Finish it "
            "(`twopc recover`, COMMIT PREPARED or ROLLBACK PREPARED) and try again"
        ) from None
    except errors.DuplicateObject:  # somebody was quicker
        result = await look(connection, name)
        if result is None:
            raise
        return _usable(result, connection.info.dbname)
    except (errors.ConfigurationLimitExceeded, errors.ObjectNotInPrerequisiteState) as error:
        raise ServerError(
            f"replication slot {name!r} cannot be created: {error.diag.message_primary}"
            + (f" ({error.diag.message_hint})" if error.diag.message_hint else "")
        ) from error
    finally:
        await connection.execute(_SET_TIMEOUTS, before)


def _usable(result: SlotState, database: str) -> str:
    if result.problem is not None:
        raise ServerError(result.problem)
    if result.database != database:
        raise ServerError(
            f"replication slot {result.name!r} is taken: it reads database {result.database!r}, not "
            f"{database!r}; choose another name for the topology"
        )
    assert result.confirmed_flush is not None  # a logical slot has one
    return result.confirmed_flush


async def drop(
    connection: Connection, name: str, *, timeout_ms: int = 5_000, end_reader: bool = False
) -> None:
    """Drop the slot; harmless if there is none.

    Args:
        end_reader: end the session of whoever reads it, who then finds it gone.

    Raises:
        ServerError: somebody (named) goes on reading it for `timeout_ms`.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout_ms / 1000
    while True:
        try:
            await connection.execute("select pg_drop_replication_slot(%s)", (name,))
            return
        except errors.UndefinedObject:
            return
        except errors.ObjectInUse as error:
            # its reader was closed just now, perhaps
            if loop.time() >= end:
                raise ServerError(
                    f"replication slot {name!r} cannot be dropped: {error.diag.message_primary}; "
                    "stop that log reader first"
                ) from error
        if end_reader:
            await connection.execute(_END_READER, (name,))
        await asyncio.sleep(_LOOK_EVERY_S)


async def horizon(connection: Connection) -> int:
    """The highest transaction id that was given so far: ask once the slot is there.

    A slot waits for transactions that have one, and not for those that only have a snapshot: what this
    snapshot did not see may be missing in the log.
    """
    row = await (await connection.execute(_HORIZON)).fetchone()
    assert row is not None
    return int(row[0])
