"""A stage on a model on which faults happen; see `twopc.sim.scenario.stage.Stage`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeVar

import psycopg

from twopc.sim.faults.model import AtWork, ModelPerformer
from twopc.sim.faults.words import agent_wait, plans_of
from twopc.sim.model.system import System
from twopc.sim.model.words import Steps
from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.model_check import Unwritten
from twopc.sim.scenario.model_sessions import CoordinatedSession, Place
from twopc.sim.scenario.model_stage import ModelStage
from twopc.sim.scenario.stage import AwayError, StageSession
from twopc.sim.scenario.words import Case
from twopc.sim.sessions.waits import Wait, Waits

T = TypeVar("T")


class WatchedSession(CoordinatedSession):
    """A coordinated session that says what it is doing."""

    def __init__(
        self, place: Place, name: str, node: str, performer: ModelPerformer,
        also: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(place, name, node, also)
        self._performer = performer
        self._at_work = performer.sessions[name] = AtWork(name=name, node=node)

    async def _do(self, work: Steps[T], text: str = "") -> T:
        return await super()._do(self._watched(work), text)

    def _watched(self, work: Steps[T]) -> Steps[T]:
        process = self._model.kernel.env.active_process
        assert process is not None
        at_work = self._performer.at_work
        at_work[process] = self._at_work
        self._at_work.asks = self._at_work.asks or "execute"
        try:
            return (yield from work)
        finally:
            self._at_work.asks = ""
            del at_work[process]

    async def begin(self, level: str, role: str = "") -> None:
        await super().begin(level, role)
        self._at_work.gid, self._at_work.pids = self.gid, dict(self.pids)

    async def commit(self) -> None:
        self._at_work.asks = "commit"
        await super().commit()


class FaultyModelStage(ModelStage):
    """Faults happen at the protocol's points in the model."""

    def __init__(self, model: System, case: Case, recorder: Unwritten) -> None:
        super().__init__(model, case.scenario, recorder)
        self._performer = ModelPerformer(model, plans_of(case))

    async def open(self, session: str, node: str) -> StageSession:
        said = self._scenario.sessions.get(session)
        if (said is not None and said.plain) or node == self._scenario.topology.publisher:
            return await super().open(session, node)
        also = said.also if said is not None else ()
        opened = WatchedSession(self._place, session, node, self._performer, also)
        self._sessions[session] = opened
        return opened

    async def arm(self, fault: Fault) -> None:
        self._performer.arm(fault.id)

    async def fired(self) -> Sequence[tuple[str, str]]:
        return self._performer.fired()

    async def recover(self) -> None:
        """Mend what heals, then one pass of recovery."""
        await self._do(self._performer.heal())
        with suppress(psycopg.Error):  # the log, or a node, cannot be reached
            await self._do(self._performer.recover())
        await self._do(self._performer.heal())  # what recovery itself has met

    async def waits(self) -> Waits:
        looked = await super().waits()
        waits = {**self._performer.waits(), **self._resting(), **looked.waits}
        return Waits(waits=waits, cyclic=looked.cyclic, cycles=looked.cycles)

    def _resting(self) -> dict[str, Wait]:
        """The sessions that wait for an agent that stands."""
        return {
            name: agent_wait(name, node)
            for name, session in self._sessions.items()
            for node in sorted(self._performer.resting.intersection(session.synced))
        }

    async def rows(self, node: str, table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
        if node in self._performer.down:
            raise AwayError(node)
        return await super().rows(node, table, columns)
