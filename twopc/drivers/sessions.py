"""Sessions at the participants that transactions take and give back.

`Sessions` are an application's, at a Subscriber; `Finishers` belong to the coordinator and carry the
second phase to the Publisher. It must not know how a transaction goes.
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
from twopc.drivers.lean import Lean, Report, report, report_of, unbroken
from twopc.drivers.participant import Participant
from twopc.drivers.statements import Trace, trace_of
from twopc.errors import RejectedError
from twopc.proof import Key
from twopc.sql import path
from twopc.together import together

_IDLE = pq.TransactionStatus.IDLE
_IDLE_MAX = 32
_STRINGS = b"standard_conforming_strings"
_ROLL_BACK = b"rollback; select msrepl.reset_link()"
_STARTED = b"""
select backend_start::text, pid, current_setting('default_transaction_isolation'), format(', read %s, %sdeferrable',
    case current_setting('default_transaction_read_only') when 'on' then 'only' else 'write' end,
    case current_setting('default_transaction_deferrable') when 'on' then '' else 'not ' end)
from pg_stat_activity where pid = pg_backend_pid();
"""
#: DISCARD ALL, but for prepared statements: those are ours.
_CLEAN_UP = (
    b"close all; unlisten *; select pg_advisory_unlock_all(); discard temp; discard sequences;"
    b" set session authorization default; reset role; reset all; "
)
_CONNECT_TIMEOUT_S = 5


def refusal(results: list[pq.abc.PGresult], lean: Lean) -> Report | None:
    """The first error among the results, or the loss of the connection."""
    for result in results:
        found = report(result)
        if found is not None:
            return found
    return Report(message=lean.lost, sqlstate="08006") if lean.lost else None


class Session:
    """An application's session at a Subscriber, with the link that hangs on it."""

    __slots__ = (
        "connection", "dirt", "isolation", "lean", "modes", "pid", "role", "started", "statements",
        "statements_made", "subscriber",
    )  # fmt: skip

    def __init__(
        self, subscriber: str, role: str, connection: AsyncConnection[Any], busy: set[Lean]
    ) -> None:
        self.subscriber = subscriber
        self.role = role
        self.connection = connection
        self.lean = Lean(connection, busy)
        self.pid = connection.info.backend_pid
        self.started = ""
        """When the server says that it began; with the pid it names the session for ever."""
        self.isolation = ""
        """Of its transactions, by its own settings."""
        self.modes = ""
        """The same for what else BEGIN may say, with a comma before it."""
        self.statements: dict[str, str] = {}
        """Names of the statements that were prepared with PREPARE, by their text."""
        self.statements_made = 0
        self.dirt = Trace.NONE
        """What its transaction has left in it; settings apart, which every BEGIN takes back."""

    @property
    def in_transaction(self) -> bool:
        """A transaction is open, or has failed and waits for its rollback."""
        return not self.lean.lost and self.connection.pgconn.transaction_status != _IDLE

    @property
    def standard_conforming_strings(self) -> bool:
        """The session's setting of that name: a backslash is a plain character in a plain string."""
        connection = self.connection
        return connection.closed or connection.pgconn.parameter_status(_STRINGS) != b"off"

    def soil(self, query: object) -> None:
        """Note what a statement leaves in the session."""
        standard = self.standard_conforming_strings
        self.dirt = max(self.dirt, trace_of(query, standard_conforming_strings=standard))

    async def roll_back(self) -> None:
        """Roll back what is open, here and over the link; a session that cannot is given up."""
        if self.in_transaction:
            found = refusal(await self.lean.run(_ROLL_BACK), self.lean)
            if found is not None:
                self.lean.abort(f"the link could not be reset: {found}")


class Introduction:
    """Makes the coordinator known at a Subscriber before it begins anything there.

    Args:
        participant: the Subscriber, for the coordinator's role.
        own: the process's epochs; the Subscriber forgets the key with the one that it was told.
    """

    def __init__(self, participant: Participant, coordinator: str, key: Key, own: Set[int]) -> None:
        self._participant = participant
        self._coordinator = coordinator
        self._key = key
        self._own = own
        self._epoch = -1

    @property
    def is_due(self) -> bool:
        """It was not made yet, or with an epoch that is the process's no more."""
        return self._epoch not in self._own

    async def make(self) -> None:
        """Make it, or make it again.

        Raises:
            psycopg.Error: the Subscriber cannot be reached, or refuses.
        """
        epoch = max(self._own, default=0)
        await self._participant.introduce(self._key.introduction(self._coordinator, epoch))
        self._epoch = epoch


