"""The replication slot that keeps a Publisher's log until it is read: creation, removal, inspection.

The module knows neither the content of the log nor its reader.
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

#: Creation of a slot waits for every open transaction in the cluster, and a prepared transaction may stay open
#: indefinitely.
_OPEN_TRANSACTIONS = """
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
       (pg_current_wal_flush_lsn() - greatest(confirmed_flush_lsn, write_lsn))::bigint as lag_bytes,
       (pg_current_wal_flush_lsn() - restart_lsn)::bigint as retained_bytes,
       -- its session is idle while it has confirmed what was sent; without a session all of it is unread
       case when not active and confirmed_flush_lsn < pg_current_wal_flush_lsn()
            then greatest(extract(epoch from clock_timestamp() - inactive_since), 0)
            when greatest(confirmed_flush_lsn, write_lsn) < sent_lsn
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
    """State of a slot, as the server shows it."""

    name: str
    database: str | None
    active: bool
    active_pid: int | None
    """Backend that reads the slot."""
    plugin: str | None
    two_phase: bool
    restart_lsn: str | None
    """Position from which the server keeps its log for the slot; an open transaction holds it back."""
    confirmed_flush: str | None
    """Position before which committed transactions are not sent again."""
    wal_status: str | None
    """``reserved``, ``extended`` (beyond max_wal_size), ``unreserved`` (about to be lost) or ``lost``."""
    safe_wal_size: int | None
    """Number of bytes that can be written before the slot may be lost; None if there is no limit."""
    invalidation_reason: str | None
    """Why the slot can no longer be read: ``wal_removed``, ``idle_timeout`` ..."""
    inactive_since: datetime | None
    lag_bytes: int | None
    """Length of log that is not confirmed as read. Without a session, it can include some that was read: see
    `twopc.publisher.log_reader`.
    """
    retained_bytes: int | None
    """Length of log kept for the slot."""
    unread_s: float | None
    """Time for which there has been unconfirmed log: since the last answer of the slot's reader, by the reader's
    clock, or since the slot has had no reader. None if all sent log is confirmed, or the log is peeked at.
    """

    @property
    def unread_bytes(self) -> int:
        """Length of log that the reader leaves unread; 0 while it keeps up with the log that is sent."""
        return 0 if self.unread_s is None else self.lag_bytes or 0

    @property
    def drop_statement(self) -> str:
        """Statement that drops the slot; a slot's name contains no characters that need quoting."""
        return f"select pg_drop_replication_slot('{self.name}')"

    @property
    def is_lost(self) -> bool:
        """Whether the server has removed log that the slot needs."""
        return self.invalidation_reason is not None or self.wal_status == "lost"

    @property
    def problem(self) -> str | None:
        """Problem of the slot, with the remedy; None if the slot can be read."""
        if self.is_lost:
            return (
                f"replication slot {self.name!r} was invalidated by the server "
                f"({self.invalidation_reason or 'wal_removed'}): changes since then are lost to the "
                "Subscribers. Raise max_slot_wal_keep_size or idle_replication_slot_timeout, and `twopc "
                "reinitialise` every Subscriber"
            )
        if self.plugin != PLUGIN or self.two_phase:
            what = f"plugin {self.plugin}" if self.plugin != PLUGIN else "two_phase"
            return (
                f"replication slot {self.name!r} is none of ours ({what}): drop it, or choose another "
                "name for the topology"
            )
        return None


def gap_text(publisher: str, begins: str, limit: str) -> str:
    """Return a text about a slot that begins at a position beyond its limit, with the remedy."""
    return (
        f"the replication slot of Publisher {publisher!r} begins at {begins}, and the distribution database has its log "
        f"up to {limit} only: the slot was created again or moved, or the distribution database was restored from a "
        "backup. What was committed in between is lost to the Subscribers: `twopc reinitialise` every Subscriber"
    )


async def look(connection: Connection, name: str) -> SlotState | None:
    """Return the current state of a slot; None if it does not exist."""
    async with connection.cursor(row_factory=class_row(SlotState)) as cursor:
        await cursor.execute(_LOOK, (name,))
        return await cursor.fetchone()


async def strays(connection: Connection, registered: str | None) -> list[SlotState]:
    """Return the product's slots in the connection's database that keep its log but are not `registered`."""
    async with connection.cursor(row_factory=class_row(SlotState)) as cursor:
        await cursor.execute(_STRAYS, (f"{SLOT_PREFIX}%", registered))
        return await cursor.fetchall()


async def create(connection: Connection, name: str, *, timeout_ms: int = 30_000) -> str:
    """Create the slot in the connection's database; does nothing if it exists and can be read.

    Transactions that commit afterwards are decoded. The publication must exist already.

    Args:
        connection: in autocommit mode, of a role with REPLICATION.
        timeout_ms: time to wait for open transactions in the cluster.

    Returns:
        Position from which the log is read, a pg_lsn.

    Raises:
        ServerError: a prepared or open transaction (named) prevents creation until the timeout, the slot of that
            name is unusable or another database's, or no further slot can be created.
    """
    result = await look(connection, name)
    if result is not None:
        return usable(result, connection.info.dbname)
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
        cursor = await connection.execute(_OPEN_TRANSACTIONS)
        there = ", ".join([text for (text,) in await cursor.fetchall()])
        raise ServerError(
            f"replication slot {name!r} could not be created within {timeout_ms} ms: it waits for what "
            f"is open anywhere in the cluster: {there or 'gone meanwhile; try again'}. Finish it "
            "(`twopc recover`, COMMIT PREPARED or ROLLBACK PREPARED) and try again"
        ) from None
    except errors.DuplicateObject:  # another session has created it
        result = await look(connection, name)
        if result is None:
            raise
        return usable(result, connection.info.dbname)
    except (errors.ConfigurationLimitExceeded, errors.ObjectNotInPrerequisiteState) as error:
        raise ServerError(
            f"replication slot {name!r} cannot be created: {error.diag.message_primary}"
            + (f" ({error.diag.message_hint})" if error.diag.message_hint else "")
        ) from error
    finally:
        await connection.execute(_SET_TIMEOUTS, before)


def usable(result: SlotState, database: str) -> str:
    """Return the position at which a slot begins, a pg_lsn.

    Raises:
        ServerError: it cannot be read, or reads another database.
    """
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
    """Drop the slot, if it exists.

    Args:
        end_reader: whether to terminate the session that reads the slot.

    Raises:
        ServerError: a session (named) still reads the slot after `timeout_ms`.
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
            # its reader may just have been closed
            if loop.time() >= end:
                raise ServerError(
                    f"replication slot {name!r} cannot be dropped: {error.diag.message_primary}; "
                    "stop that log reader first"
                ) from error
        if end_reader:
            await connection.execute(_END_READER, (name,))
        await asyncio.sleep(_LOOK_EVERY_S)


async def horizon(connection: Connection) -> int:
    """Return the highest transaction id assigned so far; call this once the slot exists.

    The creation of a slot waits for transactions that have an id, but not for those that only have a snapshot: a
    transaction that such a snapshot did not see may be missing in the log.
    """
    row = await (await connection.execute(_HORIZON)).fetchone()
    assert row is not None
    return int(row[0])
