"""Identity ranges in memory; see `twopc.drivers.merge.ports.MergeRangePort`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from twopc.merge.ranges import AllottedRange, RangesHeld


class ModelRanges:
    """See `MergeRangePort`."""

    async def ranges(self) -> Mapping[UUID, RangesHeld]:
        """See `MergeRangePort`."""
        return {}

    async def allot_ranges(self, artid: UUID, held: RangesHeld) -> Sequence[AllottedRange]:
        """See `MergeRangePort`."""
        return ()

    async def receive_ranges(self, artid: UUID, allotted: Sequence[AllottedRange]) -> None:
        """See `MergeRangePort`."""
