"""Which session provably waits, and for whom: across servers, and for prepared branches too.

`twopc.waits` knows how to read locks and to find cycles; here its answer is given by the names of sessions. `read_waits`
is pure; `Observer` holds the connections that look.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self

import psycopg

from twopc.names import BranchId, GlobalId
from twopc.together import together
from twopc.waits import WAITS_SQL, Edge, Graph, OpenTransaction, Party, build, session

#: How often it is looked whether somebody waits, while nothing has ended.
LOOK_EVERY_S = 0.003
#: Sessions without a transaction that others may wait for all the same; columns as in `WAITS_SQL`.
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
#: All of them, with the node's own time, in which the beginnings of waits are told.
_ALL_SQL = f"{WAITS_SQL} union all {_HOLDERS_SQL} union all {_WAITERS_SQL}"
_LOOK = f"select w.*, extract(epoch from clock_timestamp())::float8 from ({_ALL_SQL}) w"  # noqa: S608 -- two constants


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedClient:
    """A session that is known by a name, as the servers know it."""

    name: str
    node: str
    pid: int = 0
    """Its process at its node; 0: it has none, or is known by its application's name only."""
    application_name: str = ""
    gid: str = ""
    """Its global transaction, without a branch."""
    is_over: bool = False
    """That transaction has ended for its application: its branches are being finished, and nobody counts as waiting
    for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """A session provably waits for a lock, here or at another node."""

    session: str
    on: str
    """The session that holds the lock; empty if it is none of those that are known."""
    node: str
    """Where the lock is."""
    pid: int = 0
    """The holder's process there; 0 for a prepared branch."""
    gid: str = ""
    """The holder's gid, if it is a prepared branch."""
    lock: str = ""
    """The lock in words: its mode, kind and table, as far as known."""
    holders: frozenset[str] = frozenset()
    """Everybody who holds it: names of sessions or applications, or what they are."""
    since_us: int = field(default=0, compare=False)
    """For so long it has waited already, by the clock of the node where the lock is."""

    @property
    def holder(self) -> str:
        """One of those who hold it: a known session rather than a stranger."""
        return self.on or min(self.holders, default="")

    @property
    def application(self) -> str:
        """By which name the holder has connected, if it is none of the known sessions and has said one."""
        named = not self.on and not self.holder.startswith(("process ", "branch "))
        return self.holder if named else ""

    def record(self, *, step: str) -> dict[str, Any]:
        """As it stands in a history; `step`: what the holder did last."""
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
    """Who waits for whom at one moment."""

    waits: Mapping[str, Wait]
    """By the session that waits, if it is known."""
    every: tuple[Wait, ...] = ()
    """Those of strangers too."""
    cyclic: bool = False
    """Somebody waits in a cycle, so that this cannot last: its server breaks it, or we do."""
    cycles: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()
    """Cycles that no server can see: the sessions, and each wait in words."""


class RepeatedLook:
    """What proves a wait: two looks, one after the other, that saw the same."""

    def __init__(self) -> None:
        self._seen: object = None

    def confirms(self, seen: object) -> bool:
        """Whether the look before this one saw the same."""
        before, self._seen = self._seen, seen
        return seen == before

    def clear(self) -> None:
        """Something has happened since the last look."""
        self._seen = None


