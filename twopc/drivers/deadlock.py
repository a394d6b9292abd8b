"""Finds deadlocks that no single server can see, and breaks each by cancelling one transaction.

What is cancelled is the statement of the victim's link. Its session raises the error, and says 40P01 while we hold
the advisory lock (1836282473, its process id) at its site: see `drain_link`.

Knows sessions and who waits for whom, not what they do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress

import psycopg

from twopc.drivers.database import Database
from twopc.log import get_logger
from twopc.together import together
from twopc.waits import WAITS_SQL, Cycle, Session, Transactions, build, session, youngest

_log = get_logger(__name__)

#: The session must still be in the transaction, and in the wait, that it was seen in.
_CANCEL = """
select pg_cancel_backend(pid)
from pg_stat_activity
where pid = %s and extract(epoch from backend_start)::float8 = %s
  and extract(epoch from xact_start)::float8 = %s
  and state = 'active' and wait_event_type in ('Lock', 'Extension')
"""
_TELL = "select pg_try_advisory_lock_shared(1836282473, %s)"
_TOLD = "select pg_advisory_unlock_shared(1836282473, %s)"
#: For how long a victim may ask whether it was one.
_TELLING_S = 5.0


class DeadlockDetector:
    """Looks at all nodes, twice, before it does anything.

    Args:
        databases: of all nodes, under a role that may see and cancel their sessions.
        transactions: the global transactions that are known here.
        tell: called with the victim's node, pid and the cycle in words, before it is cancelled.
    """

    def __init__(
        self,
        databases: Sequence[Database],
        transactions: Callable[[], Transactions],
        tell: Callable[[str, int, tuple[str, ...]], None],
    ) -> None:
        self._databases = {database.node: database for database in databases}
        self._transactions = transactions
        self._tell = tell
        self._suspected: set[frozenset[tuple[str, int, float]]] = set()
        self._victims: deque[tuple[float, str, int]] = deque()
        """Until when which sessions are told, the next first."""

    async def look(self) -> list[tuple[str, ...]]:
        """Look once; returns the cycles, in words, that were broken.

        The nodes cannot be looked at in one instant. A cycle counts if the same waits were seen in it
        the time before.
        """
        await self.forget()
        seen = await together(*(self._sessions(db) for db in self._databases.values()))
        sessions = [one for node in seen for one in node]
        cycles = {
            frozenset(
                (edge.waiter.server, edge.waiter.pid, edge.waiter.wait_start) for edge in cycle
            ): cycle
            for cycle in build(sessions, self._transactions()).cycles()
        }
        confirmed = [cycle for waits, cycle in cycles.items() if waits in self._suspected]
        self._suspected = set(cycles)
        return [tuple(map(str, cycle)) for cycle in confirmed if await self._break(cycle, sessions)]

    async def forget(self) -> None:
        """Tell no more who was a victim long ago."""
        now = asyncio.get_running_loop().time()
        while self._victims and self._victims[0][0] < now:
            _, node, pid = self._victims.popleft()
            with suppress(psycopg.Error):  # the lock went with the connection
                await self._databases[node].fetch(_TOLD, (pid,))

    async def _sessions(self, database: Database) -> list[Session]:
        try:
            return [session(database.node, row) for row in await database.fetch(WAITS_SQL)]
        except psycopg.Error:
            return []  # its waits end with it

    async def _break(self, cycle: Cycle, sessions: Sequence[Session]) -> bool:
        words = tuple(map(str, cycle))
        found = youngest(cycle, sessions)
        if found is None:
            _log.error("deadlock without a session to cancel", cycle=words)
            return False
        victim, waiter = found
        self._tell(victim.node, victim.pid, words)
        try:
            await self._tell_there(victim)
            rows = await self._databases[waiter.node].fetch(
                _CANCEL, (waiter.pid, waiter.backend_start, waiter.xact_start)
            )
        except psycopg.Error as error:
            _log.error("deadlock not broken", cycle=words, reason=str(error))
            return False
        cancelled = any(row[0] for row in rows)
        _log.warning("deadlock", cycle=words, node=victim.node, pid=victim.pid, broken=cancelled)
        return cancelled

    async def _tell_there(self, victim: Session) -> None:
        rows = await self._databases[victim.node].fetch(_TELL, (victim.pid,))
        if not rows[0][0]:
            _log.warning(
                "another session holds the lock by which the victim of a deadlock is told (1836282473)",
                node=victim.node,
                pid=victim.pid,
            )
            return
        until = asyncio.get_running_loop().time() + _TELLING_S
        self._victims.append((until, victim.node, victim.pid))
