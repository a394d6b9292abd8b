"""Who waits for whom among the sessions of a topology, whoever opened them.

Looks at every node's locks. It must not know what sessions are for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncConnection

from twopc.names import GlobalId
from twopc.together import together
from twopc.waits import WAITS_SQL, Edge, Graph, Party, Session, build, session

#: How often it is looked whether somebody waits, while nothing has ended.
LOOK_EVERY_S = 0.003
OBSERVER = "twopc observer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """A session that is known by a name."""

    name: str
    node: str
    pid: int = 0
    """0: it is known by its application's name only."""
    application_name: str = ""
    gid: str = ""
    """Its global transaction, without a branch."""
    is_open: bool = True
    """False: its transaction is over for its application; branches are being finished."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A session provably waits for a lock."""

    holders: frozenset[str]
    """Who has it: names of sessions, or what they are."""
    node: str
    """Where the lock is."""
    pid: int
    """The holder's process there; 0 for a prepared branch."""
    gid: str
    """The holder's gid, if it is a prepared branch."""
    lock: str = field(compare=False)
    """In words."""

    @property
    def holder(self) -> str:
        """The first of them."""
        return min(self.holders)


class Look:
    """The locks of all nodes at one moment."""

    def __init__(self, sessions: Iterable[Session], clients: Iterable[Client]) -> None:
        self.sessions = tuple(sessions)
        clients = tuple(clients)
        server_of = {one.node: one.server for one in self.sessions}
        known: dict[GlobalId, tuple[tuple[str, int], ...]] = {}
        self._names: dict[Party, str] = {}
        self._over: set[Party] = set()
        for one in self.sessions:
            if one.application_name:
                self._names[Party(one.server, one.pid)] = one.application_name
        for client in clients:
            global_id = GlobalId.parse(client.gid)
            if client.pid:
                self._names[Party(server_of.get(client.node, client.node), client.pid)] = (
                    client.name
                )
            if global_id is not None:
                self._names[Party("", 0, client.gid)] = client.name
                if client.is_open and client.pid:
                    known[global_id] = ((client.node, client.pid),)
                else:
                    self._over.add(Party("", 0, client.gid))
        self.graph: Graph = build(self.sessions, known)
        self.waits: Mapping[Party, Waiting] = {
            party: self._waiting(edges)
            for party, edges in self.graph.edges.items()
            if any(edge.holder not in self._over for edge in edges)
        }

    def _waiting(self, edges: tuple[Edge, ...]) -> Waiting:
        first = edges[0]
        lock = first.waiter.lock
        if lock.endswith((" on transactionid", " on tuple")):
            lock = f"a row of {first.waiter.relation}" if first.waiter.relation else "a row"
        return Waiting(
            holders=frozenset(self.name(edge) for edge in edges),
            node=first.waiter.node,
            pid=first.holder_pid,
            gid=first.holder_gid,
            lock=lock,
        )

    def name(self, edge: Edge) -> str:
        """Who holds what this edge waits for."""
        found = self._names.get(edge.holder)
        if found is not None:
            return found
        return f"branch {edge.holder_gid}" if edge.holder_gid else f"process {edge.holder_pid}"

    def of(self, client: Client) -> Waiting | None:
        """What a session waits for; None if it does not wait."""
        for party, waiting in self.waits.items():
            if self._names.get(party) == client.name and client.pid:
                return waiting
        if client.application_name:
            for one in self.sessions:
                if (one.node, one.application_name) == (client.node, client.application_name):
                    waits = self.waits.get(Party(one.server, one.pid))
                    if waits is not None:
                        return waits
        return None


class Eyes:
    """One connection to every node's database, for looking only; made when somebody looks first.

    Args:
        dsns: an administrator's, by node.
    """

    def __init__(self, dsns: Mapping[str, str]) -> None:
        self._dsns = dict(dsns)
        self._connections: dict[str, AsyncConnection[Any]] = {}
        self._turn = asyncio.Lock()

    async def look(self, clients: Iterable[Client] = ()) -> Look:
        """Who waits now; the nodes are looked at as closely together as can be."""
        async with self._turn:
            found = await together(*(self._sessions(node) for node in self._dsns))
        return Look([one for some in found for one in some], clients)

    async def _sessions(self, node: str) -> list[Session]:
        connection = self._connections.get(node)
        if connection is None:
            connection = self._connections[node] = await AsyncConnection.connect(
                self._dsns[node], autocommit=True, application_name=OBSERVER
            )
        cursor = await connection.execute(WAITS_SQL, prepare=True)
        return [session(node, row) for row in await cursor.fetchall()]

    async def close(self) -> None:
        """Leave every node."""
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()
