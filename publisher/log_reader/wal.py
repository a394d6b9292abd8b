"""The Publisher's WAL on a server: a session that ensures a single log reader, and opens sources."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Self

from psycopg import AsyncConnection, errors

from twopc.drivers.channel import CopyChannel
from twopc.errors import ServerError, SlotInUseError
from twopc.log import get_logger
from twopc.lsn import lsn_text
from twopc.names import article_name
from twopc.publisher import slot as slots
from twopc.publisher.commands import Belonging, CommandBuilder
from twopc.publisher.filters import RowFilters
from twopc.publisher.log_reader.live import LiveSource
from twopc.publisher.log_reader.ports import LogReaderProfile
from twopc.publisher.log_reader.session import connect
from twopc.publisher.log_reader.sources import SlotPeek
from twopc.publisher.logical_publication import NAME
from twopc.publisher.pgoutput import RowMessage
from twopc.sql.exclusive import free_key, others

_log = get_logger(__name__)

_NAME = "'msrepl log reader of ' || %s"
_MAY_READ = "has_table_privilege(a.usesysid, 'msrepl.sysarticles', 'select')"
_FREE_KEY = free_key(_NAME, _MAY_READ)
#: The log readers of a slot.
LOG_READERS = others(_NAME, _MAY_READ)
#: The next transaction id, and the memory for decoding in kB: the requested one, or the server's setting if higher.
_LEARN = """
select pg_snapshot_xmax(pg_current_snapshot())::text::bigint, greatest(setting::bigint, %s)
from pg_settings where name = 'logical_decoding_work_mem'
"""
#: Callers of routines may be serializable transactions; the removal must not conflict with them.
_FORGET_CALLS = b"begin isolation level read committed; select msrepl.forget_calls(); commit"
#: Articles whose changes the log reader would not see.
_UNSEEN = """
select a.source_schema, a.source_object
from msrepl.sysarticles a join pg_class c on c.oid = a.objid
where not exists (select from pg_publication p join pg_publication_rel r on r.prpubid = p.oid
                  where p.pubname = %s and r.prrelid = a.objid)
order by a.article_id limit 1
"""
_LOOK = """
select (pg_current_wal_flush_lsn() - '0/0')::bigint,
       (pg_current_wal_insert_lsn() - '0/0')::bigint,
       (confirmed_flush_lsn - '0/0')::bigint
