"""Waits: which session provably waits for which, across servers, and for prepared branches too.

`twopc.waits` reads locks and finds cycles; this module maps its results to the names of sessions. `read_waits` is
pure; `Observer` holds the connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import psycopg

from twopc.names import BranchId, GlobalId
from twopc.sim.sessions.interface import ClientSession
from twopc.together import together
from twopc.waits import WAITS_SQL, Edge, Graph, OpenTransaction, Party, build, session

#: Interval at which waits are polled while no statement ends.
LOOK_EVERY_S = 0.003
#: Sessions without a transaction that hold advisory locks, for which others may wait; columns as in `WAITS_SQL`.
_HOLDERS_SQL = """
select current_setting('port') || '@' || extract(epoch from pg_postmaster_start_time()),
       a.pid, a.application_name, extract(epoch from a.backend_start)::float8, 0::float8,
       false, 0::float8, '', '', '{}'::int[], '{}'::text[]
from pg_stat_activity a
where a.datname = current_database() and a.xact_start is null and a.pid <> pg_backend_pid()
  and a.pid in (select l.pid from pg_locks l where l.locktype = 'advisory' and l.granted)
"""
#: Sessions that wait without a lock request of their own: their parallel workers wait, or a deferrable transaction
#: waits for others to end.
_WAITERS_SQL = """
select current_setting('port') || '@' || extract(epoch from pg_postmaster_start_time()),
       a.pid, a.application_name, extract(epoch from a.backend_start)::float8,
       extract(epoch from a.xact_start)::float8, false, 0::float8,
       case a.wait_event when 'SafeSnapshot' then 'a safe snapshot' else 'a lock of a parallel worker' end, '',
       case a.wait_event when 'SafeSnapshot' then pg_safe_snapshot_blocking_pids(a.pid)
            else pg_blocking_pids(a.pid) end, '{}'::text[]
from pg_stat_activity a
where a.datname = current_database() and a.xact_start is not null and a.backend_type = 'client backend'
  and (a.wait_event = 'SafeSnapshot'
       or a.wait_event_type = 'IPC' and a.pid in (
           select w.leader_pid from pg_stat_activity w where w.wait_event_type = 'Lock'))
