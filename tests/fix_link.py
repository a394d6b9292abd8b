"""Fixtures for the link: a Publisher and a Subscriber on separate servers, observed at both.

The servers live as long as the tests of a module, because these crash, freeze and reconfigure them.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import psycopg
import pytest

from tests.fix_server import is_ours
from tests.fix_topology import Pair
from twopc.errors import conflict_facts
from twopc.names import PREFIX
from twopc.server import EmbeddedServer
from twopc.server.polling import wait_for
from twopc.sim.topology import Topology
from twopc.waits import link_name

Seen = TypeVar("Seen")

_count = itertools.count(1)

_LINK = """
select pid, state, wait_event_type = 'Lock' as waits, backend_xid is not null as writes
from pg_stat_activity where application_name = %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteBackend:
    """The backend at the Publisher that serves a link."""

    pid: int
    state: str
    waits: bool
    """Whether it waits for a lock."""
    writes: bool
    """Whether its transaction has changed something."""


async def until(look: Callable[[], Seen | None], what: str, timeout_s: float = 60) -> Seen:
    """Wait until `look`, which may block, returns a true value; the event loop continues meanwhile."""
    seen = await asyncio.to_thread(wait_for, look, what=what, timeout_s=timeout_s)
    assert seen is not None
    return seen


def facts_of(error: psycopg.Error) -> Mapping[str, Any]:
    """Return the facts of a refusal, which an error that is one of ours has."""
    facts = conflict_facts(error.diag.message_detail)
    assert facts is not None, error
    return facts


@asynccontextmanager
async def holding(
    pair: Pair, statement: str = "update account set balance = 0 where id = 2"
) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
    """Run a statement in a session of the Publisher, and keep its transaction open."""
    async with await pair.topology.node("pub").connect() as connection:
        await connection.execute("begin")
        await connection.execute(statement.encode())
        yield connection
        if not connection.closed:
            await connection.execute("rollback")


class Eyes:
    """Observes one server, on a separate connection to its maintenance database."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection = psycopg.connect(dsn, autocommit=True)

    def fetch(self, query: str, params: Any = None) -> list[tuple[Any, ...]]:
        """Return the rows of a query, over a new connection if the server has ended the old one."""
        try:
            return self._connection.execute(query.encode(), params).fetchall()
        except psycopg.OperationalError:
            self._connection.close()
            self._connection = psycopg.connect(self._dsn, autocommit=True)
            return self._connection.execute(query.encode(), params).fetchall()

    def link(self, pair: Pair, pid: int | None = None) -> RemoteBackend | None:
        """Return the backend of the application session's link; None if there is none."""
        name = link_name(pair.subscriber, pid or pair.app.info.backend_pid)
        rows = self.fetch(_LINK, (name,))
        assert len(rows) <= 1, f"a session has several links: {rows}"
        if not rows:
            return None
        pid_there, state, waits, writes = rows[0]
        return RemoteBackend(pid=pid_there, state=state, waits=bool(waits), writes=writes)

    def open_link(self, pair: Pair) -> RemoteBackend:
        """Return the backend of the application session's link, which must be open."""
        found = self.link(pair)
        assert found is not None
        return found

    async def waiting_link(self, pair: Pair) -> RemoteBackend:
        """Wait until the link waits for a lock at the Publisher."""

        def look() -> RemoteBackend | None:
            found = self.link(pair)
            return found if found is not None and found.waits else None

        return await until(look, "the link to wait for a lock")

    async def waiting_for(self, pid: int, event: str) -> None:
        """Wait until a backend waits for an event."""
        query = "select from pg_stat_activity where pid = %s and wait_event = %s"
        await until(lambda: self.fetch(query, (pid, event)), f"backend {pid} to wait for {event}")

    async def gone(self, pid: int, timeout_s: float = 40) -> None:
        """Wait until a backend has ended."""
        await until(
            lambda: not self.fetch("select from pg_stat_activity where pid = %s", (pid,)),
            f"backend {pid} to end",
            timeout_s,
        )

    def prepared(self, database: str) -> list[str]:
        """Return our gids that are prepared in a database."""
        rows = self.fetch(
            "select gid from pg_prepared_xacts where database = %s order by gid", (database,)
        )
        return [gid for (gid,) in rows if gid.startswith(f"{PREFIX}:")]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()