from pg_replication_slots where slot_name = %s
"""
_FLUSH = "select (pg_logical_emit_message(false, 'msrepl', '', true) - '0/0')::bigint"
_ADVANCE = "select pg_replication_slot_advance(%s, %s::pg_lsn)"


class ServerWal:
    """See `WalPort`.

    Args:
        connection: to the Publisher's database, as a role that may read the log.
        dsn, name: connection string and name of further sessions, which deliver messages.
        stopping: done when the log reader is told to stop.
    """

    def __init__(
        self, connection: AsyncConnection[Any], dsn: str, name: str, slot: str, reading: LogReaderProfile,
        stopping: asyncio.Future[Any] | None,
    ) -> None:  # fmt: skip
        self.connection = connection
        self.next_xid = 0
        self.sessions = {connection.info.backend_pid}
        """Process IDs of the backends; that of a closed session may continue for a moment."""
        self._dsn = dsn
        self._name = name
        self._slot = slot
        self._reading = reading
        self._stopping = stopping
        self._may_log_snapshot = True
        self._decoding: dict[str, str] = {}
        """Server settings of the sessions that decode."""

    @classmethod
    async def open(
        cls, dsn: str, name: str, publisher: str, slot: str, reading: LogReaderProfile,
        stopping: asyncio.Future[Any] | None,
    ) -> Self:  # fmt: skip
        """Connect, and take the slot. See `HostPort.open_wal`."""
        connection = await connect(dsn, name)
        try:
            made = cls(connection, dsn, name, slot, reading, stopping)
            await made._take_slot(publisher, reading.takeover_s)
            await made._check_publication(publisher)
            cursor = await connection.execute(_LEARN, (reading.decoding_bytes >> 10,))
            ((made.next_xid, memory_kb),) = await cursor.fetchall()
            made._decoding = {"logical_decoding_work_mem": f"{memory_kb}kB"}
            return made
        except BaseException:
            await connection.close()
            raise

    async def _take_slot(self, publisher: str, takeover_s: float) -> None:
        execute = self.connection.execute
        await execute("select set_config('lock_timeout', %s, false)", (f"{takeover_s}s",))
        ((*key, strangers),) = await (await execute(_FREE_KEY, (self._slot,))).fetchall()
        if strangers:
            _log.warning("strangers hold advisory locks of the log reader", holders=strangers)
        is_taken = True
        try:
            await execute("select pg_advisory_lock(%s, %s)", key)
        except errors.LockNotAvailable:
            is_taken = False
        other = await (await execute(LOG_READERS, (self._slot,))).fetchone()
        if other is not None or not is_taken:
            raise SlotInUseError(
                f"another log reader ({other[2] if other else 'gone just now'}) reads slot {self._slot!r} of "
                f"Publisher {publisher!r} (18752): stop it first"
            )
        await execute("select set_config('lock_timeout', '0', false)")
        result = await slots.look(self.connection, self._slot)
        if result is None:
            raise ServerError(
                f"replication slot {self._slot!r} does not exist at Publisher {publisher!r}: changes since "
                "it was dropped are lost to the Subscribers: `twopc reinitialise` every Subscriber"
            )
        if result.problem is not None:
            raise ServerError(result.problem)

    async def _check_publication(self, publisher: str) -> None:
        cursor = await self.connection.execute(_UNSEEN, (NAME,))
        row = await cursor.fetchone()
        if row is not None:
            raise ServerError(
                f"table {article_name(*row)} of Publisher {publisher!r} is not in PostgreSQL's publication "
                f"{NAME!r} any more: its changes since then are lost to the Subscribers. `twopc regenerate` "
                "the article, and `twopc reinitialise` its Subscribers"
            )

    async def look(self) -> tuple[int, int]:
        """See `WalPort.look`.

        Raises:
            ServerError: the slot was dropped.
        """
        cursor = await self.connection.execute(_LOOK, (self._slot,))
        row = await cursor.fetchone()
        if row is None:
            raise ServerError(f"replication slot {self._slot!r} was dropped while it was read")
        flushed, inserted, confirmed = row
        if inserted > flushed:
            # asynchronous commits (synchronous_commit = off): decoding shows only flushed log
            cursor = await self.connection.execute(_FLUSH)
            row = await cursor.fetchone()
            assert row is not None
            flushed = row[0]
        return flushed, confirmed

    async def log_snapshot(self) -> None:
        """See `WalPort.log_snapshot`; without the right to do so, the server logs snapshots by itself occasionally."""
        if self._may_log_snapshot:
            try:
                await self.connection.execute("select pg_log_standby_snapshot()")
            except errors.InsufficientPrivilege:  # the right may have been revoked meanwhile
                self._may_log_snapshot = False

    async def belongings(
        self, builder: CommandBuilder, changes: Sequence[RowMessage]
    ) -> list[Belonging]:
        """See `WalPort.belongings`."""
        return await RowFilters(self.connection, builder).belongings(changes)

    async def forget_calls(self) -> None:
        """See `WalPort.forget_calls`."""
        await self.connection.execute(_FORGET_CALLS)

    async def live(self) -> LiveSource:
        """See `WalPort.live`."""
        live = await LiveSource.open(
            self._dsn, self._name, self._slot, settings=self._decoding,
            timeout_s=self._reading.release_s, stopping=self._stopping,
        )  # fmt: skip
        self.sessions.add(live.channel.connection.info.backend_pid)
        return live

    async def peek(self, upto: int) -> SlotPeek:
        """See `WalPort.peek`."""
        channel = CopyChannel(await connect(self._dsn, self._name, settings=self._decoding))
        self.sessions.add(channel.connection.info.backend_pid)
        return SlotPeek(
            channel, self._slot, upto, self._reading.peek_messages,
            timeout_s=self._reading.release_s, advance=self._advance,
        )  # fmt: skip

    async def _advance(self, lsn: int) -> None:
        await self.connection.execute(_ADVANCE, (self._slot, lsn_text(lsn)))

    async def close(self) -> None:
        """Close the connection."""
        await self.connection.close()
