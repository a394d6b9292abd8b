"""A stage on real servers on which faults happen; see `twopc.sim.scenario.stage.Stage`.

What happens when is the runner's business, what is done the performer's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from twopc.sim.faults.call_server import RECOVER
from twopc.sim.faults.capabilities import IN_PROCESS
from twopc.sim.faults.plans import plans_of
from twopc.sim.faults.postgres import Performer
from twopc.sim.faults.remote import DeadError
from twopc.sim.faults.sessions import RemoteSession, StruckAnyClientSession
from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.postgres_stage import PostgresStage
from twopc.sim.scenario.postgres_topologies import PreparedTopology
from twopc.sim.scenario.stage import AwayError, NodeContent, StageDelivery
from twopc.sim.scenario.values import Case, FaultStrike
from twopc.sim.sessions.local import refused
from twopc.sim.sessions.servers import PostgresSession
from twopc.sim.sessions.waits import Waits


class FaultyStage(PostgresStage):
    """The sessions' coordinator is a process of its own, so that it can be struck."""

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
        """Before anybody connects."""
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
        """Mend what heals, then one pass of recovery in the coordinator's process."""
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
        """Nothing is broken afterwards that others would stumble over."""
        await self._performer.close()

    async def at_gates(self) -> bool:
        """Let happen what happens to those who stand within triggers and procedures; False: nobody does.

        For whoever does not look who waits for whom, and so does not come by here.
        """
        return await self._performer.at_gates()

    # -- looking: while a fault happens there is nothing to be seen --------------------------------

    async def waits(self) -> Waits:
        if await self._performer.at_gates():
            return Waits(waits={})  # who has just stood there has not come to rest yet
        async with self._performer.turn:
            looked = await super().waits()
        waits = {**self._performer.waits(self._sessions), **looked.waits}
        return dataclasses.replace(looked, waits=waits)

    async def deliveries(self) -> list[StageDelivery]:
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
