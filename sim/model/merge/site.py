"""A merge node of the model: its tables hold the rows, and a `ModelMergeNode` their metadata.

Changes of applications are registered when they commit, so a transaction that commits late belongs to a later
generation. Changes of an agent are registered by its end of the session.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID

from twopc.merge.decision import ConflictType, MergeDecision, Side, Verdict
from twopc.merge.marks import Generation
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.sim.model.merge.identity import IdentityGuard, ModelIdentity
from twopc.sim.model.merge.node import ModelMergeNode
from twopc.sim.model.merge.records import Incoming, ModelNeighbour
from twopc.sim.model.merge.records import Values as MergeValues
from twopc.sim.model.node.columns import is_dropped
from twopc.sim.model.node.heap import HeapTable
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.transactions import TopXact
from twopc.sim.model.values import Values

#: Role of merge agents.
AGENT = "merge agent"
#: Types that JSON also has.
_PLAIN = (str, int, bool, type(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedConflict:
    """A conflict, or a change that could not be applied, as a node has recorded it."""

    artid: UUID
    rowguid: UUID
    type: ConflictType
    origin: str
    winner: str | None
    code: str
    reason: str
    loser: MergeValues | None
    is_pending: bool = False
    """Whether the change has failed and is sent again in each session."""


@dataclass(slots=True, kw_only=True)
class SiteKnowledge(ModelMergeNode):
    """A node's metadata, perhaps with protections switched off; conflicts are also recorded with the winner's name."""

    without: Set[MergeProtection] = NOTHING_LEFT_OUT
    recorded: list[RecordedConflict] = field(default_factory=list)
    identities: dict[UUID, ModelIdentity] = field(default_factory=dict)
    """Identity columns whose values are drawn from ranges, by article."""
    is_late: bool = False
    """Whether a transaction has committed whose number is in a closed generation.

    This occurs only if generations are not snapshots, as without that protection.
    """

    def close(self) -> Generation:
        """See `ModelMergeNode.close`; a late transaction counts as a change."""
        if self.is_late:
            self.add_generation(self.newest.generation.number + 1, self.change)
            self.is_late = False
        return ModelMergeNode.close(self)

    def rewind(self, neighbour: str) -> None:
        """See `ModelMergeNode.rewind`; identity ranges are withdrawn, and Subscribers must report theirs again.

        Values may have been drawn, and ranges allotted, after the backup.
        """
        ModelMergeNode.rewind(self, neighbour)
        for identity in self.identities.values():
            identity.withdraw()
        for each in self.neighbours.values():
            each.ranges_known = each.is_publisher

    def _decide(
        self, artid: UUID, neighbour: str, incoming: Incoming, choice: Side | None
    ) -> MergeDecision:
        way = (
            MergeProtection.DEFERRAL
            if self.neighbours[neighbour].is_publisher
            else MergeProtection.LINEAGE
        )
        if way in self.without:
            return MergeDecision(verdict=Verdict.APPLY, version=incoming.version)
        made = ModelMergeNode._decide(self, artid, neighbour, incoming, choice)
        if MergeProtection.COLUMN_VERSIONS in self.without:
            return replace(made, taken=(True,) * len(made.taken))
        return made

    def _sent_priority(self, peer: ModelNeighbour, writer: int) -> float:
        if MergeProtection.PRIORITY in self.without:
            return 0.0
        return ModelMergeNode._sent_priority(self, peer, writer)

    def take(
        self, artid: UUID, neighbour: str, incoming: Incoming, choice: Side | None = None
    ) -> MergeDecision:
        """See `ModelMergeNode.take`; conflicts are recorded."""
        held_by = self.encounter(artid, neighbour, incoming).held_by
        count = len(self.conflicts)
        made = ModelMergeNode.take(self, artid, neighbour, incoming, choice)
        for each in self.conflicts[count:]:
            assert made.conflict is not None, "a conflict has a type"
            has_won = made.verdict is Verdict.REPLACE
            winner, origin = (neighbour, held_by) if has_won else (held_by, neighbour)
            what = "update" if made.conflict < ConflictType.DELETE_WINS else "change"
            is_kept = MergeProtection.LOSERS not in self.without
            self.recorded.append(
                RecordedConflict(
                    artid=artid,
                    rowguid=each.rowguid,
                    type=made.conflict,
                    origin=origin,
                    winner=winner,
                    code=str(int(made.conflict)),
                    reason=f"the {what} of {origin} lost against {winner}",
                    loser=each.loser if is_kept else None,
                )
            )
        return made


def travelling(table: HeapTable, rowguid: str) -> tuple[int, ...]:
    """Return the places of the columns that are sent: without the rowguid, and computed and dropped columns."""
    return tuple(
        place
        for place, column in enumerate(table.columns)
        if column.name != rowguid and column.generated is None and not is_dropped(column.name)
    )


class MergeSite:
    """One node.

    Args:
        tables: the table of each article.
        rowguids: the rowguid column of each article.
    """

    def __init__(
        self,
        node: ModelNode,
        knowledge: SiteKnowledge,
        tables: Mapping[UUID, HeapTable],
        rowguids: Mapping[UUID, str],
    ) -> None:
        self.node = node
        self.knowledge = knowledge
        self.tables = tables
        self._artids = {table.name: artid for artid, table in tables.items()}
        self._guid_at = {artid: table.at[rowguids[artid]] for artid, table in tables.items()}
        self._sent_places = {
            artid: travelling(table, rowguids[artid]) for artid, table in tables.items()
        }
        """Places of the columns that are sent."""
        for artid, table in tables.items():
            knowledge.rows[artid] = {
                self.rowguid(artid, row): self.values(artid, row) for row in table.rows()
            }
        self.watch()

    def reshape(self, artid: UUID) -> None:
        """Adapt to changed columns of a table."""
        table, article = self.tables[artid], self.knowledge.articles[artid]
        self._sent_places[artid] = tuple(table.at[name] for name in article.names)
        self.knowledge.rows[artid] = {
            self.rowguid(artid, row): self.values(artid, row) for row in table.rows()
        }

    def draw_from(self, identity: ModelIdentity, artid: UUID) -> None:
        """Have a table's identity column draw values from ranges, and refuse values outside them."""
        self.knowledge.identities[artid] = identity
        table = self.tables[artid]
        place = table.at[identity.column]
        table.columns[place].draws = lambda: self.knowledge.identities[artid].draw()
        self.node.add_trigger(
            table.name,
            IdentityGuard(
                table.name,
                lambda: self.knowledge.identities[artid],
                place,
                lambda role: role == AGENT or self.node.on_commit is None,
            ),
        )

    def watch(self) -> None:
        """Register the commits of applications from now on."""
        self.node.on_commit = self._committed

    def rowguid(self, artid: UUID, row: Values) -> UUID:
        """Return the rowguid, which identifies a row at all nodes."""
        guid: Any = row[self._guid_at[artid]]
        assert isinstance(guid, UUID), "its column is uuid"
        return guid

    def values(self, artid: UUID, row: Values) -> MergeValues:
        """Return the values of a row that are sent: without the rowguid and computed columns."""
        columns = self.tables[artid].columns
        return tuple(
            row[place] if isinstance(row[place], _PLAIN) else columns[place].type.text(row[place])
            for place in self._sent_places[artid]
        )

    def row(self, artid: UUID, rowguid: UUID, values: MergeValues) -> Values:
        """Return the table's row with these values."""
        table = self.tables[artid]
        row: list[Any] = [None] * len(table.columns)
        row[self._guid_at[artid]] = rowguid
        for place, value in zip(self._sent_places[artid], values, strict=True):
            row[place] = table.columns[place].type.store(value)  # the type may be narrower here
        return self.node.generated(table, tuple(row))

    def key(self, artid: UUID, rowguid: UUID, values: MergeValues) -> Values:
        """Return the primary key of a row with these values."""
        primary = self.tables[artid].primary
        assert primary is not None, "a table that is merged has a primary key"
        key: Values = primary.key(self.row(artid, rowguid, values))
        return key

    def _committed(self, top: TopXact) -> None:
        """Register the changes that an application has committed."""
        if top.session is not None and top.session.role == AGENT:
            return
        known = self.knowledge
        for table, _, old, new in top.changes:
            artid = self._artids.get(table.name)
            if artid is None:
                continue
            rowguid = self.rowguid(artid, old if new is None else new)
            before = known.change
            known.write(artid, rowguid, None if new is None else self.values(artid, new))
            if MergeProtection.GENERATION_SNAPSHOT in known.without:
                number = top.xid
                known.change = max(before, number)
                known.is_late = known.is_late or number <= known.newest.upto
                known.metadata[artid][rowguid] = replace(
                    known.metadata[artid][rowguid], change=number
                )
