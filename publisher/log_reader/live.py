"""Messages of the log, sent by the server as transactions are committed.

A replication session is held open. It costs nothing while nothing is committed, however much an open transaction
has written.

This module does not interpret messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Any, Self

import psycopg
from psycopg import errors, sql

from twopc.drivers.channel import CopyChannel, EndOfCopy
from twopc.publisher.log_reader.session import connect
from twopc.publisher.log_reader.sources import (
    BLOCK_BYTES,
    BLOCK_MESSAGES,
    ServerWarnings,
    SlotPatience,
    quoted,
)
from twopc.publisher.logical_publication import NAME
from twopc.publisher.pgoutput import PROTOCOL

_MESSAGE, _KEEPALIVE = b"wk"
_MESSAGE_AT = 25
_keepalive = Struct("!xqqB").unpack
_status = Struct("!cqqqqB").pack
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)


class LiveSource:
    """A replication session in which the server sends transactions as they are committed. See `LivePort`.

    Args:
        channel: a channel to the Publisher's database, in replication mode.
        stopping: done when the log reader is told to stop.
    """

    def __init__(self, channel: CopyChannel, stopping: asyncio.Future[Any] | None) -> None:
        self.channel = channel
        self._stopping = stopping
        self._warnings = ServerWarnings(channel)
        self._settled = False
        self._kept: list[bytes] = []
        self._kept_bytes = 0
        self.ended = False
        self.count = 0
        self.position = 0
        self.confirmed = 0
        self.pressed = False
        self.drained = False
        self._moved = 0
        """Position to which this session has moved the slot."""

    @classmethod
    async def open(
        cls, dsn: str, name: str, slot: str, *, settings: Mapping[str, str], timeout_s: float,
        stopping: asyncio.Future[Any] | None,
    ) -> Self:  # fmt: skip
        """Connect, and have the server send what is not confirmed yet.

        Args:
            settings: further server settings of the session.

        Raises:
            ServerError: another session still reads the slot after `timeout_s` (18752).
        """
        command = sql.SQL(
            "START_REPLICATION SLOT {} LOGICAL 0/0 (proto_version {}, publication_names {})"
        ).format(sql.Identifier(slot), str(PROTOCOL), quoted(NAME))
        patience = SlotPatience(timeout_s)
        while True:
            channel = CopyChannel(
                await connect(dsn, name, settings=settings, replication="database")
            )
            try:
                await channel.begin_copy(command.as_bytes(channel.connection))
                return cls(channel, stopping)
            except errors.ObjectInUse as error:
                await channel.close()
                await patience.wait(error)
            except BaseException:
                await channel.close()
                raise

    @property
    def movable(self) -> bool:
        """Always: the slot can be moved at any time."""
        return True

    async def take(self) -> list[bytes]:
        """Return the messages that have arrived since the last call, a bounded number of them."""
        await asyncio.sleep(0)  # other tasks run although messages arrive without a pause
        block, size = self._kept, self._kept_bytes
        self._kept, self._kept_bytes = [], 0
        channel, append = self.channel, block.append
        arrived, copied = channel.pgconn.get_copy_data, channel.copied
        self.drained = False
        try:
            while len(block) < BLOCK_MESSAGES and size < BLOCK_BYTES:
                length, data = arrived(1)
                if length == -1:
                    raise EndOfCopy
                if not length:
                    result = copied()
                    if result is None:
                        self.drained = True
                        break
                    data = result
                if data[0] == _MESSAGE:
                    message = bytes(data[_MESSAGE_AT:])
                    append(message)
                    size += len(message)
                elif self._alive(data):
                    self.pressed = self._moved < self.position
                    await self._report(ask=False)
        except EndOfCopy:
            await self.channel.finish()
            raise errors.AdminShutdown("the server has ended the replication session") from None
        self._warnings.check()
        self.count += len(block)
        return block

    async def ask(self) -> None:
        """See `LivePort.ask`; `position` shows when the answer has arrived."""
        await self._report(ask=True)

    async def wait(self) -> None:
        """See `LivePort.wait`."""
        await self.channel.readable(self._stopping)

    async def confirm(self, lsn: int, slot: int) -> None:
        """See `LogSourcePort.confirm`."""
        self.confirmed = lsn
        self._moved = max(self._moved, slot)
        self.pressed = False
        await self._report(ask=False)

    def _alive(self, data: memoryview) -> bool:
        """Process a keepalive message, and return whether the server requests an answer."""
        if data[0] != _KEEPALIVE:
            return False
        position, _, asked = _keepalive(data)
        self.position = max(self.position, position)
        return bool(asked)

    async def _report(self, *, ask: bool) -> None:
        """Tell the server what is stored, which it shows as written, and where the slot may move to, as flushed."""
        self._put(ask=ask)
        await self.channel.flush()

    def _put(self, *, ask: bool) -> None:
        now = (datetime.now(UTC) - _EPOCH) // timedelta(microseconds=1)
        status = _status(b"r", self.confirmed, self._moved, self._moved, now, ask)
        self.channel.pgconn.put_copy_data(status)

    # -- between reads ---------------------------------------------------------------------------

    def leave(self, *, settled: bool) -> None:
        """Answer the server in the background until `resume`.

        A server that shuts down waits for its replication sessions to confirm everything; without answers it would
        wait for `wal_sender_timeout`.

        Args:
            settled: everything that was taken is stored.
        """
        if not self.ended:
            self._settled = settled
            self.channel.watch(self._attend)
            self._attend()  # data that has arrived makes the socket readable no more

    def resume(self) -> None:
        """End the answers in the background, before messages are taken again."""
        self.channel.unwatch()

    def _attend(self) -> None:
        try:
            while (data := self.channel.copied()) is not None:
                if data[0] == _MESSAGE:
                    message = bytes(data[_MESSAGE_AT:])
                    self._kept.append(message)
                    self._kept_bytes += len(message)
                    if len(self._kept) >= BLOCK_MESSAGES or self._kept_bytes >= BLOCK_BYTES:
                        self._end()  # too much to keep in memory; the next read may peek instead
                        return
                elif self._alive(data):
                    if self._kept or not self._settled or self.position > self._moved:
                        # not all of it is stored, or the slot's limit is to be raised first; the server may shut
                        # down without us
                        self._end()
                        return
                    self._put(ask=False)
                    self.channel.pgconn.flush()
        except (psycopg.Error, EndOfCopy):
            self._end()

    def _end(self) -> None:
        self.resume()
        self.ended = True
        self.channel.pgconn.finish()

    async def close(self) -> None:
        """Close the connection; the server releases the slot when it notices."""
        await self.channel.close()