class Observer:
    """One connection to every node's database, for looking only; made at the first look.

    Args:
        dsns: an administrator's, by node.
    """

    def __init__(self, dsns: Mapping[str, str]) -> None:
        self._dsns = dict(dsns)
        self._connections: dict[str, psycopg.AsyncConnection[Any]] = {}
        self._connecting = asyncio.Lock()
        self.cut: list[str] = []
        """The nodes that let nobody in at present; those who look were in before."""
        self.is_disturbed = False
        """Something was cut off, cancelled, or could not be delivered."""

    @classmethod
    async def connect(cls, dsns: Mapping[str, str]) -> Self:
        """One that is connected to each node already."""
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
        """Look no more at a node whose server is about to go away."""
        self._dsns.pop(node, None)
        connection = self._connections.pop(node, None)
        if connection is not None:
            await connection.close()

    async def return_to(self, node: str, dsn: str) -> None:
        """Look at a node again."""
        await self.leave(node)
        self._dsns[node] = dsn
        await self._connected()

    @property
    def versions(self) -> dict[str, int]:
        """The server's version number by node, as 180006."""
        return {node: each.info.server_version for node, each in self._connections.items()}

    async def transactions(self) -> list[OpenTransaction]:
        """Every session that has a transaction open at this moment."""
        connections = await self._connected()
        looked = await together(
            *(self._sessions(node, connection) for node, connection in connections.items())
        )
        return [one for result, _ in looked for one in result]

    async def look(self, clients: Iterable[ObservedClient] = ()) -> Waits:
        """Who waits at this moment; the nodes are looked at as closely together as can be."""
        connections = await self._connected()
        looked = await together(
            *(self._sessions(node, connection) for node, connection in connections.items())
        )
        sessions = [one for results, _ in looked for one in results]
        clocks = {one.node: now_s for result, now_s in looked for one in result}
        return read_waits(sessions, clients, clocks)

    async def _sessions(
        self, node: str, connection: psycopg.AsyncConnection[Any]
    ) -> tuple[list[OpenTransaction], float]:
        cursor = await connection.execute(_LOOK, prepare=True)
        rows = await cursor.fetchall()
        return [session(node, row[:-1]) for row in rows], rows[-1][-1] if rows else 0.0

    async def cancel(self, node: str, pid: int) -> None:
        """Cancel what a process of `node` is running."""
        self.is_disturbed = True
        await (await self._connected())[node].execute("select pg_cancel_backend(%s)", (pid,))

    async def close(self) -> None:
        """Leave every node."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            await connection.close()


class ObservedSession(Protocol):
    """What of a session has to be known to find it among the servers' sessions."""

    node: str

    @property
    def gid(self) -> str:
        """The global transaction that is open or was last."""
        ...

    @property
    def pids(self) -> Mapping[str, int]:
        """Its process at each node that it works at."""
        ...

    @property
    def has_committed(self) -> bool:
        """Its last transaction has committed, and no other is open."""
        ...

    def syncing(self) -> Awaitable[Iterable[tuple[str, int]]]:
        """Node and process of the agents at work for it."""
        ...


async def clients_of(sessions: Mapping[str, ObservedSession]) -> list[ObservedClient]:
    """Sessions by their names, each with every process that works for it."""
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
    """What the rows of all nodes mean for these clients; `clocks`: each node's time in seconds."""
    return _WaitReading(tuple(sessions), tuple(clients), clocks or {}).waits()


class _WaitReading:
    """The locks of all nodes at one moment, read for those who are known by name."""

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
            if client.pid:  # a node without open transactions has not told its server
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
        """Who waits for whom."""
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
        """The wait to speak of: for one of ours rather than for a stranger."""
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
        """One wait of a cycle, by the names of sessions where they have one."""
        who = self._names.get(edge.party) or f"process {edge.waiter.pid}"
        held = edge.holder_gid or f"process {edge.holder_pid}"
        whom = self._names.get(edge.holder) or held
        return f"{who} waits at {edge.waiter.node} for {whom} ({_lock_words(edge.waiter)})"


def _lock_words(waiter: OpenTransaction) -> str:
    """``a row of t``: who waits for a row's last writer waits for that transaction's own lock."""
    if waiter.lock.endswith((" on transactionid", " on tuple")):
        return f"a row of {waiter.relation}" if waiter.relation else "a row"
    return f"{waiter.lock} {waiter.relation}".strip()


def _cyclic(graph: Graph) -> bool:
    """Whether anybody waits in a cycle, one server's own included: peel off those who do not."""
    waiting = {party: {edge.holder for edge in edges} for party, edges in graph.edges.items()}
    while True:
        free = [party for party, holders in waiting.items() if not holders & waiting.keys()]
        if not free:
            return bool(waiting)
        for party in free:
            del waiting[party]
