"""The part of a stage of merging nodes that is the same on servers and in the model."""

from __future__ import annotations

from collections.abc import Sequence

from twopc.sim.faults.merge import MergeFaults
from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.merge_filters import superseded
from twopc.sim.scenario.merge_watch import MergeWatch
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.stage import EndedMergeSession, Stage
from twopc.sim.scenario.values import FaultStrike


class MergingStage(Stage):
    """Part of a stage; another base class reads rows and waits."""

    _scenario: Scenario
    _faults: MergeFaults
    _watch: MergeWatch

    def subscribes(self, node: str) -> bool:
        """Return True unless another node has replaced this one."""
        return node not in superseded(self._scenario)

    def merge_sessions(self) -> Sequence[EndedMergeSession]:
        return self._watch.taken()

    async def arm(self, fault: Fault) -> None:
        self._faults.arm(fault.id)

    async def fired(self) -> Sequence[FaultStrike]:
        return self._faults.fired()
