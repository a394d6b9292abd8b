"""Plants in merging nodes: random histories find each of them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from tests.merge.model_nodes import ModelNodes, RememberingNode
from tests.merge.test_histories import (
    play,
    play_aged,
    play_restored,
    superfluous_rows,
)
from twopc.drivers.merge.ports import SliceOutcome
from twopc.errors import MergeError
from twopc.merge.decision import MergeDecision, Side, Verdict
from twopc.merge.marks import Generation
from twopc.sim.model.merge.end import ModelMergeEnd
from twopc.sim.model.merge.node import ModelMergeNode
from twopc.sim.model.merge.records import Incoming, ModelOutgoing, Values


class NothingDeferred(ModelMergeNode):
    """A download overwrites what the Subscriber has changed since its upload."""

    def take(
        self,
        artid: UUID,
        neighbour: str,
        incoming: Incoming,
        choice: Side | None = None,
    ) -> MergeDecision:
        """Apply a row that should be deferred."""
        made = super().take(artid, neighbour, incoming, choice)
        if made.verdict is Verdict.DEFER:
            self.metadata[artid].pop(incoming.rowguid)
            return super().take(artid, neighbour, incoming, choice)
        return made


class SourceKept(ModelMergeNode):
    """A merged or resolved row keeps the Subscriber as its source, and is not sent back to it."""

    def take(
        self,
        artid: UUID,
        neighbour: str,
        incoming: Incoming,
        choice: Side | None = None,
    ) -> MergeDecision:
        """Keep the source."""
        made = super().take(artid, neighbour, incoming, choice)
        if made.verdict in (Verdict.MERGE, Verdict.KEEP, Verdict.REPLACE):
            source = self.neighbours[neighbour].replica
            known = self.metadata[artid][incoming.rowguid]
            self.metadata[artid][incoming.rowguid] = dataclasses.replace(known, source=source)
        return made


class LosersForgotten(ModelMergeNode):
    """A change that has lost is not recorded."""

    def take(self, *arguments: Any) -> MergeDecision:
        """Remove the recorded losers."""
        made = super().take(*arguments)
        self.conflicts.clear()
        return made


class VersionsFromOne(ModelMergeNode):
    """A row that is inserted again begins with version 1, as if it had never been deleted."""

    def write(self, artid: UUID, rowguid: UUID, values: Values | None) -> int:
        """Remove the tombstone."""
        if values is not None and rowguid not in self.rows[artid]:
            self.metadata[artid].pop(rowguid, None)
        return super().write(artid, rowguid, values)


class WholeRowsMerged(ModelMergeNode):
    """When different columns of a row were changed, the incoming row is taken as a whole."""

    def take(
        self,
        artid: UUID,
        neighbour: str,
        incoming: Incoming,
        choice: Side | None = None,
    ) -> MergeDecision:
        """Take all columns."""
        made = super().take(artid, neighbour, incoming, choice)
        if made.verdict is Verdict.MERGE and incoming.values is not None:
            self.rows[artid][incoming.rowguid] = incoming.values
        return made


class HalfClosed(ModelMergeNode):
    """A generation is closed beyond the last change, and includes a change that is not made yet."""

    def close(self) -> Generation:
        """Close the generation one change too late."""
        made = super().close()
        if made.number and self.newest.upto == self.change:
            self.generations[made.number] = dataclasses.replace(self.newest, upto=self.change + 1)
        return made


class AcknowledgedEarly(ModelMergeEnd):
    """The sender marks what it has read as sent, and the receiver marks it as received."""

    async def read(self, after: int, articles: Any) -> Any:
        """Set the sender's mark at once."""
        made = await super().read(after, articles)
        other = self.node.neighbours[self._neighbour]
        other.sent = made.generation.number
        return made

    async def apply(self, part: Any, coming: Generation, judge: Any = None) -> SliceOutcome:
        """Set the receiver's mark with the first slice."""
        made = await super().apply(part, coming, judge)
        self.node.neighbours[self._neighbour].received = coming
        return made


class SourcesKept(ModelMergeNode):
    """What came from a restored neighbour is not sent back to it."""

    def begin_anew(self, neighbour: str, replica: int, cleaned: int) -> None:
        """Keep the sources."""
        known = self.neighbours[neighbour]
        for rows in self.metadata.values():
            for rowguid, row in rows.items():
                if row.source == known.replica:
                    rows[rowguid] = dataclasses.replace(row, source=replica)
        known.former = (*known.former, known.replica)
        known.replica, known.sent, known.received, known.coming = replica, 0, None, None


class BackupsUnnoticed(ModelMergeNode):
    """A node takes every generation that a neighbour names for one of its own."""

    def knows(self, generation: Generation) -> bool:
        """Return that the generation is known."""
        return True


