"""The resolver on servers: its sessions at both nodes, and its tasks.

The resolver's logic is in `twopc.drivers.resolver`; this module makes no decisions.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import AsyncConnection, errors, pq, sql

from twopc.drivers.database import (
    ANSWER_TIMEOUT_S,
    DURABLE,
    Database,
    connect_timeout,
    cut_after,
)
from twopc.drivers.lean import Lean, report
from twopc.drivers.participant import ParticipantAddress, ServerParticipant
from twopc.drivers.points import Points
from twopc.drivers.recorded_decisions import DecisionReader
from twopc.drivers.recovery import Recovery
from twopc.drivers.resolver import Resolver
from twopc.drivers.resolver_lock import ServerLock
from twopc.drivers.resolver_watch import ResolverLoop
from twopc.drivers.runtime import Asyncio
from twopc.log import get_logger
from twopc.names import PREFIX
from twopc.protocol.effects import Outcome
from twopc.sql import path
from twopc.together import together
from twopc.waits import link_prefix

_log = get_logger(__name__)

#: Number of branches finished concurrently: their commits share the Publisher's flushes.
_FINISHERS = 16
#: SQLSTATEs that mean that another session has finished the branch, or is about to.
_ALREADY_FINISHED = (errors.UndefinedObject.sqlstate, errors.ObjectNotInPrerequisiteState.sqlstate)
_VOTED = sql.SQL(
    "select gid from pg_prepared_xacts"
    " where starts_with(gid, {}) and database = current_database() and owner = {}"
)
_MARKERS = sql.SQL("select gid, fence from msrepl.branch_marker where gid in ({})")
_FLUSH = sql.SQL("select msrepl.flush_log()").format()
#: Application names are trusted for the link role only: any role may use any name.
_IDLE_LINKS = """
select split_part(application_name, ' ', 3)::bigint, pid, backend_start::text, state_change::text
from pg_stat_activity
where datname = current_database() and usename = %s and application_name ~ %s
  and state like 'idle in transaction%%' and state_change < clock_timestamp() - %s * interval '1 second'
"""
#: See begin_any_client. Only the pid is shown of sessions of roles of which this one is not a member: such a
#: session may have an open transaction.
_HOLD = """
select s.pid, pg_try_advisory_xact_lock(1836282472, s.pid)
from unnest(%s::integer[]) as s(pid)
where not exists (
    select from pg_stat_activity as a
    where a.datname = current_database() and a.pid = s.pid
      and (a.state is distinct from 'idle' or a.xact_start is not null))
"""
_HOLDERS = """
select l.objid::bigint, l.pid, a.usename::text from pg_locks as l left join pg_stat_activity as a on a.pid = l.pid
where l.locktype = 'advisory' and l.granted and l.objsubid = 2 and l.classid = 1836282472 and l.objid::bigint = any (%s)
  and l.database = (select d.oid from pg_database as d where d.datname = current_database())
"""
#: A link is ended only if it has been idle since it was first seen.
_END_LINKS = """
select pg_terminate_backend(a.pid, 2000)
from pg_stat_activity as a
join unnest(%s::integer[], %s::timestamptz[], %s::timestamptz[]) as l(pid, backend_start, state_change)
    using (pid, backend_start, state_change)
where a.state like 'idle in transaction%%'
"""
_PID_MAX = 2**31 - 1
_OLD_MARKERS = """
select gid from msrepl.branch_marker
where starts_with(gid, %s) and created_at < clock_timestamp() - %s * interval '1 second'
  and (not fence or created_at < clock_timestamp() - %s * interval '1 second')
limit %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolverSite:
    """Addresses and roles with which a resolver works."""

    coordinator: str
    """Name of the coordinator in whose name the Subscriber's clients begin global transactions."""
    publisher: ParticipantAddress
    subscriber: ParticipantAddress
    distribution: str = field(repr=False)
    """Connection string of the distribution database, for the coordinator's role."""
    link_role: str
    """The role that prepares the clients' branches at the Publisher."""
    channel: str
    """The channel on which the Subscriber notifies of decided branches."""

    @property
    def prefix(self) -> str:
        """Prefix of the gids of these clients."""
        return f"{PREFIX}:{self.coordinator}:"


