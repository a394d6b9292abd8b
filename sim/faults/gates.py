"""Gates in procedures and triggers: a session that reaches a closed gate waits, and its wait can be observed.

A gate is a few lines added to a routine of ours: an advisory lock that is taken and released at once, so that it is
not held when the transaction prepares. While the gate is closed, the fault's connection holds that lock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc import names
from twopc.publisher import publication
from twopc.sim.topology import Topology

#: The first key of our advisory locks.
_CLASS = 7431
_OPERATIONS = ("ins", "upd", "del")
#: The first key of a lock whose second key is the PID of the session that is to fail.
_STRUCK = 7432
#: The second lock makes one of the sessions that pass fail, and none of the others.
_GATE = """
    declare
        is_struck boolean;
    begin
        perform pg_catalog.pg_advisory_lock_shared({cls}, {gate});
        is_struck := not pg_catalog.pg_try_advisory_lock_shared({struck}, pg_catalog.pg_backend_pid());
        if not is_struck then
            perform pg_catalog.pg_advisory_unlock_shared({struck}, pg_catalog.pg_backend_pid());
        end if;
        perform pg_catalog.pg_advisory_unlock_shared({cls}, {gate});
        if is_struck then
            raise exception 'a fault of the scenario' using errcode = {state};
        end if;
    end;
"""
#: The routines that contain each point.
_ROUTINES = {
    "trigger.enter": names.sync_trigger_function,
    "proc.before_compare": names.change_function,  # called by the procedure
    "proc.after_apply": names.sync_procedure,
}
_WAITING = """
select l.pid, a.application_name from pg_locks l join pg_stat_activity a using (pid)
where l.locktype = 'advisory' and not l.granted and l.classid = %s and l.objid = %s
  and l.database = (select oid from pg_database where datname = current_database())
order by l.waitstart, l.pid
"""
_DEFINITION = """
select pg_get_functiondef(oid) from pg_proc
where pronamespace = 'msrepl'::regnamespace and proname = any (%s)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class GateWait:
    """A session waits at a gate."""

    node: str
    pid: int
    name: str
    """The session's application_name."""


class FaultGate:
    """The gate of one fault: in the Publisher's procedures, or in every Subscriber's triggers.

    Args:
        number: number of the fault, unique in its topology.
        point: ``trigger.enter``, ``proc.before_compare`` or ``proc.after_apply``.
        state: SQLSTATE of the error of a session that is to fail.
    """

    def __init__(self, topology: Topology, number: int, point: str, state: str) -> None:
        self._topology = topology
        self._key = number
        self._point = point
        self._state = state or "58000"
        self._keepers: dict[str, AsyncConnection[Any]] = {}
        """Connection that holds the lock, by node."""
        self._moving = asyncio.Lock()
        """Held while the gate closes or opens, at one node after the other."""

    @property
    def nodes(self) -> Sequence[str]:
        """Nodes of the gate."""
        if self._point == "trigger.enter":
            return self._topology.subscribers
        return (self._topology.publisher,)

    async def build(self) -> None:
        """Add the gate to the existing routines, and leave it open."""
        topology = self._topology
        articles = await publication.articles(await topology.admin(topology.publisher))
        name_of = _ROUTINES[self._point]
        routines = [
            name_of(operation, article.schema, article.table)
            for article in articles
            for operation in _OPERATIONS
        ]
        for node in self.nodes:
            for (definition,) in await topology.execute(node, _DEFINITION, (routines,)):
                await topology.execute(node, self._with_gate(str(definition)))

    def _with_gate(self, definition: str) -> str:
        lines = (
            sql.SQL(_GATE)
            .format(
                cls=sql.Literal(_CLASS),
                gate=sql.Literal(self._key),
                struck=sql.Literal(_STRUCK + self._key),
                state=sql.Literal(self._state),
            )
            .as_string(None)
        )
        if self._point == "trigger.enter":
            at = definition.index("\nbegin") + len("\nbegin")
        elif self._point == "proc.before_compare":
            at = definition.index("\n    loop\n") + 1
        else:
            at = definition.rindex("\nend\n") + 1
        return definition[:at] + lines + definition[at:]

    async def shut(self) -> None:
        """Close the gate: sessions that reach it wait from now on."""
        async with self._moving:
            for node in self.nodes:
                if node not in self._keepers:
                    self._keepers[node] = await self._topology.node(node).connect()
                await self._hold(node, "lock")

    async def waiting(self) -> list[GateWait]:
        """Return the sessions that wait at the gate."""
        results = []
        for node, keeper in [*self._keepers.items()]:  # a copy, since `shut` may be running
            if not keeper.closed:
                cursor = await keeper.execute(_WAITING, (_CLASS, self._key))
                results += [
                    GateWait(node=node, pid=pid, name=name) for pid, name in await cursor.fetchall()
                ]
        return results

    async def let_pass(self, node: str) -> None:
        """Let the sessions pass that wait at a node, and no others."""
        await self._hold(node, "unlock")
        await self._hold(node, "lock")

    async def let_fail(self, node: str, pid: int) -> None:
        """Let the sessions pass that wait at a node, and make one of them fail."""
        struck = (_STRUCK + self._key, pid)
        await self._hold(node, "lock", struck)
        await self.let_pass(node)
        await self._hold(node, "unlock", struck)

    async def _hold(self, node: str, what: str, key: tuple[int, int] | None = None) -> None:
        await self._keepers[node].execute(
            f"select pg_catalog.pg_advisory_{what}(%s, %s)".encode(), key or (_CLASS, self._key)
        )

    async def open(self) -> None:
        """End every wait at this gate; idempotent, also after the server has stopped."""
        async with self._moving:
            keepers, self._keepers = self._keepers, {}
            for keeper in keepers.values():
                with suppress(psycopg.Error):
                    await keeper.close()
