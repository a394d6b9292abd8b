"""Figures of one moment for a running topology.

Read-only. A node that does not answer is reported, and the others are shown.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg import AsyncConnection, conninfo

from twopc import waits
from twopc.drivers.in_doubt import reason_of
from twopc.names import PREFIX
from twopc.publisher import slot
from twopc.publisher.distribution import AgentStatus, agents, counting_unread, readers
from twopc.publisher.slot import SlotState
from twopc.sim.up import parts
from twopc.sim.up.merge_watch import CONFLICTS, NEIGHBOURS, WatchedMerge, conflict_text, merges_of
from twopc.sim.up.setup import DISTRIBUTION, server_of
from twopc.sim.up.state import State
from twopc.sql import path
from twopc.together import together

_TIMEOUT_S = 3
_NODE = """
select (select count(*) from pg_stat_activity
        where datname = current_database() and backend_type = 'client backend'
          and usename = %s and application_name !~ '^(msrepl|twopc) '),
       case when to_regclass('msrepl.any_client_sequence') is null then null
            else pg_sequence_last_value(to_regclass('msrepl.any_client_sequence')) end,
       to_regclass('msrepl.any_client') is not null
"""
_PREPARED = """
select gid, extract(epoch from clock_timestamp() - prepared)::float8 from pg_prepared_xacts
where database = current_database() order by prepared
"""
_REFUSALS_KEPT = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedNode:
    """A Publisher or Subscriber."""

    name: str
    error: str = ""
    """Why the node could not be queried; empty: it was."""
    sessions: int = 0
    """Number of sessions of the application's role."""
    transactions: int = 0
    """Number of transactions of any client that have changed something at this node since its setup."""
    refused: int = 0
    """Number of statements that the Publisher has refused since the watch began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedConflict:
    """A conflict, from the server log; with merge replication, from the Publisher's records."""

    at: str
    node: str
    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyState:
    """The state of the whole topology."""

    nodes: tuple[WatchedNode, ...]
    refusals: tuple[LoggedConflict, ...]
    """The last conflicts."""
    blocked: tuple[str, ...]
    """All waits, one sentence each."""
    in_doubt: tuple[tuple[str, str, float], ...]
    """Node, gid and age in seconds of each prepared transaction."""
    agents: tuple[AgentStatus, ...]
    missing: tuple[str, ...]
    """Servers and processes that should run and do not."""
    stopped: tuple[parts.StoppedProcess, ...]
    """Suspended processes."""
    unreachable: tuple[str, ...]
    """Nodes that did not answer, whose prepared transactions or agents' progress are unknown."""
    unread_bytes: int = 0
    """Bytes of the Publisher's log that are not read yet; their transactions are not included in the agents'
    figures.
    """
    merges: tuple[WatchedMerge, ...] = ()
    """Subscriptions of merge replication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IdleProcesses:
    """Servers and processes that do not work."""

    missing: tuple[str, ...] = ()
    """Servers and processes that should run and do not."""
    stopped: tuple[parts.StoppedProcess, ...] = ()
    """Suspended processes."""

    def __bool__(self) -> bool:
        return bool(self.missing or self.stopped)


class _NodeAnswer(NamedTuple):
    """The answers of a node."""

    now: WatchedNode
    waits: Sequence[tuple[Any, ...]] = ()
    prepared: Sequence[tuple[Any, ...]] = ()
    any_client: bool = False
    """Whether any client may write at the node."""


class TopologyWatch:
    """Observes a topology repeatedly; an async context manager."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._connections: dict[str, AsyncConnection[Any]] = {}
        self._logs = {name: server_of(state, name).log for name in state.servers}
        self._read: dict[str, int] = {}
        self._refused: Counter[str] = Counter()
        self._refusals: deque[LoggedConflict] = deque(maxlen=_REFUSALS_KEPT)
        self._expected = parts.expected_parts(state, state.subscribers, any_client=True)
        """Processes that should run, as of the last time when all servers answered."""

    async def __aenter__(self) -> TopologyWatch:
        return self

    async def __aexit__(self, *_: object) -> None:
        for connection in self._connections.values():
            await connection.close()

    @property
    def merges(self) -> bool:
        """Whether the topology uses merge replication, and therefore has no distribution database."""
        return self._state.merges

    async def look(self) -> TopologyState:
        """Return the present state."""
        for server, log in self._logs.items():
            await asyncio.to_thread(self._read_log, server, log)
        state = self._state
        names = (state.publisher, *state.subscribers)
        seen = await together(*(self._node(name) for name in names))
        graph = waits.build(waits.session(one.now.name, row) for one in seen for row in one.waits)
        known = await self._agents()
        merges = await self._merges([one.now.name for one in seen if not one.now.error])
        if known is not None and not any(one.now.error for one in seen):
            subscribed = [each.subscriber for each in (merges if state.merges else known)]
            any_client = any(one.any_client for one in seen)
            self._expected = parts.expected_parts(state, subscribed, any_client=any_client)
        in_doubt = [
            (one.now.name, str(gid), float(age))
            for one in seen
            for gid, age in one.prepared
            if str(gid).startswith(f"{PREFIX}:")
        ]
        unread = await self._slot()
        processes = await asyncio.to_thread(_idle, state, self._expected)
        return TopologyState(
            nodes=tuple(one.now for one in seen),
            refusals=tuple(self._refusals),
            blocked=tuple(str(edge) for edges in graph.edges.values() for edge in edges),
            in_doubt=tuple(sorted(in_doubt, key=lambda each: -each[2])),
            agents=as_stopped(counting_unread(known or (), unread), processes.stopped),
            missing=processes.missing,
            stopped=processes.stopped,
            unread_bytes=unread.unread_bytes if unread is not None else 0,
            unreachable=tuple(one.now.name for one in seen if one.now.error)
            + ((DISTRIBUTION,) if known is None else ()),
            merges=merges,
        )

    def role(self, name: str) -> str:
        """Return the application's role at a node."""
        return str(conninfo.conninfo_to_dict(self._state.nodes[name].app_dsn)["user"])

    async def _node(self, name: str) -> _NodeAnswer:
        """Run all queries at a node; a node that fails before the last answer counts as not answering."""
        try:
            ((sessions, begun, there),) = await self.rows(name, _NODE, (self.role(name),))
            waiting = await self.rows(name, waits.WAITS_SQL)
            prepared = await self.rows(name, _PREPARED)
            any_client = there and bool(await self.rows(name, "select from msrepl.any_client"))
        except psycopg.Error as error:
            return _NodeAnswer(WatchedNode(name=name, error=reason_of(error)))
        now = WatchedNode(
            name=name,
            sessions=int(sessions),
            transactions=int(begun or 0),
            refused=self._refused[name],
        )
        return _NodeAnswer(now, waiting, prepared, any_client)

    async def rows(self, name: str, query: str, params: Any = None) -> list[tuple[Any, ...]]:
        """Run a query at a node as the administrator.

        Raises:
            psycopg.Error: the node does not answer, or refuses the query.
        """
        connection = self._connections.get(name)
        if connection is None or connection.closed:
            dsn = self._state.nodes[name].dsn
            connection = self._connections[name] = await AsyncConnection.connect(
                dsn,
                autocommit=True,
                options=path.options(dsn),
                connect_timeout=_TIMEOUT_S,
                application_name="twopc watch",
            )
        try:
            return await (await connection.execute(query.encode(), params)).fetchall()
        except psycopg.OperationalError:
            await connection.close()
            raise

    async def _agents(self) -> list[AgentStatus] | None:
        """Return the agents' status; None: the distribution database does not answer."""
        if self._state.merges:
            return []
        try:
            await self.rows(DISTRIBUTION, "select 1")
            return await agents(self._connections[DISTRIBUTION])
        except psycopg.Error:
            return None  # `missing` names its server

    async def _slot(self) -> SlotState | None:
        """Return the state of the Publisher's slot; None: there are no subscriptions, or a node does not answer."""
        name = self._state.publisher
        if self._state.merges or name not in self._connections:
            return None
        try:
            known = await readers(self._connections[DISTRIBUTION])
            registered = [each.slot for each in known if each.publisher == name]
            return await slot.look(self._connections[name], *registered) if registered else None
        except (KeyError, psycopg.Error):
            return None

    async def _merges(self, names: Sequence[str]) -> tuple[WatchedMerge, ...]:
        """Return the subscriptions of merge replication, and update the list of the last conflicts."""
        if not self._state.merges:
            return ()
        answers: dict[str, Sequence[tuple[Any, ...]]] = {}
        for name in names:
            with suppress(psycopg.Error):
                answers[name] = await self.rows(name, NEIGHBOURS)
        with suppress(psycopg.Error):
            recorded = await self.rows(self._state.publisher, CONFLICTS, (_REFUSALS_KEPT,))
            self._refusals.clear()
            for at, origin, winner, kind, table in reversed(recorded):
                name, text = conflict_text(winner, kind, table)
                self._refusals.append(LoggedConflict(at=at, node=origin, kind=name, text=text))
        return merges_of(answers)

    def _read_log(self, server: str, path: Path) -> None:
        """Read the server log's new lines; errors of conflicts have facts in their DETAIL."""
        try:
            size = path.stat().st_size
            start = self._read.setdefault(server, size)
            if size < start:
                start = 0  # the file was replaced
            with path.open("rb") as log:
                log.seek(start)
                text = log.read()
        except OSError:
            return
        whole = text.rfind(b"\n") + 1
        self._read[server] = start + whole
        for line in text[:whole].splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # an incomplete line of a killed server
            refusal = refusal_of(entry, self._state.subscribers)
            if refusal is not None:
                self._refused[refusal.node] += 1
                self._refusals.append(refusal)