"""
#: All of these sessions, with the node's clock, to which the beginnings of waits refer.
_ALL_SQL = f"{WAITS_SQL} union all {_HOLDERS_SQL} union all {_WAITERS_SQL}"
_LOOK = f"select w.*, extract(epoch from clock_timestamp())::float8 from ({_ALL_SQL}) w"  # noqa: S608 -- two constants


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedClient:
    """A session with a name, and its identification at the servers."""

    name: str
    node: str
    pid: int = 0
    """PID of the backend at its node; 0: there is none, or the session is identified by its application_name only."""
    application_name: str = ""
    gid: str = ""
    """Global transaction, without a branch."""
    is_over: bool = False
    """Whether the transaction has ended for its application. Its branches are then being finished, and waits for
    them are not reported.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A session's provable wait for a lock, at its own node or another."""

    session: str
    on: str
    """Session that holds the lock; empty if it is not a known session."""
    node: str
    """Node of the lock."""
    pid: int = 0
    """PID of the holder at that node; 0 for a prepared branch."""
    gid: str = ""
    """The holder's gid, if the holder is a prepared branch."""
    lock: str = ""
    """Description of the lock: its mode, kind and table, as far as known."""
    holders: frozenset[str] = frozenset()
    """All holders of the lock: names of sessions or applications, or ``process …`` or ``branch …``."""
    since_us: int = field(default=0, compare=False)
    """Time waited so far, by the clock of the lock's node."""

    @property
    def holder(self) -> str:
        """One of the holders, preferably a known session."""
        return self.on or min(self.holders, default="")

    @property
    def application(self) -> str:
        """The holder's application_name, if the holder is not a known session and has set one."""
        named = not self.on and not self.holder.startswith(("process ", "branch "))
        return self.holder if named else ""

    def record(self, *, step: str) -> dict[str, Any]:
        """Return the wait in the form of a history's record; `step`: the holder's last step."""
        return {
            "session": self.on,
            "step": step,
            "node": self.node,
            "pid": self.pid,
            "gid": self.gid,
            "lock": self.lock,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """All waits at one moment."""

    waits: Mapping[str, Wait]
    """Waits of known sessions, by the session that waits."""
    every: tuple[Wait, ...] = ()
    """All waits, including those of unknown sessions."""
    cyclic: bool = False
    """Whether there is a cycle, which cannot last: it is broken by its server, or by us."""
    cycles: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    """Cycles that no single server can detect: the sessions, and a description of each wait."""


class RepeatedLook:
    """Proof of a wait by two successive observations that are equal."""

    def __init__(self) -> None:
        self._seen: object = None

    def confirms(self, seen: object) -> bool:
        """Whether this observation equals the previous one."""
        before, self._seen = self._seen, seen
        return seen == before

    def clear(self) -> None:
        """Discard the last observation, since the state has changed."""
        self._seen = None


class Observer:
    """One connection to every node's database, for observation only; opened at the first use.

    Args:
        dsns: an administrator's connection string by node.
    """

    def __init__(self, dsns: Mapping[str, str]) -> None:
        self._dsns = dict(dsns)
        self._connections: dict[str, psycopg.AsyncConnection[Any]] = {}
        self._connecting = asyncio.Lock()
        self.cut: list[str] = []
        """Nodes that currently refuse new connections; existing observers stay connected."""
        self.is_disturbed = False
        """Whether a connection was cut, a statement cancelled, or a delivery failed."""

    @classmethod
    async def connect(cls, dsns: Mapping[str, str]) -> Self:
        """Return an observer that is connected to each node."""
        observer = cls(dsns)
        await observer._connected()
        return observer

    async def _connected(self) -> Mapping[str, psycopg.AsyncConnection[Any]]:
        async with self._connecting:
            for node in self._dsns.keys() - self._connections.keys():
                self._connections[node] = await psycopg.AsyncConnection.connect(
                    self._dsns[node], autocommit=True, application_name="twopc observer"
                )
        return self._connections

    async def leave(self, node: str) -> None:
        """Disconnect from a node whose server is about to stop."""
        self._dsns.pop(node, None)
        connection = self._connections.pop(node, None)
        if connection is not None:
            await connection.close()

    async def return_to(self, node: str, dsn: str) -> None:
        """Observe a node again."""
        await self.leave(node)
        self._dsns[node] = dsn
        await self._connected()

    @property
    def versions(self) -> dict[str, int]:
        """The server's version number by node, as 180006."""
        return {node: each.info.server_version for node, each in self._connections.items()}

    async def transactions(self) -> list[OpenTransaction]:
        """Return every session with an open transaction."""
        return [one for result, _ in await self._looks() for one in result]

    async def look(self, clients: Iterable[ObservedClient] = ()) -> Waits:
        """Return the current waits; all nodes are observed as simultaneously as possible."""
        looked = await self._looks()
        sessions = [one for results, _ in looked for one in results]
        clocks = {one.node: now_s for result, now_s in looked for one in result}
        return read_waits(sessions, clients, clocks)

    async def _looks(self) -> list[tuple[list[OpenTransaction], float]]:
        connections = await self._connected()
        return await together(
            *(self._sessions(node, connection) for node, connection in connections.items())
        )

    async def _sessions(
        self, node: str, connection: psycopg.AsyncConnection[Any]
    ) -> tuple[list[OpenTransaction], float]:
        cursor = await connection.execute(_LOOK, prepare=True)
        rows = await cursor.fetchall()
        return [session(node, row[:-1]) for row in rows], rows[-1][-1] if rows else 0.0

    async def cancel(self, node: str, pid: int) -> None:
        """Cancel the running statement of a backend of `node`."""
        self.is_disturbed = True
        await (await self._connected())[node].execute("select pg_cancel_backend(%s)", (pid,))

    async def close(self) -> None:
        """Disconnect from every node."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            await connection.close()


async def clients_of(sessions: Mapping[str, ClientSession]) -> list[ObservedClient]:
    """Return the sessions as observed clients, one for each backend that works for a session."""
    results = [
        ObservedClient(name=name, node=node, pid=pid, gid=each.gid, is_over=each.has_committed)
        for name, each in sessions.items()
        if each.node
        for node, pid in (each.pids or {each.node: 0}).items()
    ]
    for name, each in sessions.items():
        results += [
            ObservedClient(name=name, node=node, pid=pid) for node, pid in await each.syncing()
        ]
    return results


def read_waits(
    sessions: Iterable[OpenTransaction],
    clients: Iterable[ObservedClient] = (),
    clocks: Mapping[str, float] | None = None,
) -> Waits:
    """Return the waits of these clients, from the rows of all nodes; `clocks`: each node's time in seconds."""
    return _WaitReading(tuple(sessions), tuple(clients), clocks or {}).waits()


class _WaitReading:
    """The locks of all nodes at one moment, mapped to the clients' names."""

    def __init__(
        self,
        sessions: tuple[OpenTransaction, ...],
        clients: tuple[ObservedClient, ...],
        clocks: Mapping[str, float],
    ) -> None:
        self._clocks = clocks
        self._names: dict[Party, str] = {}
        self._over = {each.gid for each in clients if each.gid and each.is_over}
        self._titles = {
            Party(one.server, one.pid): one.application_name
            for one in sessions
            if one.application_name
        }
        server_of = {one.node: one.server for one in sessions}
        known: dict[GlobalId, tuple[tuple[str, int], ...]] = {}
        for client in clients:
            if client.pid:  # the server of a node without open transactions is unknown
                party = Party(server_of.get(client.node, client.node), client.pid)
                self._names[party] = client.name
            if client.gid:
                self._names[Party("", 0, client.gid)] = client.name
            global_id = GlobalId.parse(client.gid)
            if global_id is not None and client.pid:
                known[global_id] = (*known.get(global_id, ()), (client.node, client.pid))
        applications = {
            (each.node, each.application_name): each.name
            for each in clients
            if each.application_name
        }
        for one in sessions:
            name = applications.get((one.node, one.application_name))
            if name is not None:
                self._names.setdefault(Party(one.server, one.pid), name)
        self._graph: Graph = build(sessions, known)

    def waits(self) -> Waits:
        """Return the waits and cycles."""
        every = {}
        for party, edges in self._graph.edges.items():
            lasting = [edge for edge in edges if not self._is_being_finished(edge.holder_gid)]
            if lasting:
                every[party] = self._wait(self._name(party), lasting)
        known: dict[str, Wait] = {}
        for party, name in self._names.items():
            if party in every:
                known.setdefault(name, every[party])
        cycles = tuple(
            (
                tuple(self._names.get(edge.party, "") for edge in cycle),
                tuple(self._words(edge) for edge in cycle),
            )
            for cycle in self._graph.cycles()
        )
        return Waits(
            waits=known, every=tuple(every.values()), cyclic=_cyclic(self._graph), cycles=cycles
        )

    def _is_being_finished(self, gid: str) -> bool:
        branch = BranchId.parse(gid) if gid and self._over else None
        return branch is not None and str(branch.global_id) in self._over

    def _name(self, party: Party) -> str:
        return self._names.get(party) or self._titles.get(party, "")

    def _wait(self, name: str, edges: list[Edge]) -> Wait:
        """Return the wait to report: for a known session rather than an unknown one."""
        edge = next((edge for edge in edges if edge.holder in self._names), edges[0])
        waiter = edge.waiter
        now_s = self._clocks.get(waiter.node, 0.0)
        since_s = now_s - waiter.wait_start if now_s and waiter.wait_start else 0.0
        return Wait(
            session=name,
            on=self._names.get(edge.holder, ""),
            node=waiter.node,
            pid=edge.holder_pid,
            gid=edge.holder_gid,
            lock=_lock_words(waiter),
            holders=frozenset(self._holder(each) for each in edges),
            since_us=max(0, round(since_s * 1_000_000)),
        )

    def _holder(self, edge: Edge) -> str:
        branch = f"branch {edge.holder_gid}" if edge.holder_gid else ""
        return self._name(edge.holder) or branch or f"process {edge.holder_pid}"

    def _words(self, edge: Edge) -> str:
        """Return one wait of a cycle as text, with the names of known sessions."""
        who = self._names.get(edge.party) or f"process {edge.waiter.pid}"
        held = edge.holder_gid or f"process {edge.holder_pid}"
        whom = self._names.get(edge.holder) or held
        return f"{who} waits at {edge.waiter.node} for {whom} ({_lock_words(edge.waiter)})"


def _lock_words(waiter: OpenTransaction) -> str:
    """Return a lock as text. A wait for a row's last writer, which is a lock on that transaction, is ``a row of
    t``.
    """
    if waiter.lock.endswith((" on transactionid", " on tuple")):
        return f"a row of {waiter.relation}" if waiter.relation else "a row"
    return f"{waiter.lock} {waiter.relation}".strip()


def _cyclic(graph: Graph) -> bool:
    """Whether there is a cycle, on a single server or several: parties that wait for no waiting party are removed
    repeatedly.
    """
    waiting = {party: {edge.holder for edge in edges} for party, edges in graph.edges.items()}
    while True:
        free = [party for party, holders in waiting.items() if not holders & waiting.keys()]
        if not free:
            return bool(waiting)
        for party in free:
            del waiting[party]
