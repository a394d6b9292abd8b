"""Counting what agents delivered against what was committed: nothing back to where it came from, all to
everybody else, each change once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from tests.loopback.workload import Change, Ledger
from twopc.sim.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivered:
    """What one Subscriber's agent did, against the ledger."""

    subscriber: str
    delivered: int
    """Changes of rows that the agent made, as the Subscriber's own trigger saw them."""
    expected: int
    """Changes that were committed elsewhere."""
    echoed: tuple[Change, ...]
    """Its own, brought back."""
    missing: tuple[Change, ...]
    twice: tuple[Change, ...]
    strange: tuple[Change, ...]
    """Committed by nobody: rolled back, perhaps."""

    @property
    def passed(self) -> bool:
        """0 to the originator, 100 % to the others."""
        return not (self.echoed or self.missing or self.twice or self.strange)

    def __str__(self) -> str:
        share = 100.0 * (self.expected - len(self.missing)) / max(1, self.expected)
        return (
            f"{self.subscriber}: {self.delivered} delivered, {share:g} % of {self.expected}; "
            f"{len(self.echoed)} echoed, {len(self.missing)} missing, {len(self.twice)} twice, "
            f"{len(self.strange)} strange"
        )


async def count(topology: Topology, ledger: Ledger) -> list[Delivered]:
    """Compare what every Subscriber's witness saw with the ledger."""
    found = []
    for subscriber in topology.subscribers:
        rows = await topology.execute(subscriber, "select what, op, id, token from delivered")
        found.append(compare(subscriber, Counter((w, o, i, t) for w, o, i, t in rows), ledger))
    return found


def compare(subscriber: str, seen: Counter[Change], ledger: Ledger) -> Delivered:
    """Pure part of `count`."""
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