@dataclasses.dataclass(slots=True, kw_only=True)
class ForgetsTombstones(RememberingNode):
    """The Publisher removes tombstones that its Subscribers have not confirmed yet."""

    def clean_up(self) -> int:
        """Remove tombstones at the Publisher, whatever is confirmed."""
        if not any(each.is_publisher for each in self.neighbours.values()):
            for rows in self.metadata.values():
                for rowguid in [each for each, row in rows.items() if row.version.gone]:
                    self.forgotten[rowguid] = dict(rows.pop(rowguid).version.lineage)
        return RememberingNode.clean_up(self)


@dataclasses.dataclass(slots=True, kw_only=True)
class ForgetsByItself(RememberingNode):
    """A Subscriber removes metadata that its Publisher has confirmed, but not removed itself."""

    def clean_up(self) -> int:
        """Remove metadata of what was sent, at a Subscriber."""
        for each in self.neighbours.values():
            if each.is_publisher and each.sent > self.cleaned:
                return self.forget(each.sent)
        return RememberingNode.clean_up(self)


@dataclasses.dataclass(slots=True, kw_only=True)
class BelowTheFloor(RememberingNode):
    """Rows whose metadata was removed begin with version 1 again."""

    def forget(self, upto: int) -> int:
        """Remove the floors of versions, too."""
        count = RememberingNode.forget(self, upto)
        self.floors.clear()
        return count


@dataclasses.dataclass(slots=True, kw_only=True)
class TakesBack(RememberingNode):
    """A Publisher's row does not replace one whose versions it has forgotten."""

    def take(self, *arguments: Any) -> MergeDecision:
        """Take nothing for confirmed."""
        neighbour = self.neighbours[arguments[1]]
        sent, neighbour.sent = neighbour.sent, 0
        try:
            return RememberingNode.take(self, *arguments)
        finally:
            neighbour.sent = sent


class Echo(ModelMergeNode):
    """Rows are sent back to the neighbour from which they came."""

    def outgoing(
        self, artid: UUID, neighbour: str, after: int, upto: int
    ) -> Sequence[ModelOutgoing]:
        """Ignore the sources of rows."""
        low, high = self.generations[after].upto, self.generations[upto].upto
        return [
            ModelOutgoing(rowguid=rowguid, metadata=row, values=self.rows[artid].get(rowguid))
            for rowguid, row in sorted(self.metadata[artid].items())
            if low < row.change <= high
        ]


def test_an_echo_is_found() -> None:
    """Three histories of a tree find the plant (`test_histories.test_no_echo_in_a_tree`)."""
    assert asyncio.run(superfluous_rows(Echo, 3)) > 0


async def is_found(
    play_one: Callable[[ModelNodes, str], Awaitable[object]],
    seeds: list[str],
    *errors: type[Exception],
    **planted: Any,
) -> bool:
    """Return whether one of the histories fails with a plant, by one of the errors."""
    nodes_class = type("PlantedNodes", (ModelNodes,), planted)
    for seed in seeds:
        try:
            await play_one(nodes_class(column_tracking=True), seed)
        except errors:
            return True
    return False


AGED: dict[str, Any] = {
    "forgets tombstones": ForgetsTombstones,
    "forgets by itself": ForgetsByItself,
    "below the floor": BelowTheFloor,
    "takes back": TakesBack,
}


@pytest.mark.parametrize("plant", AGED)
def test_a_plant_is_found_by_age(plant: str) -> None:
    """150 histories in which weeks pass find the plant; without it none of them fails."""
    seeds = [f"column aged {seed}" for seed in range(150)]
    errors = (AssertionError, MergeError, KeyError)
    assert asyncio.run(is_found(play_aged, seeds, *errors, node_class=AGED[plant]))


PLANTS: dict[str, dict[str, Any]] = {
    "nothing deferred": {"node_class": NothingDeferred},
    "source kept": {"node_class": SourceKept},
    "losers forgotten": {"node_class": LosersForgotten},
    "versions from one": {"node_class": VersionsFromOne},
    "whole rows merged": {"node_class": WholeRowsMerged},
    "half closed": {"node_class": HalfClosed},
    "acknowledged early": {"end_class": AcknowledgedEarly},
}


RESTORED = {
    "sources kept": SourcesKept,
    "backups unnoticed": BackupsUnnoticed,
}


@pytest.mark.parametrize("plant", RESTORED)
def test_a_plant_is_found_by_restoring(plant: str) -> None:
    """300 histories with backups find the plant; without it none of them fails."""
    seeds = [f"column restored {seed}" for seed in range(300)]
    errors = (AssertionError, IndexError, MergeError)
    assert asyncio.run(is_found(play_restored, seeds, *errors, node_class=RESTORED[plant]))


@pytest.mark.parametrize("plant", PLANTS)
def test_a_plant_is_found(plant: str) -> None:
    """300 histories find the plant.

    Without it none of them fails (`test_histories.test_in_memory`).
    """
    seeds = [f"column {seed}" for seed in range(300)]
    assert asyncio.run(is_found(play, seeds, AssertionError, **PLANTS[plant]))
