"""A stage on real servers with faults; see `twopc.sim.scenario.stage.Stage`.

The runner decides when steps are started; the performer performs faults.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from twopc.sim.deliveries import ReportedDelivery
from twopc.sim.faults.call_server import RECOVER
from twopc.sim.faults.capabilities import IN_PROCESS
from twopc.sim.faults.plans import plans_of
from twopc.sim.faults.postgres import Performer
from twopc.sim.faults.remote import DeadError
from twopc.sim.faults.sessions import RemoteSession, StruckAnyClientSession
from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.postgres_stage import PostgresStage
from twopc.sim.scenario.postgres_topologies import PreparedTopology
from twopc.sim.scenario.stage import AwayError, NodeContent
from twopc.sim.scenario.values import Case, FaultStrike
from twopc.sim.sessions.local import refused
from twopc.sim.sessions.servers import PostgresSession
from twopc.sim.sessions.waits import Waits


class FaultyStage(PostgresStage):
    """A stage whose sessions have their coordinator in a process of its own, so that faults can strike it."""

    def __init__(self, prepared: PreparedTopology, case: Case) -> None:
        super().__init__(prepared)
        self._performer = Performer(
            prepared.topology,
            prepared.observer,
            plans_of(case),
            step_ms=prepared.scenario.topology.timeouts.step_ms,
            off=case.off & IN_PROCESS,
            settled=self._settled,
        )

    async def begin(self) -> None:
        """Open wires and gates, before any session connects."""
        await self._performer.open()

    async def _coordinated(self, session: str, node: str, also: Sequence[str]) -> PostgresSession:
        opened = self._performer.sessions[session] = RemoteSession(
            self._topology,
            node,
            self._observer,
            name=session,
            living=self._performer.living,
            also=also,
        )
        return opened

    def _any_client(self, session: str, node: str) -> PostgresSession:
        opened = StruckAnyClientSession(self._topology, node, self._observer)
        self._performer.sessions[session] = opened
        return opened

    async def arm(self, fault: Fault) -> None:
        await self._performer.living()
        await self._performer.arm(fault.id)

    async def fired(self) -> Sequence[FaultStrike]:
        return self._performer.fired()

    async def recover(self) -> None:
        """Heal the faults that heal, then run one pass of recovery in the coordinator's process."""
        performer = self._performer
        await performer.heal()
        process = await performer.living()
        if process is not None and not process.is_stopped:
            try:
                await process.call("", RECOVER)
            except DeadError:
                pass  # struck at a point of recovery
            except psycopg.Error as error:
                raise refused(error, node="", gid="") from error

    async def close(self) -> None:
        """Heal everything that would affect later cases."""
        await self._performer.close()

    async def at_gates(self) -> bool:
        """Perform the faults of sessions that wait in triggers and procedures; return False if no session does.

        For callers that do not call `waits`, which does this too.
        """
        return await self._performer.at_gates()

    # -- observation, which waits until no fault is being performed ---------------------------------

    async def waits(self) -> Waits:
        if await self._performer.at_gates():
            return Waits(waits={})  # the session that was at the gate is running again
        async with self._performer.turn:
            looked = await super().waits()
        waits = {**self._performer.waits(self._sessions), **looked.waits}
        return dataclasses.replace(looked, waits=waits)

    async def deliveries(self) -> list[ReportedDelivery]:
        async with self._performer.turn:
            return await super().deliveries()

    async def look(self, node: str, tables: Mapping[str, Sequence[str]]) -> NodeContent:
        async with self._performer.turn:
            if node in self._performer.down:
                raise AwayError(node)
            return await super().look(node, tables)

    async def prepared(self, node: str) -> tuple[str, ...]:
        async with self._performer.turn:
            return () if node in self._performer.down else await super().prepared(node)

    async def markers(self, node: str) -> list[dict[str, Any]]:
        async with self._performer.turn:
            return await super().markers(node)

    async def query(self, node: str, text: str) -> list[dict[str, Any]]:
        async with self._performer.turn:
            return await super().query(node, text)
