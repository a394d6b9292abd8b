"""Bugs of the snapshot agent, each planted in the product's engine: a wrong position or start of a copy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

from twopc.drivers.snapshot_agent import CopyMoment, SnapshotAgent
from twopc.sim.model.explore.results import Budget, PlantedBug
from twopc.sim.model.wiring import replacing


class ReadsPositionFirst(SnapshotAgent):
    """A snapshot agent that reads the end of the log before it takes the snapshot."""

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[CopyMoment]:
        """See `SnapshotAgent`."""
        seqno = await self._publisher.position()
        async with super().reading() as moment:
            yield replace(moment, seqno=seqno)


class StartsBehindStored(SnapshotAgent):
    """A snapshot agent that assumes that the copy contains all transactions stored by now."""

    async def start(self, moment: CopyMoment, *, delivered: int, active: bool) -> None:
        """See `SnapshotAgent`."""
        assert self._store is not None
        stored, _ = await self._store.unseen(moment)
        await self._store.start(stored, moment, active=active)


_NONE = Budget(faults=0, deviations=1)

PLANTS = (
    PlantedBug(
        name="position_before_snapshot",
        why="what commits between the two is in the copy, and comes once more",
        source="PostgreSQL's CREATE_REPLICATION_SLOT: the snapshot is exported at the position",
        plant=replacing(snapshot_agent=ReadsPositionFirst),
        program="insert while rows are copied",
        budget=_NONE,
        breaks=("converged", "delivers"),
    ),
    PlantedBug(
        name="unseen_is_copied",
        why="what was open when the rows were read may be stored before the copy is entered",
        source="Debezium's incremental snapshots: events of the time of a chunk are kept",
        plant=replacing(snapshot_agent=StartsBehindStored),
        program="insert and deliver while rows are copied",
        budget=_NONE,
        breaks=("converged",),
    ),
)
