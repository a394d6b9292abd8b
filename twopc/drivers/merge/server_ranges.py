"""Identity ranges at one end of a merge session on a server; see `twopc.drivers.merge.ports.MergeRangePort`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from twopc.merge.ranges import AllottedRange, RangesHeld

_ALLOT = "select * from msrepl.merge_allot(%s, %s, %s)"
_RECEIVE = "select msrepl.merge_receive_ranges(%s, %s::int8[], %s::int8[], %s::int8[])"


class ServerRanges(ABC):
    """See `MergeRangePort`."""

    @abstractmethod
    async def _rows(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Execute a query."""

    async def ranges(self) -> Mapping[UUID, RangesHeld]:
        """See `MergeRangePort`."""
        return {
            artid: RangesHeld(left=left, size=size, threshold_percent=threshold, received=received)
            for artid, left, size, threshold, received in await self._rows(
                "select * from msrepl.merge_ranges()"
            )
        }

    async def allot_ranges(self, artid: UUID, held: RangesHeld) -> Sequence[AllottedRange]:
        """See `MergeRangePort`."""
        rows = await self._rows(_ALLOT, artid, held.received, held.missing)
        return [AllottedRange(allotment=each, first=first, last=last) for each, first, last in rows]

    async def receive_ranges(self, artid: UUID, allotted: Sequence[AllottedRange]) -> None:
        """See `MergeRangePort`."""
        columns = [
            [each.allotment for each in allotted],
            [each.first for each in allotted],
            [each.last for each in allotted],
        ]
        await self._rows(_RECEIVE, artid, *columns)