async def idle(state: State) -> IdleProcesses:
    """Return the servers and processes of a topology that do not work; the needed ones are determined by querying
    its servers.
    """
    async with TopologyWatch(state) as eyes:
        now = await eyes.look()
    return IdleProcesses(missing=now.missing, stopped=now.stopped)


def _idle(state: State, needed: Sequence[parts.TopologyPart]) -> IdleProcesses:
    down = [f"server of {name}" for name in state.servers if server_of(state, name).pid is None]
    alive = parts.running(state.folder)
    return IdleProcesses(
        missing=(*down, *(str(part) for part in needed if part not in alive)),
        stopped=parts.stopped(alive),
    )


def as_stopped(
    statuses: Sequence[AgentStatus], stopped: Sequence[parts.StoppedProcess]
) -> tuple[AgentStatus, ...]:
    """Return the agents' status with runstatus ``stopped`` for suspended processes, which cannot report it
    themselves.
    """
    names = {each.process for each in stopped}
    return tuple(
        replace(each, runstatus="stopped")
        if str(parts.TopologyPart("agent", each.subscriber)) in names
        else each
        for each in statuses
    )


def refusal_of(entry: Mapping[str, Any], subscribers: tuple[str, ...]) -> LoggedConflict | None:
    """Return the conflict that a Subscriber's line of a server log reports; None otherwise, since the Publisher
    logs it too.
    """
    node = entry.get("dbname", "")
    if entry.get("error_severity") != "ERROR" or node not in subscribers:
        return None
    try:
        facts = json.loads(entry.get("detail", ""))
        kind, article, key = facts["kind"], facts["article"], facts["key"]
    except (ValueError, KeyError, TypeError):
        return None  # an error of another kind
    return LoggedConflict(
        at=str(entry.get("timestamp", ""))[11:19],
        node=node,
        kind=str(kind),
        text=f"{article} {json.dumps(key)}",
    )
