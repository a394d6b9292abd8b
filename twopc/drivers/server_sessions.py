"""Pools of sessions on servers.

`ServerSessions` are an application's, at a Subscriber; `Finishers` belong to the coordinator and perform the second
phase at the Publisher. This module must not depend on the course of a transaction.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Set
from typing import Any

import psycopg
from psycopg import AsyncConnection, conninfo, pq, sql

from twopc.drivers.database import DURABLE, direct
from twopc.drivers.lean import Lean, report_of, unbroken
from twopc.drivers.participant import ServerParticipant
from twopc.drivers.sessions import LinkedSession, Sessions, refusal
from twopc.names import session_name
from twopc.proof import Key
from twopc.sql import path
from twopc.together import together

_IDLE = pq.TransactionStatus.IDLE
_STRINGS = b"standard_conforming_strings"
#: Settings on which the notation of literals depends.
_LITERALS = (_STRINGS, b"IntervalStyle", b"DateStyle", b"client_encoding")
_STARTED = b"""
select extract(epoch from backend_start)::text, pid, current_setting('default_transaction_isolation'), format(', read %s, %sdeferrable',
    case current_setting('default_transaction_read_only') when 'on' then 'only' else 'write' end,
    case current_setting('default_transaction_deferrable') when 'on' then '' else 'not ' end)
from pg_stat_activity where pid = pg_backend_pid();
"""
#: DISCARD ALL without DEALLOCATE: the prepared statements are the coordinator's.
_CLEAN_UP = (
    b"close all; unlisten *; select pg_advisory_unlock_all(); discard temp; discard sequences;"
    b" set session authorization default; reset role; reset all; "
)
_CONNECT_TIMEOUT_S = 5


class ServerSession(LinkedSession):
    """A session on a server."""

    __slots__ = ("_literals", "_take_role", "statements", "statements_made")

    lean: Lean
    connection: AsyncConnection[Any]

    def __init__(
        self,
        subscriber: str,
        epoch: int,
        take_role: bytes,
        connection: AsyncConnection[Any],
        busy: set[Lean],
    ) -> None:
        super().__init__(
            subscriber, epoch, connection, Lean(connection, busy), connection.info.backend_pid
        )
        self._take_role = take_role
        """The statement that sets the session's role; empty if it has none."""
        self.statements: dict[str, str] = {}
        """Names of the statements prepared with PREPARE, by their text."""
        self.statements_made = 0
        self._literals = self._settings()
        """The initial values of the settings."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, or has failed and waits for its rollback."""
        return not self.lean.lost and self.connection.pgconn.transaction_status != _IDLE

    @property
    def is_lost(self) -> bool:
        """Whether the connection is closed."""
        return bool(self.connection.closed)

    @property
    def standard_conforming_strings(self) -> bool:
        """See `LinkedSession`."""
        connection = self.connection
        return connection.closed or connection.pgconn.parameter_status(_STRINGS) != b"off"

    async def reset_literals(self) -> None:
        """Run RESET ALL if an earlier transaction has changed settings by which literals are written."""
        if self._settings() != self._literals and not self.lean.lost:
            await self.lean.run(b"reset all")

    def _settings(self) -> list[bytes | None]:
        if self.connection.closed:
            return []
        return [self.connection.pgconn.parameter_status(name) for name in _LITERALS]

    async def clean_up(self) -> bool:
        """See `LinkedSession`."""
        return refusal(await self.lean.run(_CLEAN_UP + self._take_role), self.lean) is None


class Introduction:
    """Registers the coordinator at a Subscriber before it begins a transaction there.

    Args:
        participant: the Subscriber, for the coordinator's role.
        own: the process's epochs; the Subscriber deletes the key together with the epoch given with it.
    """

    def __init__(
        self, participant: ServerParticipant, coordinator: str, key: Key, own: Set[int]
    ) -> None:
        self._participant = participant
        self._key = key
        self._own = own
        self._epoch = -1
        self.coordinator = coordinator

    def holds(self, epoch: int) -> bool:
        """Return whether the registration was made, and both its epoch and the given one still belong to this
        process.
        """
        return self._epoch in self._own and epoch in self._own

    async def make(self) -> int:
        """Register the coordinator, even if it is registered already, and return the epoch of the registration.

        Raises:
            psycopg.Error: the Subscriber cannot be reached, or refuses.
        """
        epoch = max(self._own, default=0)
        await self._participant.introduce(self._key.introduction(self.coordinator, epoch))
        self._epoch = epoch
        return epoch


