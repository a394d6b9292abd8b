"""Identity ranges at one node of a merge session on a server; see `twopc.drivers.merge.ports.MergeRangePort`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from twopc.merge.ranges import AllottedRange, HeldValues, RangesHeld

_KNOWS = "select msrepl.merge_knows_ranges(%s, %s::int8[])"
_ALLOT = "select * from msrepl.merge_allot(%s, %s, %s)"
_LEARN = "select * from msrepl.merge_learn_ranges(%s, %s::int8[], %s::int8[], %s)"
_RECEIVE = "select msrepl.merge_receive_ranges(%s, %s::int8[], %s::int8[], %s::int8[])"


class ServerRanges(ABC):
    """See `MergeRangePort`."""

    @abstractmethod
    async def _rows(self, query: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Execute a query."""

    async def ranges(self) -> Mapping[UUID, RangesHeld]:
        """See `MergeRangePort`."""
        return {
            artid: RangesHeld(
                left=left, size=size, threshold_percent=threshold, received=received, newest=newest
            )
            for artid, left, size, threshold, received, newest in await self._rows(
                "select * from msrepl.merge_ranges()"
            )
        }

    async def knows_ranges(self, newest: Mapping[UUID, int]) -> bool | None:
        """See `MergeRangePort`."""
        [(is_known,)] = await self._rows(_KNOWS, list(newest), list(newest.values()))
        return None if is_known is None else bool(is_known)

    async def ranges_held(self) -> Mapping[UUID, HeldValues]:
        """See `MergeRangePort`."""
        return {
            artid: HeldValues(
                ranges=tuple(zip(begins or (), ends or (), strict=True)), highest=highest
            )
            for artid, begins, ends, highest in await self._rows(
                "select * from msrepl.merge_ranges_held()"
            )
        }

    async def learn_ranges(
        self, held: Mapping[UUID, HeldValues]
    ) -> Mapping[UUID, Sequence[AllottedRange] | None]:
        """See `MergeRangePort`."""
        learned = {}
        for artid, values in held.items():
            begins, ends = ([each[place] for each in values.ranges] for place in (0, 1))
            rows = await self._rows(_LEARN, artid, begins, ends, values.highest)
            learned[artid] = None if (None, None, None) in rows else _allotted(rows)
        return learned

    async def note_ranges(self) -> None:
        """See `MergeRangePort`."""
        await self._rows("select msrepl.merge_note_ranges()")

    async def withdraw_ranges(self, artid: UUID) -> None:
        """See `MergeRangePort`."""
        await self._rows("select msrepl.merge_withdraw_ranges(%s)", artid)

    async def allot_ranges(self, artid: UUID, held: RangesHeld) -> Sequence[AllottedRange]:
        """See `MergeRangePort`."""
        return _allotted(await self._rows(_ALLOT, artid, held.received, held.missing))

    async def receive_ranges(self, artid: UUID, allotted: Sequence[AllottedRange]) -> None:
        """See `MergeRangePort`."""
        columns = [
            [each.allotment for each in allotted],
            [each.first for each in allotted],
            [each.last for each in allotted],
        ]
        await self._rows(_RECEIVE, artid, *columns)


def _allotted(rows: Iterable[tuple[Any, ...]]) -> list[AllottedRange]:
    return [AllottedRange(allotment=each, first=first, last=last) for each, first, last in rows]