@dataclass(frozen=True, slots=True)
class TwoServers:
    """Two servers that a module may crash."""

    publisher: EmbeddedServer
    subscriber: EmbeddedServer


@pytest.fixture(scope="module")
def two_servers() -> Iterator[TwoServers]:
    """Start a server for Publishers and one for Subscribers; a test that crashes one restarts it."""
    with EmbeddedServer.start() as publisher, EmbeddedServer.start() as subscriber:
        yield TwoServers(publisher, subscriber)


class Wire:
    """A TCP proxy between a link and the Publisher, which can lose messages."""

    def __init__(self, port: int) -> None:
        self._port_there = port
        self._server: asyncio.Server
        self._streams: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.lost_request = b""
        """The next message that contains this does not arrive; the connection is cut instead."""
        self.lost_answer = b""
        """The answer to the next message that contains this does not arrive."""
        self.is_torn = False
        """Whether half of a lost message arrives before the connection is cut."""
        self.times_cut = 0
        self.is_down = False
        """Whether new connections are refused."""
        self.then_down = False
        """Whether losing a message cuts all connections and refuses new ones until `mend`."""

    async def open(self) -> None:
        """Begin to listen."""
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Cut all connections and stop listening."""
        self.cut()
        self._server.close()
        await self._server.wait_closed()

    def cut(self) -> None:
        """Cut all open connections."""
        for stream in self._streams:
            stream.close()

    def mend(self) -> None:
        """Accept connections again."""
        self.is_down = self.then_down = False

    async def _tear(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        if self.is_torn:
            writer.write(data[: len(data) // 2])
            await writer.drain()

    def _lose(self) -> None:
        self.times_cut += 1
        if self.then_down:
            self.is_down = True
            self.cut()

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.close()
            return
        there, to_there = await asyncio.open_connection("127.0.0.1", self._port_there)
        ends = (writer, to_there)
        self._streams |= set(ends)
        answer_is_lost = asyncio.Event()
        await asyncio.gather(
            self._requests(reader, to_there, ends, answer_is_lost),
            self._answers(there, writer, ends, answer_is_lost),
        )
        self._streams -= set(ends)

    async def _requests(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ends: tuple[asyncio.StreamWriter, ...],
        answer_is_lost: asyncio.Event,
    ) -> None:
        while data := await _read(reader):
            if self.lost_request and self.lost_request in data:
                self.lost_request = b""
                await self._tear(writer, data)
                self._lose()
                break
            if self.lost_answer and self.lost_answer in data:
                self.lost_answer = b""
                answer_is_lost.set()
            writer.write(data)
        for end in ends:
            end.close()

    async def _answers(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ends: tuple[asyncio.StreamWriter, ...],
        answer_is_lost: asyncio.Event,
    ) -> None:
        while data := await _read(reader):
            if answer_is_lost.is_set():
                await self._tear(writer, data)
                self._lose()
                break
            writer.write(data)
        for end in ends:
            end.close()


async def _read(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read(65536)
    except ConnectionError:
        return b""


@pytest.fixture
def eyes(server: EmbeddedServer) -> Iterator[Eyes]:
    """Observe the worker's server, on which the pairs of `make_pair` have both nodes."""
    made = Eyes(server.superuser_dsn("postgres"))
    yield made
    made.close()


