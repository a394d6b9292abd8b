"""A stage of the model with faults; see `twopc.sim.scenario.stage.Stage`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from contextlib import suppress

import psycopg

from twopc.sim.faults.model import ModelPerformer
from twopc.sim.faults.plans import plans_of
from twopc.sim.model.system import System
from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.model_check import NullRecorder
from twopc.sim.scenario.model_stage import ModelStage
from twopc.sim.scenario.stage import AwayError, NodeContent
from twopc.sim.scenario.values import Case, FaultStrike
from twopc.sim.sessions.interface import ClientSession
from twopc.sim.sessions.model import CoordinatedSession
from twopc.sim.sessions.waits import Waits


class FaultyModelStage(ModelStage):
    """A stage on which faults strike at the protocol points of the model."""

    def __init__(self, model: System, case: Case, recorder: NullRecorder) -> None:
        super().__init__(model, case.scenario, recorder)
        self._performer = ModelPerformer(model, plans_of(case))

    async def open(self, session: str, node: str) -> ClientSession:
        opened = await super().open(session, node)
        if isinstance(opened, CoordinatedSession) and node != self._scenario.topology.publisher:
            self._performer.sessions[session] = opened
        return opened

    async def arm(self, fault: Fault) -> None:
        self._performer.arm(fault.id)

    async def fired(self) -> Sequence[FaultStrike]:
        return self._performer.fired()

    async def recover(self) -> None:
        """Heal the faults that heal, then run one pass of recovery."""
        await self._do(self._performer.heal())
        with suppress(psycopg.Error):  # the decision log, or a node, cannot be reached
            await self._do(self._performer.recover())
        await self._do(self._performer.heal())  # faults that have struck recovery itself

    async def waits(self) -> Waits:
        looked = await super().waits()
        waits = {**self._performer.waits(self._sessions), **looked.waits}
        return dataclasses.replace(looked, waits=waits)

    async def look(self, node: str, tables: Mapping[str, Sequence[str]]) -> NodeContent:
        if node in self._performer.down:
            raise AwayError(node)
        return await super().look(node, tables)
