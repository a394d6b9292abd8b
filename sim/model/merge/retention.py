"""Calculation of the generation up to which a node in memory may forget metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twopc.merge.retention import GRACE_DAYS, ClosedGeneration, forgettable

if TYPE_CHECKING:
    from twopc.sim.model.merge.node import ModelMergeNode

DAY_S = 86_400.0


def forgettable_at(node: ModelMergeNode) -> int:
    """Return the generation up to which no node needs the metadata of rows any more."""
    publisher = next((each for each in node.neighbours.values() if each.is_publisher), None)
    before_s: float | None = None
    if publisher is None and node.retention_days:
        before_s = node.clock() - (node.retention_days + GRACE_DAYS) * DAY_S
    return forgettable(
        [
            ClosedGeneration(number=number, closed_s=each.closed_s, known_by=each.known_by)
            for number, each in node.generations.items()
        ],
        acknowledged=[
            each.sent
            for each in node.neighbours.values()
            if not each.is_publisher and not node.is_expired(each)
        ],
        before_s=before_s,
        publisher_cleaned=None if publisher is None else publisher.cleaned,
    )
