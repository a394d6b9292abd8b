"""The part of a stage of merging nodes that is the same on servers and in the model."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from twopc.sim.faults.merge import MergeFaults
from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.merge_filters import superseded
from twopc.sim.scenario.merge_parts import AddedColumn, ColumnChange, DroppedColumn
from twopc.sim.scenario.merge_watch import MergeWatch
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.stage import EndedMergeSession, Stage
from twopc.sim.scenario.values import FaultStrike
from twopc.sim.sessions.waits import Waits

if TYPE_CHECKING:
    from twopc.sim.merge import MergeTopology
    from twopc.sim.model.merge.merge_nodes import ModelMerging


class MergingStage(Stage):
    """Part of a stage; another base class reads rows and waits."""

    _scenario: Scenario
    _faults: MergeFaults
    _watch: MergeWatch
    _merging: MergeTopology | ModelMerging
    _sessions: Any

    def subscribes(self, node: str) -> bool:
        """Return True unless another node has replaced this one."""
        return node not in superseded(self._scenario)

    def merge_sessions(self) -> Sequence[EndedMergeSession]:
        return self._watch.taken()

    async def arm(self, fault: Fault) -> None:
        self._faults.arm(fault.id)

    async def fired(self) -> Sequence[FaultStrike]:
        return self._faults.fired()

    async def waits(self) -> Waits:
        """Read the locks of all nodes, and the waits for stopped agents."""
        looked = await super().waits()  # type: ignore[safe-super] # of the other base class
        return self._faults.with_paused(looked, self._sessions)

    async def age(self, days: int) -> None:
        await self._merging.age(days)

    async def backup(self, node: str, *, kept: bool) -> None:
        for session in self._sessions.values():
            if session.node == node:
                await session.close()
        async with self._left(node):
            if kept:
                await self._merging.back_up(node)
            else:
                await self._merging.restore_backup(node)
                await self._watch.restored(node)

    def _left(self, node: str) -> AbstractAsyncContextManager[None]:
        """Return a context in which the stage itself has no connection to a node."""
        return nullcontext()

    async def change_column(self, change: ColumnChange) -> None:
        merging, table, column = self._merging, change.table, change.column
        if isinstance(change, AddedColumn):
            await merging.add_column(table, column, change.type, default=change.default)
        elif isinstance(change, DroppedColumn):
            await merging.drop_column(table, column)
        else:
            await merging.widen_column(table, column, change.type)
