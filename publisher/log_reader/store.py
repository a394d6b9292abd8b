"""Storage of read transactions in the distribution database: whole transactions, and the mark in the same commit.

A large transaction is stored in parts, each in a commit of its own; parts have no effect before the last one.
The module must not know how rows are made.
"""

from __future__ import annotations

from typing import Any, Self

import psycopg
from psycopg import AsyncConnection, errors, sql

from twopc.drivers.channel import CopyChannel
from twopc.drivers.points import Points
from twopc.errors import OutdatedError, SubscriptionError
from twopc.lsn import lsn_text
from twopc.publisher.commands import CommandBuilder
from twopc.publisher.distribution import articles, called, proc_articles
from twopc.publisher.log_reader import rows
from twopc.publisher.log_reader.planner import ReaderArticles, StoredBatch
from twopc.publisher.log_reader.rows import StoredPart
from twopc.publisher.log_reader.session import connect

_BEGIN = sql.SQL("begin;")
_COPY = sql.SQL("copy {} from stdin (format binary);").format(sql.SQL(rows.BLOCKS))

_REMARK = sql.SQL("""
update msrepl.msrepl_blocks
set command_originators = array_fill({originator}::integer, array[commands])
where publisher_database_id = {publisher} and last_seqno = {seqno} and transactions = 0;
update msrepl.mspublisher_databases set open_count = open_count + 1 where id = {publisher};
""")
_TOKEN = sql.SQL("""
insert into msrepl.mstracer_tokens as t
    (publisher_database_id, tracer_id, publisher_commit, distributor_commit)
values ({publisher}, {id}, {time}, clock_timestamp())
on conflict (publisher_database_id, tracer_id) do update
set (publisher_commit, distributor_commit) = (excluded.publisher_commit, excluded.distributor_commit);
""")
_TRUNCATED = sql.SQL("""
insert into msrepl.msdistribution_history
    (publisher_database_id, event, xact_seqno, message, command)
values ({publisher}, 'skipped', {seqno}, {message}, {command});
""")
_FALLBACK = sql.SQL("""
insert into msrepl.msdistribution_history
    (publisher_database_id, event, xact_seqno, message, command)
select {publisher}, 'rows', {seqno}, {message}, 'call of ' || a.source_schema || '.' || a.source_object
from msrepl.msarticles a where a.publisher_database_id = {publisher} and a.article_id = {article};
""")
#: A crash of the server may lose parts, but it ends the log reader's session too, and a new one begins again.
_BEGIN_PART = sql.SQL("begin; set local synchronous_commit = off;")
_PART = sql.SQL("""
select msrepl.part_was_read({publisher}, {was}, {version}, {seqno}, {xid}::text::xid8, {originator}, {begins});
commit;
""")
_END = sql.SQL("""
select msrepl.log_was_read({publisher}, {was}, {version}, {read_to}, {time}, {horizon}::text::xid8, {ends_parts},
    {slot_limit});
commit;
""")
#: PostgreSQL's timestamps count microseconds from this time.
_TIME = sql.SQL("timestamptz '2000-01-01 00:00:00+00' + {} * interval '1 microsecond'")


#: Rows are stored beside calls for immediate updating Subscribers always, for read-only ones while one is copied.
_BESIDE_UNTIL = """
select case when bool_or(s.update_mode = 'sync tran' or s.status <> 2) then 9223372036854775807
            else coalesce((max(s.copy_seqno) - '0/0')::bigint, -1) end
from msrepl.mssubscriptions s where s.publisher_database_id = %s
"""
_NOTE = """
update msrepl.mspublisher_databases set horizon = greatest(horizon, %(horizon)s::text::xid8)
where id = %(publisher)s
"""

_OPEN = """
select id, (msrepl.drop_parts(id) - '0/0')::bigint, (last_seqno - '0/0')::bigint,
    coalesce(extract(epoch from last_commit - timestamptz '2000-01-01 00:00:00+00') * 1000000, 0)::bigint,
    (slot_limit - '0/0')::bigint
from msrepl.mspublisher_databases where publisher = %s
"""
_LIMIT = "update msrepl.mspublisher_databases set slot_limit = %(limit)s where id = %(publisher)s"