class ServerSessions(Sessions):
    """The application's sessions at one Subscriber, under one role."""

    def __init__(
        self,
        subscriber: str,
        dsn: str,
        role: str,
        introduction: Introduction,
        *,
        lock_timeout_ms: int,
        busy: set[Lean],
    ) -> None:
        super().__init__(subscriber)
        self._dsn = dsn
        self._take_role = (
            sql.SQL("set role {}").format(sql.Identifier(role)).as_bytes(None) if role else b""
        )
        self._introduction = introduction
        self._lock_timeout_ms = lock_timeout_ms
        self._busy = busy

    def is_current(self, session: ServerSession) -> bool:
        """See `Sessions`; in addition, the coordinator must be registered at the Subscriber."""
        return self._introduction.holds(session.epoch)

    async def connect(self) -> ServerSession:
        """See `Sessions`; the coordinator is registered first."""
        try:
            # repeated for every session, because the Subscriber may have been restored
            epoch = await self._introduction.make()
            connection = await AsyncConnection.connect(
                self._dsn,
                autocommit=True,
                application_name=session_name(self._introduction.coordinator, epoch),
                connect_timeout=_CONNECT_TIMEOUT_S,
                options=self._options(),
            )
        except psycopg.Error as error:
            raise self.refused(report_of(error)) from error
        session = ServerSession(self.subscriber, epoch, self._take_role, connection, self._busy)
        results = await session.lean.run(_STARTED + self._take_role)
        result = refusal(results, session.lean)
        if result is not None:
            await session.lean.close()
            raise self.refused(result)
        lines = [(results[0].get_value(0, column) or b"").decode() for column in range(4)]
        session.started, session.isolation, session.modes = lines[0], lines[2], lines[3]
        try:
            direct(self.subscriber, connection, int(lines[1] or 0))
        except BaseException:
            await session.lean.close()
            raise
        return session

    def _options(self) -> str:
        """Return the options with which a session starts, and which RESET ALL therefore restores."""
        given = conninfo.conninfo_to_dict(self._dsn).get("options", os.environ.get("PGOPTIONS"))
        return f"{given or ''} -c lock_timeout={self._lock_timeout_ms}".lstrip()


class Finishers:
    """The coordinator's connections to a participant for COMMIT PREPARED, several for each role.

    A branch can be finished by the role that prepared it; each connection keeps one role.
    """

    def __init__(
        self, dsn: str, application_name: str, busy: set[Lean], connections_max: int = 16
    ) -> None:
        self._dsn = dsn
        self._busy = busy
        self._application_name = application_name
        self._max = connections_max
        self._idle: dict[str, list[Lean]] = {}
        self._open: dict[str, int] = {}
        self._turns: dict[str, deque[asyncio.Future[None]]] = {}
        self._closed = False

    async def finish(
        self, command: bytes, tag: bytes, owner: str, meanwhile: Callable[[], None]
    ) -> bool:
        """Run COMMIT PREPARED or ROLLBACK PREPARED; return True if the answer was exactly `tag`.

        `meanwhile` is called once the command is sent. False means that the outcome is unknown: check the branch.
        False is also returned if the wait for a synchronous standby was interrupted.
        """
        idle = self._idle.get(owner)
        try:
            lean = idle.pop() if idle else await unbroken(self._take(owner))
        except psycopg.Error:
            return False
        lean.send(command)
        meanwhile()
        results = await lean.answer()
        done = len(results) == 1 and results[0].command_status == tag and not lean.unsynced
        if lean.lost or self._closed:
            self._open[owner] -= 1
            await lean.close()
        else:
            self._idle[owner].append(lean)
        self._next(owner)
        return done

    async def close(self) -> None:
        """Close the idle connections, and those in use when they are given back."""
        self._closed = True
        idle = [lean for leans in self._idle.values() for lean in leans]
        self._idle.clear()
        await together(*(lean.close() for lean in idle))

    async def _take(self, owner: str) -> Lean:
        idle = self._idle.setdefault(owner, [])
        while self._open.get(owner, 0) >= self._max:
            turn = asyncio.get_running_loop().create_future()
            self._turns.setdefault(owner, deque()).append(turn)
            await turn
            if idle:
                return idle.pop()
        self._open[owner] = self._open.get(owner, 0) + 1
        try:
            return await self._connect(owner)
        except BaseException:
            self._open[owner] -= 1
            self._next(owner)
            raise

    def _next(self, owner: str) -> None:
        turns = self._turns.get(owner)
        while turns:
            turn = turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    async def _connect(self, owner: str) -> Lean:
        connection = await AsyncConnection.connect(
            self._dsn,
            autocommit=True,
            application_name=self._application_name,
            connect_timeout=_CONNECT_TIMEOUT_S,
        )
        lean = Lean(connection, self._busy)
        begin = sql.SQL(f"{path.SET};{DURABLE};set role {{}}").format(sql.Identifier(owner))
        result = refusal(await lean.run(begin.as_bytes(None)), lean)
        if result is not None:
            await lean.close()
            raise psycopg.OperationalError(str(result))
        return lean
