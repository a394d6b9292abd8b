"""Where messages of the log come from: peeked at in one go, or sent while they are made.

Peeking is the faster one for a long log, because messages come in bulk; but each look decodes again what is
not confirmed, and what was begun before it. So it is for catching up. The live source holds a session open in
which the server sends what is committed from then on; while nothing is committed it costs nothing, however
much an open transaction has written.

Neither knows what messages mean, but that blocks of them are of a bounded size.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from struct import Struct
from typing import Self

from psycopg import errors, sql

from publisher.log_reader.session import connect
from publisher.log_reader.wire import EndOfCopy, Wire
from publisher.logical_publication import NAME
from publisher.pgoutput import PROTOCOL
from twopc.errors import RemoteProtocolError, ServerError

BLOCK_MESSAGES = 2_000
BLOCK_BYTES = 1 << 20

_COPY_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
#: Signature, flags and length of an extension; then each row is a count of fields, a length and the field.
_COPY_HEADER = 19
_FIELD_AT = 6

_MESSAGE, _KEEPALIVE = b"wk"
_MESSAGE_AT = 25
_keepalive = Struct("!xqqB").unpack
_status = Struct("!cqqqqB").pack
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_LOOK_EVERY_S = 0.01


def lsn_text(lsn: int) -> str:
    """A position of the log as the server writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


class _Warnings:
    """Hears the server say that it leaves changes out: where the publication is missing, it only warns."""

    __slots__ = ("_text",)

    def __init__(self, wire: Wire) -> None:
        self._text = ""
        wire.connection.add_notice_handler(self._noticed)

    def _noticed(self, diagnostic: errors.Diagnostic) -> None:
        if diagnostic.source_function == "LoadPublications":
            self._text = diagnostic.message_primary or "publication missing"

    def check(self) -> None:
        """Nothing was left out so far (ServerError if something was)."""
        if self._text:
            raise ServerError(
                f"the log cannot be read on: {self._text}. Changes committed while it was missing are lost to "
                "the Subscribers: create it again (`twopc regenerate` an article), drop the slot, and "
                "reinitialise every subscription"
            )


