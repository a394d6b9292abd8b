"""Identity ranges at one end of a session of the model; see `twopc.drivers.merge.ports.MergeRangePort`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from twopc.merge.protections import MergeProtection
from twopc.merge.ranges import (
    RANGES,
    AllottedRange,
    HeldValues,
    IdentityRanges,
    RangesHeld,
    shared_range,
)
from twopc.sim.model.merge.identity import ModelIdentity
from twopc.sim.model.merge.records import ModelNeighbour
from twopc.sim.model.merge.site import MergeSite, SiteKnowledge
from twopc.sim.model.sql import types
from twopc.sim.model.values import SqlError


class ModelRanges:
    """See `MergeRangePort`; for a node whose rows have no identity column."""

    async def ranges(self) -> Mapping[UUID, RangesHeld]:
        return {}

    async def knows_ranges(self, newest: Mapping[UUID, int]) -> bool | None:
        return True

    async def ranges_held(self) -> Mapping[UUID, HeldValues]:
        return {}

    async def learn_ranges(
        self, held: Mapping[UUID, HeldValues]
    ) -> Mapping[UUID, Sequence[AllottedRange] | None]:
        return {}

    async def note_ranges(self) -> None:
        """See `MergeRangePort`."""

    async def withdraw_ranges(self, artid: UUID) -> None:
        """See `MergeRangePort`."""

    async def allot_ranges(self, artid: UUID, held: RangesHeld) -> Sequence[AllottedRange]:
        return ()

    async def receive_ranges(self, artid: UUID, allotted: Sequence[AllottedRange]) -> None:
        """See `MergeRangePort`."""


class SiteRanges(ModelRanges, ABC):
    """See `MergeRangePort`; for a node with tables."""

    _neighbour: str

    @property
    @abstractmethod
    def _at(self) -> MergeSite:
        """The node; raises `psycopg.Error` if the connection to it is lost."""

    async def ranges(self) -> Mapping[UUID, RangesHeld]:
        return {artid: identity.held for artid, identity in self._at.knowledge.identities.items()}

    async def knows_ranges(self, newest: Mapping[UUID, int]) -> bool | None:
        known = self._at.knowledge
        if not known.neighbours[self._neighbour].ranges_known:
            return None
        return all(
            any(
                each.first == first for each in known.identities[artid].allotted_to(self._neighbour)
            )
            for artid, first in newest.items()
        )

    async def ranges_held(self) -> Mapping[UUID, HeldValues]:
        site = self._at
        return {
            artid: HeldValues(
                ranges=tuple((each.first, each.last) for each in identity.own),
                highest=_highest(site, artid),
            )
            for artid, identity in site.knowledge.identities.items()
        }

    async def learn_ranges(
        self, held: Mapping[UUID, HeldValues]
    ) -> Mapping[UUID, Sequence[AllottedRange] | None]:
        identities = self._at.knowledge.identities
        return {
            artid: identities[artid].learn(self._neighbour, values.ranges, values.highest)
            for artid, values in held.items()
        }

    async def note_ranges(self) -> None:
        self._at.knowledge.neighbours[self._neighbour].ranges_known = True

    async def withdraw_ranges(self, artid: UUID) -> None:
        self._at.knowledge.identities[artid].withdraw()

    async def allot_ranges(self, artid: UUID, held: RangesHeld) -> Sequence[AllottedRange]:
        known = self._at.knowledge
        identity, received = known.identities[artid], held.received
        if received is not None:
            sent = identity.allotted_to(self._neighbour)
            if repeated := [each for each in sent if each.allotment > received]:
                return repeated
        size = _size(identity, known.neighbours[self._neighbour])
        return _allot(known, artid, self._neighbour, min(held.missing, RANGES * size))

    async def receive_ranges(self, artid: UUID, allotted: Sequence[AllottedRange]) -> None:
        self._at.knowledge.identities[artid].receive(allotted)


def _highest(site: MergeSite, artid: UUID) -> int | None:
    table = site.tables[artid]
    place = table.at[site.knowledge.identities[artid].column]
    values: list[Any] = [row[place] for row in table.rows()]
    return max(values, default=None)


def install_ranges(
    sites: Mapping[str, MergeSite], publisher: str, artid: UUID, ranges: IdentityRanges
) -> None:
    """Have every node draw a table's identity values from ranges of its own.

    Args:
        publisher: the topmost Publisher, whose column continues its own sequence; Subscribers' columns do not.

    Raises:
        SqlError: the table has no identity column, or several.
    """
    above = sites[publisher].tables[artid]
    counting = [column for column in above.columns if column.identity]
    if len(counting) != 1:
        held = " and ".join(column.name for column in counting) or "none"
        raise SqlError(
            "42P16",
            f"table {above.name}: identity ranges need one column that is an identity, or has a sequence as its default: it has {held}",
        )
    [column] = counting
    for name, site in sites.items():
        is_copy = name != publisher
        identity = ModelIdentity(
            node=name,
            table=above.name,
            column=column.name,
            ranges=ranges,
            is_copy=is_copy,
            highest=types.highest(column.type.name),
            counted=0 if is_copy else column.next - 1,
        )
        site.draw_from(identity, artid)


def begin_ranges(above: SiteKnowledge, below: SiteKnowledge) -> None:
    """Give a newly initialised Subscriber its ranges, replacing earlier ones, and register them at the Publisher."""
    for artid, identity in below.identities.items():
        source = above.identities[artid]
        size = _size(source, above.neighbours[below.name])
        allotted = (
            [shared_range(source.counted, size, source.step)]
            if MergeProtection.IDENTITY_RANGES in above.without
            else _allot(above, artid, below.name, RANGES * size)
        )
        identity.size, identity.counted, identity.own, identity.allotted = size, 0, (), ()
        identity.receive(allotted)


def _allot(
    known: SiteKnowledge, artid: UUID, subscriber: str, count: int
) -> Sequence[AllottedRange]:
    """Allot values to a Subscriber; none while a restored node does not know what each Subscriber holds."""
    below = [each for each in known.neighbours.values() if not each.is_publisher]
    if not all(each.ranges_known for each in below):
        return ()
    return known.identities[artid].allot(subscriber, count)


def _size(identity: ModelIdentity, subscriber: ModelNeighbour) -> int:
    """Return the number of values in a range of a Subscriber."""
    is_client = subscriber.server_priority is None
    return identity.ranges.subscriber if is_client else identity.ranges.publisher
