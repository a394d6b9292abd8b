"""Branch markers of transactions that are over everywhere: kept for a while, and then forgotten.

It must not know what a marker is for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

import psycopg

from twopc.drivers.runtime import Runtime
from twopc.names import branch_gid, node_of

#: So many transactions at a time.
BATCH = 2000


class MarkersPort(Protocol):
    """The branch markers of a node."""

    async def forget(self, gids: list[str]) -> None:
        """Remove them. psycopg.Error: the node does not answer."""
        ...


class MarkerRetention:
    """Those of one coordinator process.

    Args:
        publisher: the node whose markers go first.
        kept_s: how long a marker is kept once its transaction is settled everywhere.
    """

    def __init__(
        self, nodes: Mapping[str, MarkersPort], publisher: str, kept_s: float, runtime: Runtime
    ) -> None:
        self._nodes = nodes
        self._publisher = publisher
        self._kept_s = kept_s
        self._runtime = runtime
        self._over: deque[tuple[float, str, tuple[str, ...]]] = deque()

    def over(self, gid: str, branches: tuple[str, ...]) -> None:
        """This transaction is committed everywhere."""
        self._over.append((self._runtime.time(), gid, branches))

    async def forget(self) -> None:
        """Remove those that are old enough."""
        until = self._runtime.time() - self._kept_s
        while batch := self._take(until):
            gone: dict[str, list[str]] = {}
            for gid, branches in batch:
                for name in branches:
                    gone.setdefault(node_of(name), []).append(branch_gid(gid, name))
            # Those of a server that is down now are forgotten with the epoch. The Publisher is the first:
            # what it alone has a marker of was never committed elsewhere.
            with suppress(psycopg.Error):
                for name in sorted(gone, key=lambda name: name != self._publisher):
                    await self._nodes[name].forget(gone[name])

    def _take(self, until: float) -> list[tuple[str, tuple[str, ...]]]:
        """The next transactions that have been over since then."""
        taken: list[tuple[str, tuple[str, ...]]] = []
        while self._over and self._over[0][0] <= until and len(taken) < BATCH:
            _, gid, branches = self._over.popleft()
            taken.append((gid, branches))
        return taken