class ApartPair(Pair):
    """A Publisher and a Subscriber on different servers."""

    servers: TwoServers
    eyes: Eyes
    """An observer of the Publisher's server."""

    @property
    def database(self) -> str:
        """The Publisher's database."""
        return self.topology.node(self.publisher).database

    async def rollback(self) -> None:
        """As in `Pair`; the Publisher may be down or may have been restarted."""
        await self.app.execute("rollback")
        await self.app.execute("select msrepl.reset_link()")
        branch = f"{self.gid}:{self.publisher}"
        if self.servers.publisher.is_running() and branch in self.eyes.prepared(self.database):
            await self.at_publisher(f"rollback prepared '{branch}'")

    async def at_publisher(self, statement: str) -> list[tuple[Any, ...]]:
        """Execute SQL at the Publisher over a new connection, since the server may have been restarted."""
        async with await self.topology.node(self.publisher).connect() as connection:
            cursor = await connection.execute(statement.encode())
            return await cursor.fetchall() if cursor.description else []

    async def restart_publisher(self, how: str) -> None:
        """Restart the Publisher's server: ``fast``, ``immediate`` or ``kill`` (SIGKILL)."""
        server = self.servers.publisher
        if how != "fast":
            await asyncio.to_thread(server.crash if how == "immediate" else server.kill)
        await asyncio.to_thread(server.restart)
        await self.forget_publisher()

    async def forget_publisher(self) -> None:
        """Close the administrator's connection, which a restart has ended."""
        await (await self.topology.admin(self.publisher)).close()

    async def put(self, wire: Wire) -> None:
        """Route the link through a wire."""
        await self.set_link(host="127.0.0.1", port=str(wire.port))

    async def reopen(self) -> None:
        """Open a new session of the application, which has no link yet."""
        await self.app.close()
        await self.open()

    async def set_link(self, **options: str) -> None:
        """Change options of the link's server object; they take effect in new sessions."""
        held = await self.topology.execute(
            self.subscriber, "select srvoptions from pg_foreign_server"
        )
        present = {entry.partition("=")[0] for entry in held[0][0]}
        changes = ", ".join(
            f"{'set' if name in present else 'add'} {name} '{value}'"
            for name, value in options.items()
        )
        await self.topology.execute(
            self.subscriber, f"alter server msrepl_publisher options ({changes})"
        )
        await self.reopen()


@pytest.fixture
async def wire(two_servers: TwoServers) -> AsyncIterator[Wire]:
    """Open a wire to the Publishers' server."""
    made = Wire(two_servers.publisher.port)
    await made.open()
    yield made
    await made.close()


MakeApart = Callable[..., Awaitable[ApartPair]]


@pytest.fixture
async def make_apart(two_servers: TwoServers) -> AsyncIterator[MakeApart]:
    """As `make_pair`, with the Publisher and the Subscriber on `two_servers`, and without distribution.

    The test fails if it has left one of our prepared transactions at either.
    """
    left: list[str] = []

    async with AsyncExitStack() as stack:

        async def make(*statements: str, publish: Sequence[str], **options: Any) -> ApartPair:
            number = next(_count)
            places = {
                "pub": (two_servers.publisher, f"pub_{number}"),
                "sub1": (two_servers.subscriber, f"sub_{number}"),
                "distribution": (two_servers.publisher, f"dist_{number}"),
            }
            for server, database in places.values():
                server.create_database(database)
                stack.callback(server.drop_database, database, may_roll_back=is_ours)
            dsns = {node: server.dsn(database) for node, (server, database) in places.items()}
            topology = await stack.enter_async_context(
                Topology(
                    subscribers=("sub1",),
                    dsns=dsns,
                    name=f"link{number}",
                    distribute=False,
                    **options,
                )
            )
            for statement in statements:
                await topology.execute("pub", statement)
            for table in publish:
                await topology.publish(table)
            await topology.subscribe("sub1")
            pair = ApartPair(topology, "sub1")
            pair.servers = two_servers
            pair.eyes = Eyes(two_servers.publisher.superuser_dsn("postgres"))
            stack.callback(pair.eyes.close)
            stack.callback(lambda: left.extend(_swept(two_servers, places)))
            await pair.open()
            stack.push_async_callback(lambda: pair.app.close())  # the test may have replaced it
            return pair

        yield make
    if left:
        pytest.fail(f"the test left prepared transactions: {', '.join(left)}")


def _swept(servers: TwoServers, places: dict[str, tuple[EmbeddedServer, str]]) -> list[str]:
    """Restart servers that a failed test left down, and roll back transactions that it left prepared."""
    for server in (servers.publisher, servers.subscriber):
        if not server.is_running():
            server.restart()
    left = []
    for server, database in places.values():
        with psycopg.connect(server.superuser_dsn(database), autocommit=True) as connection:
            rows = connection.execute(
                "select gid from pg_prepared_xacts where database = current_database()"
            )
            for (gid,) in rows.fetchall():
                left.append(gid)
                connection.execute(f"rollback prepared '{gid}'".encode())
    return left