class _Patience:
    """Waits for a slot that a session holds which was cut off just now: its server process is about to go,
    and the server tells nobody when it has."""

    def __init__(self, timeout_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.time() + timeout_s

    async def wait(self, error: errors.ObjectInUse) -> None:
        if self._loop.time() >= self._end:
            raise ServerError(
                f"{error.diag.message_primary} (18752): another log reader is at work; stop it first"
            ) from error
        await asyncio.sleep(_LOOK_EVERY_S)


class Peek:
    """Looks at what a slot has, without confirming it.

    Args:
        wire: to the Publisher's database; used for nothing else while a look is open.
    """

    __slots__ = ("_first", "_limit", "_looking", "_slot", "_warnings", "count", "wire")

    def __init__(self, wire: Wire, slot: str) -> None:
        self.wire = wire
        self._slot = slot
        self._limit = 0
        self._looking = False
        self._first = b""
        self._warnings = _Warnings(wire)
        self.count = 0
        """How many messages the present look has brought."""

    @classmethod
    async def open(cls, dsn: str, name: str, slot: str) -> Self:
        """Connect."""
        return cls(Wire(await connect(dsn, name)), slot)

    async def begin(self, upto: int, messages: int, *, timeout_s: float) -> None:
        """Begin to look at the transactions committed before `upto`; not at more than fit into so many
        messages, but at whole ones, and at one at least.

        Raises:
            ServerError: somebody else goes on reading the slot for `timeout_s` (18752).
        """
        command = sql.SQL(
            "copy (select data from pg_logical_slot_peek_binary_changes({}, {}, {}, 'proto_version', {}, "
            "'publication_names', {})) to stdout (format binary)"
        ).format(self._slot, lsn_text(upto), messages, str(PROTOCOL), _quoted(NAME))
        text = command.as_bytes(self.wire.connection)
        patience = _Patience(timeout_s)
        while True:
            try:
                await self.wire.begin_copy(text)
                first = await self._piece()
                break
            except errors.ObjectInUse as error:
                await self.wire.finish()
                await patience.wait(error)
        if first is None or first[: len(_COPY_SIGNATURE)] != _COPY_SIGNATURE:
            raise RemoteProtocolError("the server copies in a format that is not known here")
        self._limit, self._looking, self.count = messages, True, 0
        self._first = bytes(first[_COPY_HEADER + _FIELD_AT :])

    async def _piece(self) -> memoryview | None:
        """The next piece of data, waited for; None: there is no more."""
        try:
            while (data := self.wire.copied()) is None:
                await self.wire.readable()
        except EndOfCopy:
            await self.wire.finish()
            return None
        return data

    async def block(self) -> list[bytes]:
        """The next messages; none: the look is over.

        Raises:
            ServerError: the server leaves changes out.
        """
        # the piece that ends the copy holds no message, nor does the first one of an empty look
        block = [self._first] if self._first else []
        size, self._first = len(self._first), b""
        append, copied = block.append, self.wire.copied
        try:
            while self._looking and len(block) < BLOCK_MESSAGES and size < BLOCK_BYTES:
                data = copied()
                if data is not None:
                    message = bytes(data[_FIELD_AT:])
                    if message:
                        append(message)
                        size += len(message)
                elif block:
                    break
                else:
                    await self.wire.readable()
        except EndOfCopy:
            await self.wire.finish()
            self._looking = False
        self._warnings.check()
        self.count += len(block)
        return block

    @property
    def exhausted(self) -> bool:
        """Whether the look that is over has brought all there was."""
        return self.count < self._limit

    async def close(self) -> None:
        """Close its connection."""
        await self.wire.close()


class Live:
    """A replication session: the server sends transactions as they are committed.

    Args:
        wire: to the Publisher's database, in replication mode.
    """

    __slots__ = ("_confirmed", "_warnings", "count", "drained", "position", "wire")

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self._confirmed = 0
        self._warnings = _Warnings(wire)
        self.count = 0
        """How many messages have arrived."""
        self.position = 0
        """Everything committed before has arrived."""
        self.drained = False
        """The last `take` has left nothing that had arrived."""

    @classmethod
    async def open(cls, dsn: str, name: str, slot: str, *, timeout_s: float) -> Self:
        """Connect and have the server send what is not confirmed yet.

        Raises:
            ServerError: somebody else goes on reading the slot for `timeout_s` (18752).
        """
        command = sql.SQL(
            "START_REPLICATION SLOT {} LOGICAL 0/0 (proto_version {}, publication_names {})"
        ).format(sql.Identifier(slot), str(PROTOCOL), _quoted(NAME))
        patience = _Patience(timeout_s)
        while True:
            wire = Wire(await connect(dsn, name, replication="database"))
            try:
                await wire.begin_copy(command.as_bytes(wire.connection))
                return cls(wire)
            except errors.ObjectInUse as error:
                await wire.close()
                await patience.wait(error)
            except BaseException:
                await wire.close()
                raise

    async def take(self) -> list[bytes]:
        """The messages that have arrived and were not taken yet, a bounded number of them.

        Raises:
            ServerError: the server leaves changes out.
        """
        block: list[bytes] = []
        size = 0
        append, copied = block.append, self.wire.copied
        self.drained = False
        try:
            while len(block) < BLOCK_MESSAGES and size < BLOCK_BYTES:
                data = copied()
                if data is None:
                    self.drained = True
                    break
                if data[0] == _MESSAGE:
                    message = bytes(data[_MESSAGE_AT:])
                    append(message)
                    size += len(message)
                elif data[0] == _KEEPALIVE:
                    position, _, asked = _keepalive(data)
                    self.position = max(self.position, position)
                    if asked:
                        await self._say(self._confirmed, ask=False)
        except EndOfCopy:
            await self.wire.finish()
            raise errors.AdminShutdown("the server has ended the replication session") from None
        self._warnings.check()
        self.count += len(block)
        return block

    async def ask(self) -> None:
        """Have the server say how far it has come; `position` tells when it has."""
        await self._say(self._confirmed, ask=True)

    async def confirm(self, lsn: int) -> bool:
        """Let the slot move to `lsn`: everything committed before is stored. False: it was told before."""
        if lsn <= self._confirmed:
            return False
        self._confirmed = lsn
        await self._say(lsn, ask=False)
        return True

    async def _say(self, lsn: int, *, ask: bool) -> None:
        now = (datetime.now(UTC) - _EPOCH) // timedelta(microseconds=1)
        self.wire.pgconn.put_copy_data(_status(b"r", lsn, lsn, lsn, now, ask))
        await self.wire.flush()

    async def close(self) -> None:
        """Close its connection; the server lets the slot go when it notices."""
        await self.wire.close()


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string(None)
