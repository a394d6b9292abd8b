"""A proxy between the two ends of a connection, which parses PostgreSQL's messages.

It can cut connections, swallow messages in one direction or both, tear a message in its middle, and hold back the
answer to a request: to lose it, or to run code before it arrives. Requests are identified by their text. A
connection is reliable, so a single message is never lost: either it arrives, or the connection is cut. Independent
of the ends.
"""

from __future__ import annotations

import asyncio
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal, Self

from psycopg import conninfo

from twopc.together import together

#: Codes of encryption requests in place of a protocol version, which are answered with one byte.
_ENCRYPT = (80877103, 80877104)
_CANCEL = 80877102
#: Messages of a client that the server answers up to ReadyForQuery.
_ENDS_REQUEST = b"QSF"
_READY = b"Z"
_LENGTH = struct.Struct("!I")

#: What is done with a watched answer.
Fate = Literal["pass", "lose"]


@dataclass(slots=True, kw_only=True, eq=False)
class WireWatch:
    """A watch for the answer to a request."""

    words: bytes
    """Text that identifies the request."""
    answered: Callable[[str], Awaitable[Fate]]
    """Called with the request's text when the server has answered, before the client receives the answer."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Line:
    """One connection through a wire."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    asked: deque[tuple[tuple[WireWatch, ...], str]] = field(default_factory=deque)
    """Requests without an answer; the first is the start of the session."""
    torn: set[str] = field(default_factory=set)
    """``requests`` and ``answers``: directions in which the next message is torn in its middle."""

    async def tear(self, end: asyncio.StreamWriter, message: bytes) -> None:
        """Send the first half of a message."""
        end.write(message[: len(message) // 2])
        await end.drain()

    def cut(self) -> None:
        for end in (self.client, self.server):
            end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Close both directions when either ends, for any reason."""
        self.cut()


class ServerWire:
    """A proxy for one server; its users connect to `host` and `port`."""

    host = "127.0.0.1"

    def __init__(self, dsn: str) -> None:
        parts = conninfo.conninfo_to_dict(dsn)
        self._there = (str(parts.get("host") or "localhost"), int(parts.get("port") or 5432))
        self._server: asyncio.Server
        self._lines: set[_Line] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._watches: list[WireWatch] = []
        self.port = 0
        self.has_swallowed = False
        """Whether a message was swallowed, so that an end waits."""
        self._is_cut = False
        self._is_silent = {"requests": False, "answers": False}

    async def open(self) -> None:
        """Start to listen."""
        self._server = await asyncio.start_server(self._connected, self.host, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Cut all connections and stop listening."""
        for line in self._lines:
            line.cut()
        self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def through(self, dsn: str) -> str:
        """Return a connection string that leads through this wire, without encryption."""
        return conninfo.make_conninfo(
            dsn, host=self.host, port=self.port, sslmode="disable", gssencmode="disable"
        )

    def watch(self, words: bytes, answered: Callable[[str], Awaitable[Fate]]) -> None:
        """Watch for the answer to the next request that contains these words."""
        self._watches.append(WireWatch(words=words, answered=answered))

    # -- faults ------------------------------------------------------------------------------------

    def cut(self) -> None:
        """Cut open connections, and refuse new ones."""
        self._is_cut = True
        for line in self._lines:
            line.cut()

    def swallow(self, *, requests: bool, answers: bool) -> None:
        """Swallow all messages of these directions from now on, without notice to either end."""
        self._is_silent = {"requests": requests, "answers": answers}

    def tear(self, *, requests: bool, answers: bool) -> None:
        """Send only the first half of the next message on each open connection, then cut the connection."""
        torn = {name for name, on in (("requests", requests), ("answers", answers)) if on}
        for line in self._lines:
            line.torn |= torn

    def mend(self) -> None:
        """Let all messages through again; a connection that has lost a message is cut."""
        for line in self._lines:
            line.torn.clear()
        if any(self._is_silent.values()):
            for line in self._lines:
                line.cut()
        self._is_cut = self.has_swallowed = False
        self._is_silent = {"requests": False, "answers": False}

    # -- one connection ----------------------------------------------------------------------------

    def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._connect(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.close()
            return
        try:
            there, to_there = await self._reach()
        except OSError:
            writer.close()
            return
        if self._is_cut:  # cut meanwhile
            writer.close()
            to_there.close()
            return
        line = _Line(client=writer, server=to_there)
        self._lines.add(line)
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                if await self._begin(line, reader, there):
                    await together(self._requests(line, reader), self._answers(line, there))
        finally:
            self._lines.discard(line)
            line.cut()

    async def _reach(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        host, port = self._there
        if host.startswith("/"):
            return await asyncio.open_unix_connection(PurePosixPath(host) / f".s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)

    async def _begin(
        self, line: _Line, reader: asyncio.StreamReader, there: asyncio.StreamReader
    ) -> bool:
        """Forward the first message, which has no type; return False if the connection ends with it."""
        while True:
            length = await reader.readexactly(4)
            body = await reader.readexactly(_LENGTH.unpack(length)[0] - 4)
            code = _LENGTH.unpack(body[:4])[0]
            if code in _ENCRYPT:
                line.client.write(b"N")  # encrypted messages could not be parsed
                continue
            line.server.write(length + body)
            if code == _CANCEL:
                await line.server.drain()
                return False
            line.asked.append(((), ""))
            return True

    async def _requests(self, line: _Line, reader: asyncio.StreamReader) -> None:
        text = b""
        with line, suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                kind, message = await _message(reader)
                if self._is_silent["requests"]:
                    self.has_swallowed = True
                    continue
                if "requests" in line.torn:
                    await line.tear(line.server, message)
                    break
                if kind in b"QP":
                    text += message[5:]
                if kind in _ENDS_REQUEST:
                    line.asked.append((self._watches_for(text), text.decode(errors="replace")))
                    text = b""
                line.server.write(message)
                await line.server.drain()

    def _watches_for(self, text: bytes) -> tuple[WireWatch, ...]:
        results = tuple(watch for watch in self._watches if watch.words in text.lower())
        self._watches = [watch for watch in self._watches if watch not in results]
        return results

    async def _answers(self, line: _Line, there: asyncio.StreamReader) -> None:
        held: list[bytes] = []
        with line, suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                kind, message = await _message(there)
                if self._is_silent["answers"]:
                    self.has_swallowed = True
                    continue
                if "answers" in line.torn:
                    await line.tear(line.client, message)
                    break
                watches, text = line.asked[0] if line.asked else ((), "")
                held.append(message)
                if watches and kind != _READY:
                    continue
                if "lose" in [await watch.answered(text) for watch in watches]:
                    break
                line.client.write(b"".join(held))
                held.clear()
                if kind == _READY and line.asked:
                    line.asked.popleft()
                await line.client.drain()


async def _message(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    """Read the next message; return its type, and the whole message."""
    head = await reader.readexactly(5)
    rest = await reader.readexactly(_LENGTH.unpack(head[1:])[0] - 4)
    return head[:1], head + rest
