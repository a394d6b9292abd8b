"""Merging nodes in memory, on which random histories are played."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from tests.merge.histories import COLUMNS, Known, Lost
from twopc.drivers.merge.engine import MergeReport, MergeSession
from twopc.drivers.merge.ports import SliceOutcome
from twopc.drivers.points import Points
from twopc.merge.articles import DEFAULT_OPTIONS, MergeOptions
from twopc.merge.handlers import MergeHandler
from twopc.merge.lineage import joined
from twopc.sim.model.merge.copies import initialise
from twopc.sim.model.merge.end import ModelMergeEnd
from twopc.sim.model.merge.node import ModelMergeNode
from twopc.sim.model.merge.records import ModelMergeArticle, ModelNeighbour
from twopc.sim.model.merge.retention import DAY_S

TABLE = UUID(int=1)
#: Priorities of two server subscriptions, and None for a client.
PRIORITIES: Mapping[str, float | None] = {"anna": 75.0, "ben": 50.0, "cleo": None}
STAR: Mapping[str, str] = dict.fromkeys(PRIORITIES, "pub")
#: Ben is a republisher; Cleo and Dora are its Subscribers.
TREE: Mapping[str, str] = {"anna": "pub", "ben": "pub", "cleo": "ben", "dora": "ben"}


@dataclass(slots=True, kw_only=True)
class RememberingNode(ModelMergeNode):
    """A node that keeps the lineages which it has removed, for the judge only."""

    forgotten: dict[UUID, dict[int, int]] = field(default_factory=dict)

    def forget(self, upto: int) -> int:
        """Remove metadata up to a generation, and keep its lineages."""
        last = self.generations[upto].upto
        for rows in self.metadata.values():
            for rowguid, row in rows.items():
                if row.change <= last:
                    before = self.forgotten.get(rowguid, {})
                    self.forgotten[rowguid] = joined(before, row.version.lineage)
        return ModelMergeNode.forget(self, upto)


class CountingEnd(ModelMergeEnd):
    """An end that counts the incoming rows whose changes it already has."""

    superfluous = 0

    async def apply(self, *arguments: Any) -> SliceOutcome:
        """Apply a slice, and count the rows that are skipped."""
        outcome = await super().apply(*arguments)
        CountingEnd.superfluous += outcome.skipped
        return outcome


class ModelNodes:
    """Nodes in memory.

    Args:
        tree: the Publisher of each Subscriber.
        options: how conflicts are resolved.
    """

    node_class: Any = RememberingNode
    end_class: Any = ModelMergeEnd

    def __init__(
        self,
        *,
        column_tracking: bool,
        tree: Mapping[str, str] = STAR,
        options: MergeOptions = DEFAULT_OPTIONS,
    ) -> None:
        self.points = Points()
        self.handlers: dict[str, MergeHandler] = {}
        self.days = 0.0
        article = ModelMergeArticle(
            columns=COLUMNS, column_tracking=column_tracking, options=options
        )
        self.tree = tree
        self.names: Sequence[str] = ("pub", *tree)
        self.nodes: dict[str, Any] = {
            name: self.node_class(
                name=name, replica=number, articles={TABLE: article}, clock=self._clock()
            )
            for number, name in enumerate(self.names, 1)
        }
        self._agents: dict[str, set[str]] = {name: set() for name in self.names}
        self._backups: dict[str, list[Any]] = {}
        for name, parent in tree.items():
            above, below = self.nodes[parent], self.nodes[name]
            priority = PRIORITIES.get(name, 20.0)
            above.neighbours[name] = ModelNeighbour(
                replica=below.replica, is_publisher=False, server_priority=priority
            )
            below.neighbours[parent] = ModelNeighbour(replica=above.replica, is_publisher=True)

    def _clock(self) -> Callable[[], float]:
        return lambda: self.days * DAY_S

    async def write(
        self, node: str, rowguid: UUID, values: Sequence[Any] | None, fresh: bool
    ) -> None:
        """See `Nodes`."""
        self.nodes[node].write(TABLE, rowguid, None if values is None else tuple(values))

    async def rows(self, node: str) -> dict[UUID, tuple[Any, ...]]:
        """See `Nodes`."""
        return dict(self.nodes[node].rows[TABLE])

    async def known(self, node: str, rowguid: UUID) -> Known | None:
        """See `Nodes`."""
        held = self.nodes[node].metadata[TABLE].get(rowguid)
        before = getattr(self.nodes[node], "forgotten", {}).get(rowguid)
        if held is None:
            is_gone = rowguid not in self.nodes[node].rows[TABLE]
            return before and Known(lineage=before, gone=is_gone)
        return Known(lineage=joined(before or {}, held.version.lineage), gone=held.version.gone)

    async def replica(self, node: str) -> int:
        """See `Nodes`."""
        return int(self.nodes[node].replica)

    async def sync(self, subscriber: str) -> MergeReport:
        """See `Nodes`."""
        parent = self.tree[subscriber]
        above = self.end_class(self.nodes[parent], subscriber, self._agents[parent])
        below = self.end_class(self.nodes[subscriber], parent, set())
        return await MergeSession(above, below, self.points, handlers=self.handlers).run()

    def age(self, days: float) -> None:
        """See `Nodes`."""
        self.days += days

    def reinitialise(self, subscriber: str) -> Sequence[str]:
        """See `Nodes`."""
        parent = self.tree[subscriber]
        priorities = self.nodes[subscriber].neighbours
        initialise(self.nodes[subscriber], parent, self.nodes[parent])
        remembered = getattr(self.nodes[parent], "forgotten", None)
        if remembered is not None:
            self.nodes[subscriber].forgotten = dict(remembered)
        begun = [subscriber]
        for child in [name for name, publisher in self.tree.items() if publisher == subscriber]:
            self.nodes[subscriber].neighbours[child] = priorities[child]
            begun += self.reinitialise(child)
        return begun

    def back_up(self, node: str) -> None:
        """See `Nodes`."""
        self._backups.setdefault(node, []).append(copy.deepcopy(self.nodes[node]))

    def restore(self, node: str, chance: random.Random) -> bool:
        """See `Nodes`."""
        if node not in self._backups:
            return False
        self.nodes[node] = copy.deepcopy(chance.choice(self._backups[node]))
        return True

    async def losers(self) -> Sequence[Lost]:
        """See `Nodes`."""
        return [
            Lost(rowguid=c.rowguid, row=c.loser)
            for name in self.names
            for c in self.nodes[name].conflicts
        ]