class SerialConnection:
    """A lean connection that is opened on demand, and reopened when it breaks; runs one command at a time.

    Args:
        connect: opens the connection, in autocommit mode.
    """

    def __init__(self, connect: Callable[[], Awaitable[AsyncConnection[Any]]]) -> None:
        self._connect = connect
        self._lean: Lean | None = None

    async def run(self, command: sql.Composed) -> list[pq.abc.PGresult]:
        """Return the results of one message; a refusal is one of them.

        Raises:
            psycopg.OperationalError: the connection cannot be opened, or broke, so that it is unknown whether the
                command was executed; or it was executed, but the wait for the synchronous standby was interrupted.
        """
        lean = self._lean
        if lean is not None and not lean.alive():
            await self.close()
            lean = None
        if lean is None:
            lean = self._lean = Lean(await self._connect(), set())
        with cut_after(lean.connection, ANSWER_TIMEOUT_S):
            results = await lean.run(command.as_bytes(lean.connection))
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            # `Lean.answer` is not interrupted by a cancellation
            raise asyncio.CancelledError
        if lean.lost:
            raise psycopg.OperationalError(lean.lost)
        if lean.unsynced:
            raise psycopg.OperationalError("it is done, but not on the synchronous standby")
        return results

    async def close(self) -> None:
        """Close the connection; idempotent. `run` opens another."""
        lean, self._lean = self._lean, None
        if lean is not None:
            await lean.close()


class _ResolverServer:
    """One of the two nodes; see `twopc.drivers.resolver.ResolverNodePort`.

    `finish_decided` has a connection of its own, so that a sweep that waits does not block it.
    """

    def __init__(self, at: ResolverSite, address: ParticipantAddress) -> None:
        self._at = at
        self._address = address
        self.name = address.name
        self._participant = ServerParticipant(address, f"resolver {at.coordinator}")
        self._reader = SerialConnection(self.connect)

    async def connect(self) -> AsyncConnection[Any]:
        """Open a session of the resolver at this node; raise psycopg.Error if that fails."""
        connection = await AsyncConnection.connect(
            path.kept_alive(self._address.dsn),
            autocommit=True,
            application_name=f"twopc resolver {self._at.coordinator}",
            connect_timeout=connect_timeout(ANSWER_TIMEOUT_S),
            options=path.options(self._address.dsn),
        )
        try:
            with cut_after(connection, ANSWER_TIMEOUT_S):
                await connection.execute(DURABLE)
        except BaseException:
            await connection.close()
            raise
        return connection

    async def close(self) -> None:
        """Close the connections; idempotent."""
        await together(self._reader.close(), self._participant.close())

    async def old_markers(self, kept_s: float, fences_kept_s: float, rows_max: int) -> list[str]:
        """See `ResolverNodePort`."""
        rows = await self._participant.database.fetch(
            _OLD_MARKERS, (self._at.prefix, kept_s, fences_kept_s, rows_max)
        )
        return [gid for (gid,) in rows]

    async def forget(self, gids: list[str]) -> None:
        """See `ResolverNodePort`."""
        await self._participant.forget(gids)


class PublisherServer(_ResolverServer):
    """See `twopc.drivers.resolver.PublisherPort`."""

    def __init__(self, at: ResolverSite) -> None:
        super().__init__(at, at.publisher)
        self._finishers = [SerialConnection(self._connect_as_link) for _ in range(_FINISHERS)]
        self._voted = _VOTED.format(sql.Literal(at.prefix), sql.Literal(at.link_role))

    async def close(self) -> None:
        """Close the connections; idempotent."""
        await together(super().close(), *(finisher.close() for finisher in self._finishers))

    async def voted(self) -> list[str]:
        """See `PublisherPort`."""
        return [gid for gid, *_ in _rows(await self._reader.run(self._voted))]

    async def commit(self, gids: list[str]) -> int:
        """See `PublisherPort`."""
        shares = [share for n in range(_FINISHERS) if (share := gids[n::_FINISHERS])]
        counts = await together(
            *(
                self._commit(finisher, share)
                for finisher, share in zip(self._finishers, shares, strict=False)
            )
        )
        return sum(counts)

    async def _commit(self, finisher: SerialConnection, gids: list[str]) -> int:
        count = 0
        for gid in gids:
            command = sql.SQL("commit prepared {}").format(sql.Literal(gid))
            try:
                failure = report((await finisher.run(command))[0])
            except psycopg.Error as error:
                _log.debug("not finished at once", reason=" ".join(str(error).split()))
                break
            if failure is None:
                count += 1
            elif failure.sqlstate not in _ALREADY_FINISHED:
                _log.debug("not finished at once", reason=str(failure))
        return count

    async def _connect_as_link(self) -> AsyncConnection[Any]:
        connection = await self.connect()
        try:
            await connection.execute(
                sql.SQL("set role {}").format(sql.Identifier(self._at.link_role))
            )
        except BaseException:
            await connection.close()
            raise
        return connection

    async def markers(self, gids: Collection[str]) -> Mapping[str, bool]:
        """See `ResolverNodePort`."""
        return await self._participant.markers([*gids])

    async def prepared(self) -> set[str]:
        """See `PublisherPort`."""
        return {*await self._participant.prepared(self._at.prefix)}

    async def idle_links(self, idle_s: float) -> Mapping[int, Sequence[Any]]:
        """See `PublisherPort`."""
        names = f"^{re.escape(link_prefix(self._at.subscriber.name))} [0-9]{{1,10}}$"
        rows = await self._participant.database.fetch(
            _IDLE_LINKS, (self._at.link_role, names, idle_s)
        )
        return {pid: link for pid, *link in rows if pid <= _PID_MAX}

    async def end_links(self, links: Sequence[Sequence[Any]]) -> None:
        """See `PublisherPort`."""
        await self._participant.database.fetch(_END_LINKS, [*map(list, zip(*links, strict=True))])


