"""A merge node in memory: rows, their metadata, generations, and neighbours.

Implements the effects of the triggers and functions on servers; decisions are those of `twopc.merge.decision`. A
transaction is one change and takes effect at once: its number represents the transaction id, and a generation
stores the number of its last change. There are no constraints.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from twopc.drivers.merge.ports import SessionRecord
from twopc.merge.articles import Logging
from twopc.merge.decision import (
    CLIENT_PRIORITY,
    MergeDecision,
    RowVersion,
    Side,
    Verdict,
    decide,
    priority_of,
)
from twopc.merge.encounters import MergeEncounter
from twopc.merge.lineage import stamped
from twopc.merge.marks import Generation, Marks, ServerSubscription
from twopc.merge.retention import RETENTION_DAYS
from twopc.merge.schema_changes import SchemaChange, mark_of
from twopc.sim.model.merge.partitions import PartitionMappings
from twopc.sim.model.merge.records import (
    Incoming,
    ModelConflict,
    ModelFailure,
    ModelGeneration,
    ModelMergeArticle,
    ModelMetadata,
    ModelNeighbour,
    ModelOutgoing,
    Values,
)
from twopc.sim.model.merge.retention import DAY_S, forgettable_at

#: Numbers that servers draw at random: GUIDs of generations, and numbers of new replicas.
drawn = itertools.count(1000)


@dataclass(slots=True, kw_only=True)
class ModelMergeNode:
    """One database that merges."""

    name: str
    replica: int
    articles: Mapping[UUID, ModelMergeArticle]
    rows: dict[UUID, dict[UUID, Values]] = field(default_factory=dict)
    metadata: dict[UUID, dict[UUID, ModelMetadata]] = field(default_factory=dict)
    generations: dict[int, ModelGeneration] = field(default_factory=dict)
    """Closed generations by number, in order, without forgotten ones."""
    neighbours: dict[str, ModelNeighbour] = field(default_factory=dict)
    conflicts: list[ModelConflict] = field(default_factory=list)
    failures: dict[UUID, ModelFailure] = field(default_factory=dict)
    change: int = 0
    former: tuple[int, ...] = ()
    clock: Callable[[], float] = lambda: 0.0
    """Time in seconds, from any origin."""
    retention_days: float = RETENTION_DAYS
    """Retention of the publication in days; 0 for unlimited."""
    cleaned: int = 0
    """Generation up to which metadata has been forgotten."""
    floors: dict[UUID, int] = field(default_factory=dict)
    """For each article, the highest version of a forgotten row: new rows get higher versions."""
    sessions: list[tuple[str, SessionRecord]] = field(default_factory=list)
    """Ended sessions, each with its Subscriber."""
    schema: tuple[SchemaChange, ...] = ()
    mappings: PartitionMappings | None = None
    """Partition mappings, at a Publisher with filters."""

    def __post_init__(self) -> None:
        for artid in self.articles:
            self.rows.setdefault(artid, {})
            self.metadata.setdefault(artid, {})
        if not self.generations:
            self.add_generation(0, 0)

    def add_generation(self, number: int, upto: int) -> None:
        """Close a generation."""
        self.generations[number] = ModelGeneration(
            generation=Generation(number=number, guid=UUID(int=next(drawn))),
            upto=upto,
            closed_s=self.clock(),
        )

    @property
    def newest(self) -> ModelGeneration:
        """The newest closed generation."""
        return next(reversed(self.generations.values()))

    # -- applications ------------------------------------------------------------------------------

    def write(self, artid: UUID, rowguid: UUID, values: Values | None) -> int:
        """Change a row for an application, or delete it if `values` is None; return the row's new version."""
        self.change += 1
        held, metadata = self.rows[artid].get(rowguid), self.metadata[artid].get(rowguid)
        before = metadata.version if metadata is not None else RowVersion(lineage={})
        lineage = stamped(before.lineage, self.replica)
        if not before.lineage:
            lineage = {self.replica: self.floors.get(artid, 0) + 1}
        stamp = (self.replica, lineage[self.replica])
        columns = before.columns
        if values is None:
            self.rows[artid].pop(rowguid)
        else:
            if self.articles[artid].column_tracking:
                columns = tuple(
                    stamp
                    if held is None or held[place] != value
                    else (*(columns or ()), *(None,) * len(values))[place]
                    for place, value in enumerate(values)
                )
            self.rows[artid][rowguid] = values
        self.metadata[artid][rowguid] = ModelMetadata(
            change=self.change,
            version=RowVersion(lineage=lineage, gone=values is None, columns=columns),
            writer=self.replica,
        )
        return lineage[self.replica]

    # -- sessions ----------------------------------------------------------------------------------

    def marks(self, neighbour: str) -> Marks:
        """``merge_hello``: return the marks of a neighbour."""
        peer = self.neighbours[neighbour]
        return Marks(
            replica=self.replica,
            neighbour=peer.replica,
            former=self.former,
            neighbour_former=peer.former,
            sent=peer.sent,
            received=peer.received,
            coming=peer.coming,
            known_from=peer.known_from,
            cleaned=self.cleaned,
            schema=mark_of(self.schema),
            is_expired=not peer.is_publisher and self.is_expired(peer),
            servers=self.servers(),
            behind=peer.behind,
        )

    def close(self) -> Generation:
        """``merge_close``: close a generation if anything has changed, and return the newest one."""
        last, mappings = self.newest, self.mappings
        is_changed = self._has_changed(last.upto)
        if mappings is not None:
            is_changed = mappings.close(self, is_changed=is_changed)
        if is_changed:
            self.add_generation(last.generation.number + 1, self.change)
            if mappings is not None:
                mappings.note(self, self.newest.generation.number, last.upto)
        return self.newest.generation

    def generation_of(self, change: int) -> int:
        """``merge_generation``: return the generation to which a change belongs."""
        holders = (number for number, each in self.generations.items() if change <= each.upto)
        return min(holders, default=self.newest.generation.number + 1)

    def _has_changed(self, upto: int) -> bool:
        return self.change > upto and any(
            metadata.change > upto for rows in self.metadata.values() for metadata in rows.values()
        )

    def knows(self, generation: Generation) -> bool:
        """``merge_knows``: return whether a generation is one of this node's closed generations."""
        held = self.generations.get(generation.number)
        return held is not None and held.generation == generation

    def receive(self, neighbour: str, generation: Generation) -> None:
        """``merge_receive``: note that a neighbour's generation has been received completely."""
        peer = self.neighbours[neighbour]
        peer.received, peer.coming = generation, None

    def acknowledge(self, neighbour: str, generation: Generation) -> None:
        """``merge_acknowledge``: note that a neighbour has received a generation."""
        peer = self.neighbours[neighbour]
        peer.sent, peer.last_session_s = generation.number, self.clock()

    def settle(self, neighbour: str, generation: Generation, cleaned: int) -> None:
        """``merge_settle``: note, at a Subscriber, what its Publisher knows and has forgotten; forget accordingly."""
        peer = self.neighbours[neighbour]
        sent = self.generations[peer.sent]
        if sent.known_by is None:
            self.generations[peer.sent] = replace(sent, known_by=generation.number)
        peer.cleaned = max(peer.cleaned, cleaned)
        self.clean_up()

    # -- retention ---------------------------------------------------------------------------------

    def is_expired(self, peer: ModelNeighbour) -> bool:
        """Return whether a Subscriber has had no session for longer than the retention, and lacks changes."""
        idle_days = (self.clock() - peer.last_session_s) / DAY_S
        return 0 < self.retention_days < idle_days and (
            peer.sent < self.cleaned or self._has_changed(self.generations[peer.sent].upto)
        )

    def clean_up(self) -> int:
        """``merge_clean_up``: forget metadata that no node needs any more, and return the number of rows."""
        upto = forgettable_at(self)
        return self.forget(upto) if upto > self.cleaned else 0

    def forget(self, upto: int) -> int:
        """Remove the metadata of rows that were last changed in this generation or earlier."""
        last, count = self.generations[upto].upto, 0
        for artid, rows in self.metadata.items():
            for rowguid in [each for each, row in rows.items() if row.change <= last]:
                self.raise_floor(artid, rows.pop(rowguid))
                count += 1
        if self.mappings is not None:
            self.mappings.forget(upto)
        self.generations = {
            number: each
            for number, each in self.generations.items()
            if number == 0 or number >= upto
        }
        self.cleaned = upto
        return count

    def raise_floor(self, artid: UUID, forgotten: ModelMetadata) -> None:
        """Ensure that new rows get higher versions than a forgotten one."""
        top = max(forgotten.version.lineage.values(), default=0)
        self.floors[artid] = max(self.floors.get(artid, 0), top)

    def rewind(self, neighbour: str) -> None:
        """``merge_rewind``: become another replica, after being restored from a backup."""
        old, peer, replica = self.replica, self.neighbours[neighbour], next(drawn)
        common = self.generations[peer.sent].upto
        self.former, self.replica = (*self.former, old), replica
        self.change += 1
        for rows in self.metadata.values():
            for rowguid, row in rows.items():
                if row.change > common and old in row.version.lineage:
                    rows[rowguid] = row.stamped_anew(old, replica, self.change)
        received = peer.known_from if peer.received is None else peer.received.number
        self.begin_anew(neighbour, peer.replica, received)

    def begin_anew(self, neighbour: str, replica: int, cleaned: int) -> None:
        """``merge_begin_anew``: reset the marks of a neighbour, and forget which rows came from there."""
        peer = self.neighbours[neighbour]
        if replica != peer.replica:
            peer.former = (*peer.former, peer.replica)
        numbers = {peer.replica, *peer.former}
        for rows in self.metadata.values():
            for rowguid, row in rows.items():
                if row.source in numbers:
                    rows[rowguid] = replace(row, source=None)
        peer.replica, peer.sent, peer.received, peer.coming = replica, 0, None, None
        peer.known_from = cleaned
        if self.mappings is not None and peer.partition is not None:
            self.mappings.send_all(peer.partition, self.newest.generation.number)
        if peer.is_publisher:
            for number, each in self.generations.items():
                self.generations[number] = replace(each, known_by=None)

    def outgoing(
        self, artid: UUID, neighbour: str, after: int, upto: int
    ) -> Sequence[ModelOutgoing]:
        """``msmerge_enumerate_<artid>``: return the rows changed in these generations, except the neighbour's."""
        if self.mappings is not None and artid in self.mappings.filters:
            return self.mappings.outgoing(self, artid, neighbour, after, upto)
        low, high = self.generations[after].upto, self.generations[upto].upto
        source = self.neighbours[neighbour].replica
        return [
            ModelOutgoing(rowguid=rowguid, metadata=metadata, values=self.rows[artid].get(rowguid))
            for rowguid, metadata in sorted(self.metadata[artid].items())
            if low < metadata.change <= high and metadata.source != source
        ]

    def _priority(self, replica: int) -> float:
        """Return the priority of the node that wrote a row."""
        return priority_of(
            replica,
            {number: each.priority for each in self.servers() for number in each.replicas},
        )

    def servers(self) -> tuple[ServerSubscription, ...]:
        """``merge_servers``: return the server subscriptions at this node and below it."""
        direct = [
            ServerSubscription(
                name=name, replicas=(*each.former, each.replica), priority=each.server_priority
            )
            for name, each in self.neighbours.items()
            if each.server_priority is not None
        ]
        behind = [server for each in self.neighbours.values() for server in each.behind]
        return tuple(sorted([*direct, *behind], key=lambda each: each.name))

    def _sent_priority(self, peer: ModelNeighbour, writer: int) -> float:
        """``merge_priority``: return the priority of a change that a neighbour has sent."""
        behind = [each.priority for each in peer.behind if writer in each.replicas]
        return behind[0] if behind else peer.server_priority or CLIENT_PRIORITY

    def _decide(
        self, artid: UUID, neighbour: str, incoming: Incoming, choice: Side | None
    ) -> MergeDecision:
        peer, metadata = self.neighbours[neighbour], self.metadata[artid].get(incoming.rowguid)
        held = self.rows[artid].get(incoming.rowguid)
        writer = metadata.writer if metadata is not None else self.replica
        return decide(
            metadata.version if metadata is not None else None,
            incoming.version,
            replica=self.replica,
            resolves=not peer.is_publisher,
            column_tracking=self.articles[artid].column_tracking,
            held_priority=self._priority(writer),
            priority=self._sent_priority(peer, incoming.writer),
            is_same=held == incoming.values,
            choice=choice,
            is_present=held is not None,
            is_confirmed=metadata is not None
            and metadata.change <= self.generations[peer.sent].upto,
            lowest=self.floors.get(artid, 0),
            others=self._others(neighbour),
        )

    def _others(self, neighbour: str) -> set[int]:
        """``merge_others``: return the replicas whose changes a Subscriber can know only from this node."""
        peer = self.neighbours[neighbour]
        if peer.is_publisher or peer.received is None or not peer.received.number:
            return set()
        return {self.replica, *self.former}.union(
            *(
                {each.replica, *each.former, *(n for b in each.behind for n in b.replicas)}
                for name, each in self.neighbours.items()
                if name != neighbour
            )
        )

    def encounter(self, artid: UUID, neighbour: str, incoming: Incoming) -> MergeEncounter:
        """``msmerge_hold_<artid>``: return the encounter of one incoming row with the row held here."""
        peer, metadata = self.neighbours[neighbour], self.metadata[artid].get(incoming.rowguid)
        writer = metadata.writer if metadata is not None else self.replica
        writers = {
            number: name
            for name, each in self.neighbours.items()
            for number in (each.replica, *each.former)
        }
        names, held = self.articles[artid].names, self.rows[artid].get(incoming.rowguid)
        return MergeEncounter(
            table=self.articles[artid].name,
            rowguid=incoming.rowguid,
            at=self.name,
            is_upload=not peer.is_publisher,
            held=None if held is None else dict(zip(names, held, strict=True)),
            incoming=None
            if incoming.values is None
            else dict(zip(names, incoming.values, strict=True)),
            held_by=writers.get(writer, self.name),
            incoming_by=neighbour,
            held_priority=self._priority(writer),
            priority=self._sent_priority(peer, incoming.writer),
            held_version=metadata.version if metadata is not None else None,
            incoming_version=incoming.version,
            is_same=held == incoming.values,
            default=self._decide(artid, neighbour, incoming, None),
        )

    def amend(self, artid: UUID, rowguid: UUID, row: Mapping[str, object]) -> None:
        """``msmerge_amend_<artid>``: change values of one row, as an application of this node would."""
        names, held = self.articles[artid].names, self.rows[artid][rowguid]
        pairs = zip(names, held, strict=True)
        self.write(artid, rowguid, tuple(row.get(name, value) for name, value in pairs))

    def take(
        self, artid: UUID, neighbour: str, incoming: Incoming, choice: Side | None = None
    ) -> MergeDecision:
        """``msmerge_take_<artid>``: decide about one incoming row, store the result, and return the decision."""
        peer, rowguid = self.neighbours[neighbour], incoming.rowguid
        behind = {number for each in peer.behind for number in each.replicas}
        if not peer.is_publisher and incoming.writer not in behind | {peer.replica, *peer.former}:
            incoming = replace(incoming, writer=peer.replica)
        version, writer, values = incoming.version, incoming.writer, incoming.values
        metadata, held = self.metadata[artid].get(rowguid), self.rows[artid].get(rowguid)
        decision = self._decide(artid, neighbour, incoming, choice)
        if decision.verdict in (Verdict.SKIP, Verdict.DEFER):
            if decision.verdict is Verdict.DEFER and metadata is not None:
                self.touch(artid, rowguid, source=None)
            return decision
        if decision.conflict is not None:
            loser_row = held if decision.verdict is Verdict.REPLACE else values
            loser = (
                metadata.version
                if metadata is not None and decision.verdict is Verdict.REPLACE
                else version
            )
            logging = self.articles[artid].options.conflict_logging
            self.conflicts.append(
                ModelConflict(
                    id=UUID(int=next(drawn)),
                    artid=artid,
                    rowguid=rowguid,
                    decision=decision,
                    loser=loser_row,
                    lineage=loser.lineage,
                    recipient=None if logging is Logging.PUBLISHER else neighbour,
                )
            )
        self._store(artid, rowguid, decision, held, values)
        self.change += 1
        keeper = (
            metadata.writer
            if metadata is not None and decision.verdict is Verdict.KEEP
            else self.replica
        )
        takes = decision.verdict in (Verdict.APPLY, Verdict.REPLACE)
        self.metadata[artid][rowguid] = ModelMetadata(
            change=self.change,
            version=decision.version,
            writer=writer if takes else keeper,
            source=peer.replica if decision.verdict is Verdict.APPLY else None,
        )
        return decision

    def _store(
        self,
        artid: UUID,
        rowguid: UUID,
        decision: MergeDecision,
        held: Values | None,
        values: Values | None,
    ) -> None:
        if decision.verdict is Verdict.KEEP:
            return
        if decision.version.gone:
            self.rows[artid].pop(rowguid, None)
        elif decision.verdict is Verdict.MERGE and held is not None and values is not None:
            pairs = zip(held, values, decision.taken or (False,) * len(held), strict=True)
            self.rows[artid][rowguid] = tuple(
                second if take else first for first, second, take in pairs
            )
        elif values is not None:
            self.rows[artid][rowguid] = values

    def touch(self, artid: UUID, rowguid: UUID, *, source: int | None) -> None:
        """Move a row to the next generation, if a closed generation contains it."""
        metadata = self.metadata[artid][rowguid]
        if metadata.change <= self.newest.upto:
            self.change += 1
            self.metadata[artid][rowguid] = replace(metadata, change=self.change, source=source)
