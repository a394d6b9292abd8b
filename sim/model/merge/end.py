"""One end of a merge session in memory; see `twopc.drivers.merge.ports.MergeEndPort`."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import replace
from uuid import UUID

from twopc.drivers.merge.ports import (
    ConflictRecord,
    OutgoingChanges,
    SessionArticle,
    SessionRecord,
    SliceOutcome,
)
from twopc.errors import MergeError
from twopc.merge.articles import Logging
from twopc.merge.decision import CLIENT_PRIORITY, MergeDecision, RowVersion, Side, Verdict
from twopc.merge.encounters import MergeEncounter, Resolution, standing
from twopc.merge.judge import REJECTED, Fault, Judge, Judgement, is_rejected, judged
from twopc.merge.lineage import pack, packed, unpack, unpacked
from twopc.merge.marks import Generation, Marks, ServerSubscription, introduced
from twopc.merge.plan import MergeRow, Slice, slices
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.merge.schema_changes import SchemaChange
from twopc.sim.model.merge.node import ModelMergeNode
from twopc.sim.model.merge.partitions import leave
from twopc.sim.model.merge.ranges import ModelRanges
from twopc.sim.model.merge.records import Incoming, ModelFailure, ModelOutgoing


class ModelMergeEnd(ModelRanges):
    """See `MergeEndPort`.

    Args:
        agents: neighbours for which an agent is working at this node; shared by all ends of the node.
    """

    def __init__(self, node: ModelMergeNode, neighbour: str, agents: set[str]) -> None:
        self.name = node.name
        self.node = node
        self._neighbour = neighbour
        self._agents = agents
        self._is_alone = False

    @property
    def _without(self) -> Set[MergeProtection]:
        """Protections that are switched off at this node."""
        return NOTHING_LEFT_OUT

    async def open(self, *, alone: bool) -> None:
        if alone:
            if self._neighbour in self._agents:
                raise MergeError(
                    f"another merge agent works for this subscription at {self.name} (21036)",
                    node=self.name,
                    number=21036,
                )
            self._agents.add(self._neighbour)
            self._is_alone = True

    async def close(self) -> None:
        if self._is_alone:
            self._agents.discard(self._neighbour)

    async def marks(self) -> Marks:
        return self.node.marks(self._neighbour)

    async def knows(self, generation: Generation) -> bool:
        return self.node.knows(generation)

    async def rewind(self) -> None:
        self.node.rewind(self._neighbour)

    async def begin_anew(self, neighbour: int, cleaned: int) -> None:
        self.node.begin_anew(self._neighbour, neighbour, cleaned)

    async def schema_changes(self) -> Sequence[SchemaChange]:
        return self.node.schema

    async def alter(self, change: SchemaChange) -> None:
        """See `MergeEndPort`; raises MergeError, as there are no tables to alter."""
        raise MergeError(f"{self.name} cannot make schema change {change.version}", node=self.name)

    async def articles(self) -> Mapping[UUID, SessionArticle]:
        return {
            artid: SessionArticle(
                name=article.name,
                parents=article.parents,
                columns=article.names,
                column_tracking=article.column_tracking,
                options=article.options,
                is_filtered=self.node.mappings is not None and artid in self.node.mappings.filters,
                has_ranges=article.has_ranges,
            )
            for artid, article in self.node.articles.items()
        }

    async def read(self, after: int, articles: Sequence[UUID]) -> OutgoingChanges:
        generation = self.node.close()
        parts: dict[UUID, Sequence[Slice]] = {}
        for artid in articles if generation.number > after else ():
            changed = self.node.outgoing(artid, self._neighbour, after, generation.number)
            rows = [_on_its_way(each, self.node.replica) for each in changed]
            parts[artid] = slices(artid, rows)
        return OutgoingChanges(generation=generation, slices=parts)

    async def encounters(self, part: Slice, *, is_upload: bool) -> Sequence[MergeEncounter]:
        incoming = map(incoming_of, part.rows)
        return [self.node.encounter(part.artid, self._neighbour, row) for row in incoming]

    async def apply(
        self, part: Slice, coming: Generation, judge: Judge | None = None
    ) -> SliceOutcome:
        outcome = self._take(part, judge, is_final=False)
        self._touch_mappings([part])
        self.node.neighbours[self._neighbour].coming = coming
        return outcome

    def _touch_mappings(self, parts: Sequence[Slice]) -> None:
        """``merge_touch_mappings``: have sent rows leave a Subscriber's partition if they do not belong to it."""
        mappings, partition = self.node.mappings, self.node.neighbours[self._neighbour].partition
        if mappings is None or partition is None:
            return
        newest = self.node.newest.generation.number
        for part in parts:
            rowguids = [row.rowguid for row in part.rows]
            mappings.touch(part.artid, partition, rowguids, newest, comes_again=False)

    def _take(self, part: Slice, judge: Judge | None, *, is_final: bool) -> SliceOutcome:
        """Apply the rows of a slice, one after the other, as the judge decides."""
        if part.leaves:
            rowguids = [row.rowguid for row in part.rows]
            applied, deferred = leave(
                self.node, part.artid, self._neighbour, rowguids, self._without
            )
            return SliceOutcome(applied=applied, deferred=deferred)
        decisions: dict[UUID, MergeDecision] = {}
        failed: dict[UUID, Fault] = {}
        rejected = 0
        for row in map(incoming_of, part.rows):
            encounter = self.node.encounter(part.artid, self._neighbour, row)
            judgement = Judgement() if judge is None else judged(judge, [encounter])
            ruling = judgement.resolutions.get(row.rowguid, Resolution())
            fault = judgement.faults.get(row.rowguid)
            if self._is_foreign(part.artid, row.rowguid):
                if row.version.gone:  # the Subscriber deleted a row of its own
                    held = self.node.take(part.artid, self._neighbour, row, Side.HELD)
                    decisions[row.rowguid] = held
                    continue
                fault = self._outside(part.artid, row.rowguid)
            if fault is None and is_rejected(encounter, ruling):
                fault, rejected = (
                    (REJECTED, f"the change was rejected at {self.name}"),
                    rejected + 1,
                )
                self._record(part.artid, row, fault, is_pending=False)
            elif fault is not None:
                undone = judge.rule_failure(encounter, fault) if judge and is_final else None
                if is_final:
                    self._record(part.artid, row, fault, is_pending=undone is None)
                if undone is None:
                    failed[row.rowguid] = fault
                    continue
                ruling, rejected = undone, rejected + (undone.row is None)
            decisions[row.rowguid] = self._put(part.artid, row, encounter, ruling)
        verdicts = [each.verdict for each in decisions.values()]
        return SliceOutcome(
            applied=sum(v in (Verdict.APPLY, Verdict.MERGE, Verdict.REPLACE) for v in verdicts),
            skipped=verdicts.count(Verdict.SKIP),
            conflicts=sum(each.conflict is not None for each in decisions.values()),
            deferred=[guid for guid, each in decisions.items() if each.verdict is Verdict.DEFER],
            rejected=rejected,
            failed=failed,
        )

    def _is_foreign(self, artid: UUID, rowguid: UUID) -> bool:
        peer, mappings = self.node.neighbours[self._neighbour], self.node.mappings
        if mappings is None or peer.is_publisher or peer.partition is None:
            return False
        return mappings.is_strange(self.node, artid, peer.partition, rowguid)

    def _outside(self, artid: UUID, rowguid: UUID) -> Fault:
        return (
            "23505",
            f"a row of {self.node.articles[artid].name} with the rowguid {rowguid} is at the Publisher, outside the "
            f"partition of {self._neighbour}",
        )

    def _put(
        self, artid: UUID, row: Incoming, encounter: MergeEncounter, ruling: Resolution
    ) -> MergeDecision:
        if ruling.row is None:
            return self.node.take(artid, self._neighbour, row, ruling.winner)
        side, base = standing(encounter, ruling.winner or encounter.winner)
        decision = self.node.take(artid, self._neighbour, row, side)
        changed = {name: value for name, value in ruling.row.items() if value != base[name]}
        if changed:
            self.node.amend(artid, row.rowguid, changed)
        return decision

    def _record(
        self,
        artid: UUID,
        row: Incoming,
        fault: Fault,
        *,
        is_pending: bool,
    ) -> None:
        self.node.failures[row.rowguid] = ModelFailure(
            rowguid=row.rowguid,
            origin=self._neighbour,
            sqlstate=fault[0],
            reason=fault[1],
            row=row.values,
            is_pending=is_pending,
        )

    async def receive(
        self, generation: Generation, repeated: Sequence[Slice], judges: Mapping[UUID, Judge]
    ) -> SliceOutcome:
        """See `MergeEndPort`; only resolvers and handlers can fail here."""
        outcomes = [self._take(part, judges.get(part.artid), is_final=True) for part in repeated]
        self._touch_mappings(repeated)
        failed = {guid: why for each in outcomes for guid, why in each.failed.items()}
        self.node.receive(self._neighbour, generation)
        for guid, failure in [*self.node.failures.items()]:
            if failure.is_pending and failure.origin == self._neighbour and guid not in failed:
                del self.node.failures[guid]
        return replace(sum(outcomes, SliceOutcome()), failed=failed)

    async def outgoing_conflicts(self) -> Sequence[ConflictRecord]:
        return [
            ConflictRecord(id=each.id, artid=each.artid, content=(each,))
            for each in self.node.conflicts
            if each.recipient == self._neighbour
        ]

    async def log_conflicts(self, records: Sequence[ConflictRecord]) -> None:
        known = {each.id for each in self.node.conflicts}
        new = [replace(each.content[0], recipient=None) for each in records if each.id not in known]
        self.node.conflicts += new

    async def release_conflicts(self, ids: Sequence[UUID]) -> None:
        self.node.conflicts = [
            replace(each, recipient=None) if each.id in ids else each
            for each in self.node.conflicts
            if each.id not in ids
            or self.node.articles[each.artid].options.conflict_logging is Logging.BOTH
        ]

    async def acknowledge(
        self, generation: Generation, missing: Mapping[UUID, Collection[UUID]]
    ) -> None:
        self.node.acknowledge(self._neighbour, generation)
        for artid, rowguids in missing.items():
            for rowguid in rowguids:
                metadata = self.node.metadata[artid].get(rowguid)
                if metadata is not None:
                    self.node.touch(artid, rowguid, source=metadata.source)
            mappings, partition = (
                self.node.mappings,
                self.node.neighbours[self._neighbour].partition,
            )
            if mappings is not None and partition is not None:
                newest = self.node.newest.generation.number
                mappings.touch(artid, partition, rowguids, newest, comes_again=True)

    async def introduce(self, servers: Sequence[ServerSubscription]) -> None:
        peer = self.node.neighbours[self._neighbour]
        peer.behind = introduced(servers, peer.server_priority or CLIENT_PRIORITY)

    async def end(self, record: SessionRecord) -> int:
        if record.error is None:
            self.node.neighbours[self._neighbour].last_session_s = self.node.clock()
            self.node.clean_up()
        self.node.sessions.append((self._neighbour, record))
        return self.node.cleaned

    async def settle(self, generation: Generation, cleaned: int) -> None:
        self.node.settle(self._neighbour, generation, cleaned)


def incoming_of(row: MergeRow) -> Incoming:
    """Return a sent row as a node processes it."""
    return Incoming(
        rowguid=row.rowguid,
        version=RowVersion(
            lineage=unpacked(json.loads(row.lineage)), gone=row.gone, columns=_columns(row.columns)
        ),
        writer=row.writer,
        values=None if row.row is None else tuple(json.loads(row.row)),
    )


def _on_its_way(row: ModelOutgoing, replica: int) -> MergeRow:
    known = row.metadata
    return MergeRow(
        rowguid=row.rowguid,
        gone=row.values is None,
        lineage=json.dumps([] if known is None else packed(known.version.lineage)),
        columns=None if known is None else _text(known.version.columns),
        writer=replica if known is None else known.writer,
        row=None if row.values is None else json.dumps(row.values),
        leaves=row.leaves,
    )


def _text(columns: tuple[tuple[int, int] | None, ...] | None) -> str | None:
    if columns is None:
        return None
    return json.dumps([pack(*column) if column else 0 for column in columns])


def _columns(text: str | None) -> tuple[tuple[int, int] | None, ...] | None:
    if text is None:
        return None
    return tuple(unpack(entry) if entry else None for entry in json.loads(text))