class Sessions:
    """The application's sessions at one Subscriber, under one role.

    There is no limit: a server that has enough says so better than a queue that never moves.
    """

    def __init__(
        self,
        subscriber: str,
        dsn: str,
        role: str,
        introduction: Introduction,
        *,
        application_name: str,
        lock_timeout_ms: int,
        busy: set[Lean],
    ) -> None:
        self._subscriber = subscriber
        self._dsn = dsn
        self._role = role
        self._introduction = introduction
        self._application_name = application_name
        self._lock_timeout_ms = lock_timeout_ms
        self._busy = busy
        self._idle: list[Session] = []
        self._closed = False

    async def take(self, begin: Callable[[Session], bytes]) -> Session:
        """A session in which `begin`, made for it, has succeeded.

        Raises:
            RejectedError: the Subscriber cannot be reached, or refuses; nothing was begun.
        """
        session = await self.take_idle()
        found = refusal(await session.lean.run(begin(session)), session.lean)
        if found is not None:
            await session.lean.close()
            raise self._rejected(found)
        return session

    async def take_idle(self) -> Session:
        """A session in which nothing was begun.

        Raises:
            RejectedError: as `take`.
        """
        while self._idle and not self._introduction.is_due:
            session = self._idle.pop()
            if session.lean.alive():
                return session
            await session.lean.close()
        return await self._connect()

    async def give_back(self, session: Session) -> None:
        """Take a session back; one that is broken, or in a transaction, is closed."""
        lean = session.lean
        if session.dirt is Trace.DIRT and not lean.lost and not session.in_transaction:
            refused = refusal(await lean.run(_CLEAN_UP + self._take_role()), lean)
            session.dirt = Trace.STAIN if refused is not None else Trace.NONE
        keep = not session.dirt and not self._closed and len(self._idle) < _IDLE_MAX
        if keep and not lean.lost and not session.in_transaction:
            self._idle.append(session)
        else:
            await lean.close()

    async def close(self) -> None:
        """Close the idle sessions, and those in use when they come back."""
        self._closed = True
        idle, self._idle = self._idle, []
        await together(*(session.lean.close() for session in idle))

    async def _connect(self) -> Session:
        try:
            # again with every session: the Subscriber may be a restored one
            await self._introduction.make()
            connection = await AsyncConnection.connect(
                self._dsn,
                autocommit=True,
                application_name=self._application_name,
                connect_timeout=_CONNECT_TIMEOUT_S,
                options=self._options(),
            )
        except psycopg.Error as error:
            raise self._rejected(report_of(error)) from error
        session = Session(self._subscriber, self._role, connection, self._busy)
        results = await session.lean.run(_STARTED + self._take_role())
        found = refusal(results, session.lean)
        if found is not None:
            await session.lean.close()
            raise self._rejected(found)
        said = [(results[0].get_value(0, column) or b"").decode() for column in range(4)]
        session.started, session.isolation, session.modes = said[0], said[2], said[3]
        try:
            direct(self._subscriber, connection, int(said[1] or 0))
        except BaseException:
            await session.lean.close()
            raise
        return session

    def _options(self) -> str:
        """What a session starts with, and RESET ALL therefore goes back to."""
        given = conninfo.conninfo_to_dict(self._dsn).get("options", os.environ.get("PGOPTIONS"))
        return f"{given or ''} -c lock_timeout={self._lock_timeout_ms}".lstrip()

    def _take_role(self) -> bytes:
        if not self._role:
            return b""
        return sql.SQL("set role {}").format(sql.Identifier(self._role)).as_bytes(None)

    def _rejected(self, found: Report) -> RejectedError:
        return RejectedError(
            f"Subscriber {self._subscriber}: {found.message}",
            node=self._subscriber,
            sqlstate=found.sqlstate or "08001",
            detail=found.detail,
            hint=found.hint,
        )


class Finishers:
    """The coordinator's connections to a participant for COMMIT PREPARED, a few for each role.

    A branch may be finished by the role that prepared it; a connection keeps that role.
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
        """Run COMMIT PREPARED or ROLLBACK PREPARED; True if the answer was exactly `tag`.

        `meanwhile` is called once the command is sent.

        False says nothing: look at the branch. So does True after a synchronous standby was not
        waited for, which is therefore never given.
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
        """Close the idle connections, and those in use when they come back."""
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
        found = refusal(await lean.run(begin.as_bytes(None)), lean)
        if found is not None:
            await lean.close()
            raise psycopg.OperationalError(str(found))
        return lean
