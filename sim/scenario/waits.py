"""Which of a scenario's sessions provably waits, and for whom: across servers, and for branches too.

`twopc.waits` knows how to read locks and to find cycles; here its answer is put in the words of a
scenario. `told` is pure; `Observer` holds the connections that look.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import psycopg

from twopc.names import GlobalId
from twopc.sim.scenario.stage import Wait, Waits
from twopc.together import together
from twopc.waits import WAITS_SQL, Edge, Graph, Party, Session, Transactions, build, session

#: Sessions without a transaction that others may wait for all the same; columns as in `WAITS_SQL`.
_HOLDERS_SQL = """
select current_setting('port') || '@' || extract(epoch from pg_postmaster_start_time()),
       a.pid, a.application_name, extract(epoch from a.backend_start)::float8, 0::float8,
       false, 0::float8, '', '', '{}'::int[], '{}'::text[]
from pg_stat_activity a
where a.datname = current_database() and a.xact_start is null and a.pid <> pg_backend_pid()
  and a.pid in (select l.pid from pg_locks l where l.locktype = 'advisory' and l.granted)
"""
#: Both, with the node's own time, in which the beginnings of waits are told.
_ALL_SQL = f"{WAITS_SQL} union all {_HOLDERS_SQL}"
_LOOK = f"select w.*, extract(epoch from clock_timestamp())::float8 from ({_ALL_SQL}) w"  # noqa: S608 -- two constants


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """One of the scenario's sessions, as the servers know it."""

    name: str
    node: str
    pid: int
    """Its process at its node."""
    gid: str = ""
    """Its global transaction, without a branch."""


class Observer:
    """One connection to every node's database, for looking only."""

    def __init__(self, connections: Mapping[str, psycopg.AsyncConnection[Any]]) -> None:
        self._connections = dict(connections)
        self.cut: list[str] = []
        """The nodes that let nobody in at present; those who look were in before."""
        self.is_disturbed = False
        """Something was cut off, cancelled, or could not be delivered."""

    @classmethod
    async def connect(cls, dsns: Mapping[str, str]) -> Self:
        """Connect to each node as its administrator."""
        return cls(
            {
                node: await psycopg.AsyncConnection.connect(
                    dsn, autocommit=True, application_name="twopc observer"
                )
                for node, dsn in dsns.items()
            }
        )

    async def leave(self, node: str) -> None:
        """Look no more at a node whose server is about to go away."""
        connection = self._connections.pop(node, None)
        if connection is not None:
            await connection.close()

    async def return_to(self, node: str, dsn: str) -> None:
        """Look at a node again."""
        await self.leave(node)
        self._connections |= (await self.connect({node: dsn}))._connections

    @property
    def versions(self) -> dict[str, int]:
        """The server's version number by node, as 180006."""
        return {node: each.info.server_version for node, each in self._connections.items()}

    async def look(self, clients: Iterable[Client]) -> Waits:
        """Who waits at this moment; the nodes are looked at as closely together as can be."""
        looked = await together(
            *(self._sessions(node, connection) for node, connection in self._connections.items())
        )
        sessions = [one for found, _ in looked for one in found]
        clocks = {one.node: now_s for found, now_s in looked for one in found}
        return told(sessions, clients, clocks)

    async def _sessions(
        self, node: str, connection: psycopg.AsyncConnection[Any]
    ) -> tuple[list[Session], float]:
        cursor = await connection.execute(_LOOK, prepare=True)
        rows = await cursor.fetchall()
        return [session(node, row[:-1]) for row in rows], rows[-1][-1] if rows else 0.0

    async def cancel(self, node: str, pid: int) -> None:
        """Cancel what a process of `node` is running."""
        self.is_disturbed = True
        await self._connections[node].execute("select pg_cancel_backend(%s)", (pid,))

    async def close(self) -> None:
        """Leave every node."""
        for connection in self._connections.values():
            await connection.close()


def told(
    sessions: list[Session], clients: Iterable[Client], clocks: Mapping[str, float] | None = None
) -> Waits:
    """What the rows of all nodes mean for these clients; `clocks`: each node's time in seconds."""
    clients = tuple(clients)
    server_of = {one.node: one.server for one in sessions}
    graph = build(sessions, _transactions(clients))
    names: dict[Party, str] = {}
    for client in clients:
        if client.pid:  # a node without open transactions has not told its server
            names[Party(server_of.get(client.node, client.node), client.pid)] = client.name
        if client.gid:
            names[Party("", 0, client.gid)] = client.name
    waits = {
        name: _wait(name, graph.edges[party], names, clocks or {})
        for party, name in names.items()
        if graph.edges.get(party)
    }
    cycles = tuple(
        (
            tuple(names.get(edge.party, "") for edge in cycle),
            tuple(_edge_words(edge, names) for edge in cycle),
        )
        for cycle in graph.cycles()
    )
    return Waits(waits=waits, cyclic=_cyclic(graph), cycles=cycles)


def _transactions(clients: tuple[Client, ...]) -> Transactions:
    found: dict[GlobalId, tuple[tuple[str, int], ...]] = {}
    for client in clients:
        global_id = GlobalId.parse(client.gid)
        if global_id is not None and client.pid:
            found[global_id] = (*found.get(global_id, ()), (client.node, client.pid))
    return found


def _wait(
    name: str,
    edges: tuple[Edge, ...],
    names: Mapping[Party, str],
    clocks: Mapping[str, float],
) -> Wait:
    """The wait to speak of: for one of ours rather than for a stranger."""
    edge = next((edge for edge in edges if edge.holder in names), edges[0])
    waiter = edge.waiter
    now_s = clocks.get(waiter.node, 0.0)
    since_s = now_s - waiter.wait_start if now_s and waiter.wait_start else 0.0
    return Wait(
        session=name,
        on=names.get(edge.holder, ""),
        node=waiter.node,
        pid=edge.holder_pid,
        gid=edge.holder_gid,
        lock=_lock_words(waiter),
        since_us=max(0, round(since_s * 1_000_000)),
    )


def _edge_words(edge: Edge, names: Mapping[Party, str]) -> str:
    """One wait of a cycle, by the names of sessions where they have one."""
    who = names.get(edge.party) or f"process {edge.waiter.pid}"
    held = edge.holder_gid or f"process {edge.holder_pid}"
    whom = names.get(edge.holder) or held
    return f"{who} waits at {edge.waiter.node} for {whom} ({_lock_words(edge.waiter)})"


def _lock_words(waiter: Session) -> str:
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
