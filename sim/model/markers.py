"""Branch markers of transactions that are over everywhere: forgotten after a while, as `twopc.drivers.keeper` does.

It must not know what a marker is for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from contextlib import suppress

import psycopg

from twopc.drivers.virtual import steps
from twopc.names import branch_gid, node_of
from twopc.sim.model.ports import Kernel
from twopc.sim.model.sites import ModelSite
from twopc.sim.model.words import Steps

#: How many at a time, at each node.
BATCH = 1000


class Markers:
    """Those of one coordinator's process.

    Args:
        kept_s: for how long they are kept once their transaction is settled everywhere.
    """

    def __init__(self, kernel: Kernel, sites: Mapping[str, ModelSite], kept_s: float) -> None:
        self._kernel = kernel
        self._sites = sites
        self._kept_s = kept_s
        self._over: deque[tuple[float, str, tuple[str, ...]]] = deque()

    def over(self, gid: str, branches: tuple[str, ...]) -> None:
        """This transaction is committed everywhere."""
        self._over.append((self._kernel.now, gid, branches))

    def forget(self) -> Steps[None]:
        """Those that are old enough. Those of a node that is down now are forgotten with the epoch."""
        until = self._kernel.now - self._kept_s
        while self._over and self._over[0][0] <= until:
            gone: dict[str, list[str]] = {}
            for _ in range(BATCH):
                if not self._over or self._over[0][0] > until:
                    break
                _, gid, branches = self._over.popleft()
                for name in branches:
                    gone.setdefault(node_of(name), []).append(branch_gid(gid, name))
            for name, gids in gone.items():
                with suppress(psycopg.Error):
                    yield from steps(self._sites[name].forget(gids))
