"""Comparison of the changes that agents delivered with those that were committed.

No change may return to its originator, and each must reach every other Subscriber exactly once.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.loopback.workload import Change, Ledger
from twopc.sim.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """The changes that one Subscriber's agent made, compared with the ledger."""

    subscriber: str
    delivered: int
    """Row changes made by the agent, as recorded by the Subscriber's delivery witness."""
    expected: int
    """Changes that were committed at other nodes."""
    echoed: tuple[Change, ...]
    """Changes of this Subscriber that were delivered to it."""
    missing: tuple[Change, ...]
    twice: tuple[Change, ...]
    strange: tuple[Change, ...]
    """Changes that no transaction committed, for example because it was rolled back."""

    @property
    def passed(self) -> bool:
        """Whether no change was echoed, and each other change arrived exactly once."""
        return not (self.echoed or self.missing or self.twice or self.strange)

    def __str__(self) -> str:
        share = 100.0 * (self.expected - len(self.missing)) / max(1, self.expected)
        return (
            f"{self.subscriber}: {self.delivered} delivered, {share:g} % of {self.expected}; "
            f"{len(self.echoed)} echoed, {len(self.missing)} missing, {len(self.twice)} twice, "
            f"{len(self.strange)} strange"
        )


async def count(topology: Topology, ledger: Ledger) -> list[Delivered]:
    """Compare the records of every Subscriber's delivery witness with the ledger."""
    found = []
    for subscriber in topology.subscribers:
        rows = await topology.execute(subscriber, "select what, op, id, token from delivered")
        found.append(compare(subscriber, Counter((w, o, i, t) for w, o, i, t in rows), ledger))
    return found


def compare(subscriber: str, seen: Counter[Change], ledger: Ledger) -> Delivered:
    """Compare one Subscriber's changes with the ledger: the part of `count` without I/O."""
    own = set(ledger.committed.get(subscriber, ()))
    others = {
        change
        for origin, changes in ledger.committed.items()
        if origin != subscriber
        for change in changes
    }
    return Delivered(
        subscriber=subscriber,
        delivered=seen.total(),
        expected=len(others),
        echoed=tuple(sorted(seen.keys() & own)),
        missing=tuple(sorted(others - seen.keys())),
        twice=tuple(sorted(change for change, times in seen.items() if times > 1)),
        strange=tuple(sorted(seen.keys() - own - others)),
    )
