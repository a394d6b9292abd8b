"""Messages of the log, peeked at in bulk, and what this source shares with the live one.

Peeking is the faster way for a long backlog, but each peek decodes again what is not confirmed, and transactions
that began before it. It is therefore used for catching up: see `twopc.publisher.log_reader.live`.

Neither source interprets messages; both bound the size of the blocks that they return.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from psycopg import errors, sql

from twopc.drivers.channel import CopyChannel, EndOfCopy
from twopc.errors import RemoteProtocolError, ServerError, SlotInUseError
from twopc.lsn import lsn_text
from twopc.publisher.logical_publication import NAME
from twopc.publisher.pgoutput import PROTOCOL

BLOCK_MESSAGES = 2_000
BLOCK_BYTES = 1 << 20

_COPY_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
#: Signature, flags and length of an extension; then each row is a count of fields, a length and the field.
_COPY_HEADER = 19
_FIELD_AT = 6

_LOOK_EVERY_S = 0.01
#: Number of messages of the first peek, as they arrive only when all are decoded; each later one asks for twice as many.
_FIRST_MESSAGES = 20_000


class ServerWarnings:
    """Warnings of the server that it omits changes: if the publication is missing, the server only warns."""

    __slots__ = ("_text",)

    def __init__(self, channel: CopyChannel) -> None:
        self._text = ""
        channel.connection.add_notice_handler(self._noticed)

    def _noticed(self, diagnostic: errors.Diagnostic) -> None:
        if diagnostic.source_function == "LoadPublications":
            self._text = diagnostic.message_primary or "publication missing"

    def check(self) -> None:
        """Check that nothing was omitted so far (ServerError otherwise)."""
        if self._text:
            raise ServerError(
                f"the log cannot be read on: {self._text}. Changes committed while it was missing are lost to "
                "the Subscribers: create it again (`twopc regenerate` an article), drop the slot (`select "
                "pg_drop_replication_slot('...')`), and `twopc reinitialise` every Subscriber"
            )


class SlotPatience:
    """Waits for a slot whose session has just been cut off: its backend will release the slot when it ends, without
    notifying anyone.
    """

    def __init__(self, timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + timeout_s

    async def wait(self, error: errors.ObjectInUse) -> None:
        """Wait a moment; raise ServerError when the time is up (18752)."""
        if self._loop.time() >= self._end:
            raise SlotInUseError(
                f"{error.diag.message_primary} (18752): another log reader is at work; stop it first"
            ) from error
        await asyncio.sleep(_LOOK_EVERY_S)


class SlotPeek:
    """Peeks at a slot repeatedly, and moves the slot between two peeks. See `LogSourcePort`.

    Args:
        channel: a channel to the Publisher's database, used for nothing else.
        upto: LSN; transactions committed before it are returned.
        messages: maximum number of messages of a peek, which returns whole transactions, at least one; the first
            peeks ask for fewer.
        timeout_s: how long to wait for another session that reads the slot.
        advance: moves the slot.
    """

    def __init__(
        self, channel: CopyChannel, slot: str, upto: int, messages: int, *, timeout_s: float,
        advance: Callable[[int], Awaitable[None]],
    ) -> None:  # fmt: skip
        self._channel = channel
        self._slot = slot
        self._upto = upto
        self._messages = messages
        self._asked = _FIRST_MESSAGES // 2
        self._timeout_s = timeout_s
        self._advance = advance
        self._looking = False
        self._first = b""
        self._brought = 0
        """Number of messages that the current peek has returned."""
        self._warnings = ServerWarnings(channel)
        self.count = 0
        self.drained = False
        self.position = 0
        self.confirmed = 0
        self.pressed = False
        self._moved = 0

    @property
    def movable(self) -> bool:
        """Whether no peek is in progress."""
        return not self._looking

    async def begin(self) -> None:
        """Begin a peek.

        Raises:
            ServerError: another session still reads the slot (18752).
        """
        self._asked = min(2 * self._asked, self._messages)
        command = sql.SQL(
            "copy (select data from pg_logical_slot_peek_binary_changes({}, {}, {}, 'proto_version', {}, "
            "'publication_names', {})) to stdout (format binary)"
        ).format(self._slot, lsn_text(self._upto), self._asked, str(PROTOCOL), quoted(NAME))
        text = command.as_bytes(self._channel.connection)
        patience = SlotPatience(self._timeout_s)
        while True:
            try:
                await self._channel.begin_copy(text)
                first = await self._piece()
                break
            except errors.ObjectInUse as error:
                await self._channel.finish()
                await patience.wait(error)
        if first is None or first[: len(_COPY_SIGNATURE)] != _COPY_SIGNATURE:
            raise RemoteProtocolError("the server copies in a format that is not known here")
        self._looking, self._brought = True, 0
        self._first = bytes(first[_COPY_HEADER + _FIELD_AT :])

    async def _piece(self) -> memoryview | None:
        """Wait for the next piece of data and return it; None at the end."""
        try:
            while (data := self._channel.copied()) is None:
                await self._channel.readable()
        except EndOfCopy:
            await self._channel.finish()
            return None
        return data

    async def take(self) -> list[bytes]:
        """Return the next messages of a peek; `drained` is set when the peek has ended."""
        await asyncio.sleep(0)  # other tasks run although messages arrive without a pause
        if not self._looking:
            await self.begin()
        # the piece that ends the copy holds no message, nor does the first one of an empty peek
        block = [self._first] if self._first else []
        size, self._first = len(self._first), b""
        channel, append = self._channel, block.append
        arrived, copied = channel.pgconn.get_copy_data, channel.copied
        try:
            while len(block) < BLOCK_MESSAGES and size < BLOCK_BYTES:
                length, data = arrived(1)
                if length == -1:
                    raise EndOfCopy
                piece = data if length else copied()
                if piece is not None:
                    message = bytes(piece[_FIELD_AT:])
                    if message:
                        append(message)
                        size += len(message)
                elif block:
                    break
                else:
                    await self._channel.readable()
        except EndOfCopy:
            await self._channel.finish()
            self._looking = False
        self._warnings.check()
        self.count += len(block)
        self._brought += len(block)
        self.drained = not self._looking
        if self.drained and self._brought < self._asked:
            self.position = self._upto  # the peek has returned everything
        return block

    async def confirm(self, lsn: int, slot: int) -> None:
        """See `LogSourcePort.confirm`."""
        if slot > self._moved:
            await self._advance(slot)
            self._moved = slot
        self.confirmed = lsn

    async def close(self) -> None:
        """Close the connection."""
        await self._channel.close()


def quoted(name: str) -> str:
    """Return a name as an identifier in an option of the output plugin."""
    return sql.Identifier(name).as_string(None)
