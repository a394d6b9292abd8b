"""Detection of deadlocks that no single server can see; each is broken by cancelling one transaction.

The statement of the victim's link is cancelled. The victim's session then checks whether it was chosen, and raises
40P01. `DeadlockDetector` is the same on servers (`ServerWaits`) and in virtual time (`twopc.sim.model.seats`). It
depends on sessions and their waits, not on their statements.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import psycopg

from twopc.drivers.database import Database
from twopc.drivers.runtime import Runtime
from twopc.log import get_logger
from twopc.waits import WAITS_SQL, Cycle, OpenTransaction, Transactions, build, session, youngest

_log = get_logger(__name__)

#: The session must still be in the same transaction and in the same wait.
_CANCEL = """
select pg_cancel_backend(pid)
from pg_stat_activity
where pid = %s and extract(epoch from backend_start)::float8 = %s
  and extract(epoch from xact_start)::float8 = %s
  and state = 'active' and wait_event_type in ('Lock', 'Extension')
"""
#: Lock by which a victim is marked: see `drain_link`.
_NAME_VICTIM = "select pg_try_advisory_lock_shared(1836282473, hashfloat8(%s::float8) # %s)"
_FORGET_VICTIM = "select pg_advisory_unlock_shared(1836282473, hashfloat8(%s::float8) # %s)"
#: Time for which a victim can find its mark.
_VICTIM_MARK_S = 5.0


class WaitsPort(Protocol):
    """Interface to the sessions of a node. Every method but the first may raise `psycopg.Error`."""

    async def sessions(self) -> Sequence[OpenTransaction]:
        """Return the sessions with an open transaction; none if the node does not answer, since their waits end
        with it.
        """
        ...

    async def name_victim(self, victim: OpenTransaction) -> bool:
        """Mark a transaction as the victim, so that its session can find out; return False if it cannot be marked."""
        ...

    async def forget_victim(self, victim: OpenTransaction) -> None:
        """Remove the mark of a victim, whose session has had the time to find it."""
        ...

    async def cancel(self, waiter: OpenTransaction) -> bool:
        """Cancel a statement; return False if the session is no longer in the same wait."""
        ...


class ServerWaits:
    """The sessions of a node on a server; see `WaitsPort`.

    Args:
        database: database connection of a role that may see and cancel the sessions.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def sessions(self) -> Sequence[OpenTransaction]:
        """See `WaitsPort`."""
        try:
            rows = await self._database.fetch(WAITS_SQL)
        except psycopg.Error:
            return ()
        return [session(self._database.node, row) for row in rows]

    async def name_victim(self, victim: OpenTransaction) -> bool:
        """See `WaitsPort`."""
        return bool(
            (await self._database.fetch(_NAME_VICTIM, (victim.xact_start, victim.pid)))[0][0]
        )

    async def forget_victim(self, victim: OpenTransaction) -> None:
        """See `WaitsPort`."""
        await self._database.fetch(_FORGET_VICTIM, (victim.xact_start, victim.pid))

    async def cancel(self, waiter: OpenTransaction) -> bool:
        """See `WaitsPort`."""
        rows = await self._database.fetch(
            _CANCEL, (waiter.pid, waiter.backend_start, waiter.xact_start)
        )
        return any(row[0] for row in rows)


class DeadlockDetector:
    """Detects deadlocks across nodes; a cycle must be seen twice before it is broken.

    Args:
        nodes: the nodes by name.
        runtime: source of time and concurrency.
        transactions: returns the global transactions that are known here.
        tell: called with the victim's node, its pid and the cycle in words, before it is cancelled.
    """

    def __init__(
        self,
        nodes: Mapping[str, WaitsPort],
        runtime: Runtime,
        transactions: Callable[[], Transactions],
        tell: Callable[[str, int, tuple[str, ...]], None],
    ) -> None:
        self._nodes = nodes
        self._runtime = runtime
        self._transactions = transactions
        self._tell = tell
        self._suspected: set[frozenset[tuple[str, int, float]]] = set()
        self._victims: deque[tuple[float, OpenTransaction]] = deque()
        """Marked victims, each with the time at which its mark is removed, the next first."""

    async def watch(self, interval_s: float, goes_on: Callable[[], bool]) -> None:
        """Search at intervals, for as long as `goes_on` returns true."""
        before: Transactions = {}
        while goes_on():
            await self._runtime.sleep(interval_s)
            # A transaction in a deadlock was already open at the previous search.
            now = self._transactions()
            if now.keys() & before.keys():
                await self.look()
            else:
                await self._forget()
            before = now

    async def look(self) -> list[tuple[str, ...]]:
        """Search once, and return the cycles, in words, that were broken.

        The nodes cannot be read at the same instant, so a cycle counts only if the previous search saw the same
        waits.
        """
        await self._forget()
        seen = await self._runtime.together(*(node.sessions() for node in self._nodes.values()))
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

    async def _forget(self) -> None:
        now = self._runtime.time()
        while self._victims and self._victims[0][0] < now:
            _, victim = self._victims.popleft()
            with suppress(psycopg.Error):  # the lock ended with the connection
                await self._nodes[victim.node].forget_victim(victim)

    async def _break(self, cycle: Cycle, sessions: Sequence[OpenTransaction]) -> bool:
        words = tuple(map(str, cycle))
        chosen = youngest(cycle, sessions)
        if chosen is None:
            _log.error("deadlock without a session to cancel", cycle=words)
            return False
        victim, waiter = chosen
        self._tell(victim.node, victim.pid, words)
        try:
            await self._name(victim)
            cancelled = await self._nodes[waiter.node].cancel(waiter)
        except psycopg.Error as error:
            _log.error("deadlock not broken", cycle=words, reason=str(error))
            return False
        _log.warning("deadlock", cycle=words, node=victim.node, pid=victim.pid, broken=cancelled)
        return cancelled

    async def _name(self, victim: OpenTransaction) -> None:
        if await self._nodes[victim.node].name_victim(victim):
            self._victims.append((self._runtime.time() + _VICTIM_MARK_S, victim))
            return
        _log.warning(
            "another session holds the lock by which the victim of a deadlock is told (1836282473)",
            node=victim.node,
            pid=victim.pid,
        )
