"""Branch markers of transactions that are settled at every node: kept for a while, and then forgotten.

This module must not depend on the purpose of a marker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Protocol

import psycopg

from twopc.drivers.runtime import Runtime
from twopc.names import branch_gid, node_of

#: Maximum number of transactions in one step.
BATCH = 2000
#: A transaction's gid, and its branches.
_Settled = tuple[str, tuple[str, ...]]


class MarkersPort(Protocol):
    """Interface to the branch markers of a node."""

    async def release(self, gids: Sequence[str]) -> None:
        """At a Subscriber: record that the Publisher's markers of the same transactions may be removed. Raise
        psycopg.Error if the node does not answer.
        """
        ...

    async def forget(self, gids: list[str]) -> None:
        """Remove the markers; raise psycopg.Error if the node does not answer."""
        ...


class MarkerRetention:
    """Retention of the branch markers of one coordinator process.

    Args:
        publisher: the node whose markers are removed first.
        kept_s: time for which a marker is kept once its transaction is settled at every node.
    """

    def __init__(
        self, nodes: Mapping[str, MarkersPort], publisher: str, kept_s: float, runtime: Runtime
    ) -> None:
        self._nodes = nodes
        self._publisher = publisher
        self._kept_s = kept_s
        self._runtime = runtime
        self._settled: deque[tuple[float, str, tuple[str, ...]]] = deque()

    def over(self, gid: str, branches: tuple[str, ...]) -> None:
        """Record that a transaction is committed at every node."""
        self._settled.append((self._runtime.time(), gid, branches))

    async def forget(self) -> None:
        """Remove the markers that are old enough."""
        until = self._runtime.time() - self._kept_s
        while batch := self._take(until):
            # Markers of a server that is down are forgotten with the epoch. The Publisher is the first: a branch
            # of which it alone has a marker would appear not to have been committed elsewhere; and before it a
            # Subscriber records that a missing marker there is none of a branch that was rolled back.
            with suppress(psycopg.Error):
                gone = _by_node(await self._released(batch))
                for name in sorted(gone, key=lambda name: name != self._publisher):
                    await self._nodes[name].forget(gone[name])

    async def _released(self, batch: Sequence[_Settled]) -> list[_Settled]:
        """Release the transactions, and return those that all their Subscribers have released."""
        down: set[str] = set()
        gids = _by_node(batch)
        for name in sorted(gids.keys() - {self._publisher}):
            try:
                await self._nodes[name].release(gids[name])
            except psycopg.Error:
                down.add(name)
        return [each for each in batch if down.isdisjoint(map(node_of, each[1]))]

    def _take(self, until: float) -> list[_Settled]:
        """Return the next transactions that were settled before the given time."""
        taken: list[_Settled] = []
        while self._settled and self._settled[0][0] <= until and len(taken) < BATCH:
            _, gid, branches = self._settled.popleft()
            taken.append((gid, branches))
        return taken


def _by_node(transactions: Sequence[_Settled]) -> dict[str, list[str]]:
    """Return the gids of the transactions' branches at each node."""
    results: dict[str, list[str]] = {}
    for gid, branches in transactions:
        for name in branches:
            results.setdefault(node_of(name), []).append(branch_gid(gid, name))
    return results
