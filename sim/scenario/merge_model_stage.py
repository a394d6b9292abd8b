"""Stage for merge replication on a model, in virtual time; see `twopc.sim.scenario.stage.Stage`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twopc.drivers.points import Points
from twopc.sim.faults.merge import MergeFaults
from twopc.sim.faults.plans import plans_of
from twopc.sim.model.merge.merge_nodes import ModelMerging
from twopc.sim.model.merge.site import RecordedConflict
from twopc.sim.model.system import System
from twopc.sim.scenario.merge_watch import (
    MergeWatch,
    NeighbourMarks,
    NodeKnowledge,
    SeenConflict,
)
from twopc.sim.scenario.merging_stage import MergingStage
from twopc.sim.scenario.model_check import NullRecorder
from twopc.sim.scenario.model_stage import ModelStage
from twopc.sim.scenario.stage import AGENTS, NodeContent
from twopc.sim.scenario.values import Case
from twopc.sim.sessions.interface import ClientSession
from twopc.sim.sessions.merge_model import MergeVirtualSession


class MergeModelStage(MergingStage, ModelStage):
    """Stage of merging nodes of a model."""

    _merging: ModelMerging

    def __init__(
        self,
        model: System,
        case: Case,
        recorder: NullRecorder,
        merging: ModelMerging,
        points: Points,
    ) -> None:
        super().__init__(model, case.scenario, recorder)
        self._merging = merging
        self._faults = MergeFaults(points, plans_of(case))
        self._watch = MergeWatch(case, self)

    @property
    def merging(self) -> ModelMerging:
        """The merge replication on the model, for inspection."""
        return self._merging

    async def open(self, session: str, node: str) -> ClientSession:
        return self._at(session, node)

    def agents(self) -> ClientSession:
        return self._at(AGENTS, self._model.spec.publisher)

    def _at(self, name: str, node: str) -> MergeVirtualSession:
        opened = MergeVirtualSession(self._place, name, node, self._merging, self._watch.session)
        self._sessions[name] = opened
        return opened

    def _has_tables(self, node: str) -> bool:
        return True

    async def seen(self, node: str) -> NodeKnowledge:
        known = self._merging.sites[node].knowledge
        return NodeKnowledge(
            replicas=(*known.former, known.replica),
            newest=known.newest.generation.number,
            marks={
                name: NeighbourMarks(
                    sent=each.sent,
                    received=0 if each.received is None else each.received.number,
                    coming=None if each.coming is None else each.coming.number,
                )
                for name, each in known.neighbours.items()
                if not self._merging.is_being_initialised(node)
            },
            lineages={
                (self._merging.table_of(artid), rowguid): row.version.lineage
                for artid, rows in known.metadata.items()
                for rowguid, row in rows.items()
            },
        )

    async def conflicts(self, node: str) -> Sequence[SeenConflict]:
        return [self._as_seen(node, each) for each in self._merging.recorded(node)]

    def _as_seen(self, node: str, conflict: RecordedConflict) -> SeenConflict:
        table = self._merging.table_of(conflict.artid)
        rowguid = self._scenario.tables[table].merge.rowguid
        loser = None
        if conflict.loser is not None:
            loser = self._merging.texts(node, table, conflict.loser)
            if rowguid is not None:
                loser[rowguid] = str(conflict.rowguid)
        return SeenConflict(
            table=table,
            rowguid=conflict.rowguid,
            type=conflict.type,
            origin=conflict.origin,
            winner=conflict.winner,
            reason_code=conflict.code,
            reason=conflict.reason,
            loser=loser,
        )

    async def look(self, node: str, tables: Mapping[str, Sequence[str]]) -> NodeContent:
        content = await super().look(node, tables)
        for name, rows in content.rows.items():
            for guid, row in zip(self._merging.rowguids(node, name), rows, strict=True):
                self._watch.note_row(node, name, guid, row)
        return content

    async def part(
        self, subscriber: str, table: str, columns: Sequence[str]
    ) -> list[dict[str, Any]] | None:
        places = self._merging.part(subscriber, table)
        if places is None:
            return None
        publisher = self._scenario.topology.publisher
        rows = (await self.look(publisher, {table: columns})).rows[table]
        return [rows[place] for place in places]

    async def outage(self, node: str, *, on: bool) -> None:
        await super().outage(node, on=on)
        (self._merging.cut if on else self._merging.restore)(node)

    async def recover(self) -> None:
        """Heal the faults that can be healed, and continue interrupted deliveries of snapshots."""
        self._faults.heal()
        await self._merging.go_on()
