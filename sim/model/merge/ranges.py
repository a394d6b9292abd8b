"""Identity ranges in memory; see `twopc.drivers.merge.ports.MergeRangePort`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from twopc.merge.ranges import AllottedRange, HeldValues, RangesHeld


class ModelRanges:
    """See `MergeRangePort`."""

    async def ranges(self) -> Mapping[UUID, RangesHeld]:
        """See `MergeRangePort`."""
        return {}

    async def knows_ranges(self, newest: Mapping[UUID, int]) -> bool | None:
        """See `MergeRangePort`."""
        return True

    async def ranges_held(self) -> Mapping[UUID, HeldValues]:
        """See `MergeRangePort`."""
        return {}

    async def learn_ranges(
        self, held: Mapping[UUID, HeldValues]
    ) -> Mapping[UUID, Sequence[AllottedRange] | None]:
        """See `MergeRangePort`."""
        return {}

    async def note_ranges(self) -> None:
        """See `MergeRangePort`."""

    async def withdraw_ranges(self, artid: UUID) -> None:
        """See `MergeRangePort`."""

    async def allot_ranges(self, artid: UUID, held: RangesHeld) -> Sequence[AllottedRange]:
        """See `MergeRangePort`."""
        return ()

    async def receive_ranges(self, artid: UUID, allotted: Sequence[AllottedRange]) -> None:
        """See `MergeRangePort`."""
