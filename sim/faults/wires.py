"""What lies between two ends of a connection: a proxy that knows PostgreSQL's messages.

It can be cut, swallow what is sent in one direction or in both, tear a message in its middle, and hold back the
answer to a request: to lose it, or to let something happen before it arrives. Requests are told by their text; the world is a connection, so
a message never gets lost alone: either it arrives, or the connection is cut. It must not know who talks.
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

#: Codes in place of a protocol version, with one byte for an answer: may it be encrypted?
_ENCRYPT = (80877103, 80877104)
_CANCEL = 80877102
#: Messages of a client after which the server answers up to ReadyForQuery.
_ENDS_REQUEST = b"QSF"
_READY = b"Z"
_LENGTH = struct.Struct("!I")

#: What becomes of an answer that was waited for.
Fate = Literal["pass", "lose"]


@dataclass(slots=True, kw_only=True, eq=False)
class WireWatch:
    """Somebody waits for the answer to a request."""

    words: bytes
    """In its text."""
    answered: Callable[[str], Awaitable[Fate]]
    """Called with the request's text when the server has answered, before anybody hears of it."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Line:
    """One connection through a wire."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    asked: deque[tuple[tuple[WireWatch, ...], str]] = field(default_factory=deque)
    """Requests without an answer; the first is the start of the session."""
    torn: set[str] = field(default_factory=set)
    """``requests`` and ``answers``: the next of these is torn in its middle."""

    async def tear(self, end: asyncio.StreamWriter, message: bytes) -> None:
        """Let half of a message through, and nothing more."""
        end.write(message[: len(message) // 2])
        await end.drain()

    def cut(self) -> None:
        for end in (self.client, self.server):
            end.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Whichever way ends first, and however, ends the other."""
        self.cut()


class ServerWire:
    """A way to one server; whoever shall take it connects to `host` and `port`."""

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
        """Somebody waits for what does not come."""
        self._is_cut = False
        self._is_silent = {"requests": False, "answers": False}

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._connected, self.host, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Cut everything and listen no more."""
        for line in self._lines:
            line.cut()
        self._server.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    def through(self, dsn: str) -> str:
        """A connection string that leads through here, without encryption."""
        return conninfo.make_conninfo(
            dsn, host=self.host, port=self.port, sslmode="disable", gssencmode="disable"
        )

    def watch(self, words: bytes, answered: Callable[[str], Awaitable[Fate]]) -> None:
        """Wait for the next request that contains these words."""
        self._watches.append(WireWatch(words=words, answered=answered))

    # -- what goes wrong ---------------------------------------------------------------------------

    def cut(self) -> None:
        """Cut what is open, and let nobody through any more."""
        self._is_cut = True
        for line in self._lines:
            line.cut()

    def swallow(self, *, requests: bool, answers: bool) -> None:
        """From now on nothing arrives, and nobody is told."""
        self._is_silent = {"requests": requests, "answers": answers}

    def tear(self, *, requests: bool, answers: bool) -> None:
        """Of the next message on each connection that is open now, half the bytes arrive; then it is cut."""
        torn = {name for name, on in (("requests", requests), ("answers", answers)) if on}
        for line in self._lines:
            line.torn |= torn

    def mend(self) -> None:
        """Let everything through again; a connection that has lost something is cut."""
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
        if self._is_cut:  # meanwhile
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
        """The first message, which has no type; False if that was all."""
        while True:
            length = await reader.readexactly(4)
            body = await reader.readexactly(_LENGTH.unpack(length)[0] - 4)
            code = _LENGTH.unpack(body[:4])[0]
            if code in _ENCRYPT:
                line.client.write(b"N")  # what is encrypted could not be told apart
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
    """The next message: its type, and all of it."""
    head = await reader.readexactly(5)
    rest = await reader.readexactly(_LENGTH.unpack(head[1:])[0] - 4)
    return head[:1], head + rest