class SubscriberServer(_ResolverServer):
    """See `twopc.drivers.resolver.SubscriberPort`."""

    def __init__(self, at: ResolverSite) -> None:
        super().__init__(at, at.subscriber)

    async def markers(self, gids: Collection[str]) -> Mapping[str, bool]:
        """See `ResolverNodePort`."""
        question = _MARKERS.format(sql.SQL(", ").join(map(sql.Literal, gids)))
        return {gid: fence == "t" for gid, fence in _rows(await self._reader.run(question))}

    async def fence(self, gid: str) -> Outcome | None:
        """See `SubscriberPort`."""
        return await self._participant.fence(gid, [self._at.publisher.name])

    async def flush(self) -> None:
        """See `SubscriberPort`."""
        _rows(await self._reader.run(_FLUSH))

    @asynccontextmanager
    async def hold(self, pids: Sequence[int]) -> AsyncIterator[Mapping[int, bool]]:
        """See `SubscriberPort`."""
        async with self._participant.database.use() as connection, connection.transaction():
            cursor = await connection.execute(_HOLD, ([*pids],))
            yield dict(await cursor.fetchall())

    async def holders(self, pids: Sequence[int]) -> list[tuple[int, int, str]]:
        """See `SubscriberPort`."""
        rows = await self._participant.database.fetch(_HOLDERS, ([*pids],))
        return [(pid, holder, role) for pid, holder, role in rows]


class ServerResolver(Resolver):
    """A resolver on servers.

    Args:
        at: addresses and roles.
        sweep_s: this and the rest as for `Resolver`.
    """

    def __init__(
        self, at: ResolverSite, *, sweep_s: float = 0.5, markers_kept_s: float = 60.0
    ) -> None:
        self._servers = (PublisherServer(at), SubscriberServer(at))
        publisher, subscriber = self._servers
        recovery = Recovery(
            at.coordinator,
            publisher=at.publisher.name,
            participants={
                one.name: ServerParticipant(one, at.coordinator)
                for one in (at.publisher, at.subscriber)
            },
            decisions=DecisionReader(
                Database("distribution", at.distribution, f"twopc recovery {at.coordinator}")
            ),
            points=Points(),
            retention_s=math.inf,  # the epoch of clients is kept as long as they are admitted
        )
        super().__init__(
            publisher,
            subscriber,
            recovery,
            Asyncio(),
            sweep_s=sweep_s,
            markers_kept_s=markers_kept_s,
        )
        self._lock = ServerLock(subscriber.connect, at.channel)
        self._loop = ResolverLoop(self._lock, self.finish_decided)
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Start to listen, and settle branches left from before.

        Raises:
            psycopg.Error: a database cannot be reached.
        """
        await self._lock.open()
        await self.settle()
        self._tasks = [
            asyncio.create_task(self._lock.keep(self._loop.watch), name="twopc resolver"),
            asyncio.create_task(self._sweep_forever(), name="twopc resolver sweep"),
        ]

    async def close(self) -> None:
        """Stop. Idempotent; the next resolver finds branches that are decided and not finished yet."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await together(
            *(server.close() for server in self._servers),
            self._lock.close(),
            self._recovery.close(),
        )

    async def _sweep_forever(self) -> None:
        while True:
            try:
                await self.keep_sweeping(lambda: True)
            except Exception:
                # a programming error must not end the sweeps
                _log.exception("resolver cannot look")


def _rows(results: list[pq.abc.PGresult]) -> list[list[str]]:
    """Return the rows of one result, as text; raise psycopg.DatabaseError if the result is an error."""
    (result,) = results
    if (failure := report(result)) is not None:
        raise psycopg.DatabaseError(str(failure))
    columns = range(result.nfields)
    return [
        [(result.get_value(row, column) or b"").decode() for column in columns]
        for row in range(result.ntuples)
    ]