class ServerStore:
    """The distribution database on a server. See `StorePort`.

    Args:
        channel: to the distribution database.
        publisher: number of the Publisher in the distribution database.
        read_to, last_seqno, last_commit_us, slot_limit: see `StorePort`.
    """

    def __init__(
        self, channel: CopyChannel, points: Points, publisher: int, read_to: int, last_seqno: int, last_commit_us: int,
        slot_limit: int,
    ) -> None:  # fmt: skip
        self._channel = channel
        self._points = points
        self._version = -1
        self.streaming = False
        self.publisher = publisher
        self.read_to = read_to
        self.last_seqno = last_seqno
        self.last_commit_us = last_commit_us
        self.slot_limit = slot_limit

    @classmethod
    async def open(cls, dsn: str, name: str, publisher: str, points: Points) -> Self:
        """Connect to the distribution database.

        Raises:
            SubscriptionError: the distribution database does not know the Publisher.
            OutdatedError: the distribution database was installed by an earlier version.
        """
        connection = await connect(dsn, name)
        try:
            cursor = await connection.execute(_OPEN, (publisher,))
            row = await cursor.fetchone()
            if row is None:
                raise SubscriptionError(
                    f"the distribution database does not know Publisher {publisher!r}: create a "
                    "subscription first"
                )
            return cls(CopyChannel(connection), points, *row)
        except BaseException as error:
            await connection.close()
            if isinstance(error, psycopg.Error) and error.sqlstate in OutdatedError.SQLSTATES:
                raise OutdatedError.for_missing(str(error.diag.message_primary)) from error
            raise

    @property
    def connection(self) -> AsyncConnection[Any]:
        """Connection for other statements, while no rows are being stored."""
        return self._channel.connection

    async def registry(self) -> ReaderArticles:
        """See `StorePort.registry`."""
        async with self.connection.transaction():
            await self.connection.execute("set transaction isolation level repeatable read")
            cursor = await self.connection.execute(
                "select registry_version, horizon::text::bigint from msrepl.mspublisher_databases where id = %s",
                (self.publisher,),
            )
            row = await cursor.fetchone()
            assert row is not None
            builder = CommandBuilder(await articles(self.connection, self.publisher))
            cursor = await self.connection.execute(
                "select link_role, id from msrepl.msrepl_originators where publisher_database_id = %s",
                (self.publisher,),
            )
            originators = dict(await cursor.fetchall())
            routines = await proc_articles(self.connection, self.publisher)
            numbers = await called(self.connection, self.publisher) if routines else frozenset()
            cursor = await self.connection.execute(_BESIDE_UNTIL, (self.publisher,))
            until = await cursor.fetchone()
            assert until is not None
        self._version = row[0]
        return ReaderArticles(
            builder=builder,
            originators=originators,
            calls={each.article_id: each for each in routines if each.article_id in numbers},
            beside_until=until[0],
            horizon=row[1],
        )

    async def check(self, horizon: int) -> None:
        """See `StorePort.check`."""
        cursor = await self.connection.execute(
            "select registry_version from msrepl.mspublisher_databases where id = %s",
            (self.publisher,),
        )
        if await cursor.fetchone() != (self._version,):
            raise errors.SerializationFailure("articles were changed while the log was read")
        if horizon:
            await self.connection.execute(_NOTE, {"publisher": self.publisher, "horizon": horizon})

    async def write(self, part: StoredPart) -> None:
        """See `StorePort.write`."""
        end = _PART.format(
            publisher=self.publisher,
            was=lsn_text(self.read_to),
            version=self._version,
            seqno=lsn_text(part.seqno),
            xid=part.xid,
            originator=part.originator,
            begins=not self.streaming,
        )
        await self._copy(_BEGIN_PART, part.blocks, end)
        self.streaming = True
        await self._reach("log_reader.streamed")

    async def commit(self, batch: StoredBatch) -> None:
        """See `StorePort.commit`."""
        await self._copy(_BEGIN, batch.blocks, self._statements_after(batch))
        self.streaming = False
        self.read_to = batch.read_to
        self.slot_limit = max(self.slot_limit, batch.end_lsn)

    async def raise_slot_limit(self, lsn: int) -> None:
        """See `StorePort.raise_slot_limit`."""
        await self.connection.execute(_LIMIT, {"publisher": self.publisher, "limit": lsn_text(lsn)})
        self.slot_limit = lsn

    async def _copy(self, begin: sql.SQL, blocks: list[bytes], end: sql.Composed) -> None:
        """Run one transaction: COPY rows, then execute the statements after them."""
        begin_copy = begin + _COPY
        if not self._points.armed:
            command = (begin_copy + end).as_bytes(None)
            await self._channel.run(command, [[rows.HEADER, *blocks, rows.TRAILER]])
            return
        await self._channel.begin_copy(begin_copy.as_bytes(None))
        await self._channel.copy_in([rows.HEADER])
        await self._reach("log_reader.before_blocks")
        await self._channel.copy_in([*blocks, rows.TRAILER])
        await self._channel.end_copy()
        await self._channel.finish()
        await self._reach("log_reader.before_commit")
        await self._channel.run(end.as_bytes(None), [])

    async def _reach(self, point: str) -> None:
        if self._points.armed:
            await self._points.reach(point)

    def _statements_after(self, batch: StoredBatch) -> sql.Composed:
        """Return the statements after the rows; the last one is COMMIT."""
        texts: list[sql.Composable] = [
            _REMARK.format(originator=originator, publisher=self.publisher, seqno=lsn_text(seqno))
            for seqno, originator in batch.remarked
        ]
        texts += [
            _TOKEN.format(publisher=self.publisher, id=token.id, time=_TIME.format(token.time_us))
            for token in batch.tokens
        ]
        texts += [
            _TRUNCATED.format(
                publisher=self.publisher,
                seqno=lsn_text(seqno),
                command=f"TRUNCATE {table}",
                message=f"table {table} was emptied at the Publisher past the trigger that refuses it: its "
                "rows are still at the Subscribers; `twopc validate --repair` them, or `twopc reinitialise`",
            )
            for seqno, table in batch.truncated
        ]
        texts += [
            _FALLBACK.format(
                publisher=self.publisher,
                seqno=lsn_text(seqno),
                article=article,
                message="the caller's snapshot is older than a transaction that was committed before it and wrote "
                "what the routine reads or writes: run again at a Subscriber, it would come to something else",
            )
            for seqno, article in batch.fallbacks
        ]
        end = _END.format(
            publisher=self.publisher,
            was=lsn_text(self.read_to),
            version=self._version,
            read_to=lsn_text(batch.read_to),
            time=_TIME.format(batch.time_us),
            horizon=batch.horizon,
            ends_parts=self.streaming,
            slot_limit=lsn_text(batch.end_lsn),
        )
        return sql.SQL("").join([*texts, end])

    async def close(self) -> None:
        """Close the connection, discarding uncommitted rows."""
        await self._channel.close()
