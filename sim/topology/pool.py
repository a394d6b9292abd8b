"""Topologies kept ready: made ahead, rewound after use, dropped behind everybody's back.

It must not know what they are used for, nor who asks. Everything here runs on one event loop.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Literal

from twopc.errors import ConfigurationError
from twopc.log import get_logger
from twopc.sim.topology.checkpoint import (
    Checkpoint,
    OpenTransactionError,
    RewindError,
    checkpoint,
    rewind,
)
from twopc.sim.topology.nodes import AnyServer
from twopc.sim.topology.topology import Topology

_log = get_logger(__name__)

Prepare = Callable[[Topology], Awaitable[None]]
How = Literal["drop", "rewind", "keep"]


class TopologyPool:
    """Gives out topologies that are alike.

    One that comes back is put back to what it was when it was new, as long as only rows have changed; else it
    is dropped, and from then on another is made ahead.

    Args:
        server: where their databases are made and dropped.
        prefix: of their names, which nobody else uses: databases, roles, slots and gids carry it.
        size: how many are made ahead as soon as one was dropped, and how many drops may be under way.
        prepare: makes tables and the like in each of them, before anybody gets it.
        rewinds: False: none is ever rewound, so nothing is kept for it, and one is made ahead from the start.
        options: of `Topology`.
    """

    def __init__(
        self,
        server: AnyServer,
        *,
        prefix: str,
        size: int = 2,
        prepare: Prepare | None = None,
        rewinds: bool = True,
        **options: Any,
    ) -> None:
        self._server = server
        self._prefix = prefix
        self._size = size
        self._prepare = prepare
        self._rewinds = rewinds
        self._options = options
        self._numbers = itertools.count(1)
        self._ahead = 0 if rewinds else size
        self._coming: deque[asyncio.Task[Topology]] = deque()
        self._awaited: set[asyncio.Task[Topology]] = set()
        """Those that somebody who takes one waits for."""
        self._drops: set[asyncio.Task[None]] = set()
        self._checkpoints: dict[str, Checkpoint] = {}
        self._taken: dict[str, Topology] = {}
        self._closed = False
        self.left_open: list[tuple[str, str]] = []
        """The topologies that were made anew since their user had left a transaction open, and which that was."""

    async def take(self) -> Topology:
        """One that is as new; nobody else has it until it is given back.

        Raises:
            TwopcError: none can be made.
        """
        ready = next((task for task in self._coming if task.done()), None)
        if ready is not None:
            self._coming.remove(ready)
        else:
            ready = self._coming.popleft() if self._coming else self._start(self._make())
        self._awaited.add(ready)
        try:
            topology = await asyncio.shield(ready)
            if self._closed:
                raise ConfigurationError(
                    f"the pool {self._prefix!r} was closed while one of its topologies was awaited"
                )
            self._taken[topology.name] = topology
            return topology
        except asyncio.CancelledError:
            if not ready.cancelled() and not self._closed:
                self._coming.append(ready)  # somebody gave up waiting; it comes all the same
            raise
        finally:
            self._awaited.discard(ready)
            self._refill()

    async def give_back(self, topology: Topology, *, how: How) -> None:
        """Take one back. Rewinding and dropping go on behind the caller's back; ``keep`` only disconnects.

        Its sessions must be closed and nothing of it prepared; what is under way all the same makes it be
        dropped.
        """
        self._taken.pop(topology.name, None)
        if how == "rewind" and not self._closed:
            self._coming.append(self._start(self._renewed(topology)))
            return
        if how == "keep":
            topology.wiring.keep()
        self._ahead = self._size
        self._drop_later(topology)
        while len(self._drops) > self._size:
            await asyncio.wait(self._drops, return_when=asyncio.FIRST_COMPLETED)
        self._refill()

    async def until_ready(self) -> None:
        """Wait until everything that is being made, rewound or dropped is.

        Raises:
            TwopcError: one that is made ahead has failed.
        """
        while unfinished := [task for task in self._coming if not task.done()]:
            await asyncio.shield(unfinished[0])  # whoever waits no longer does not stop it
        while self._drops:
            await asyncio.wait(self._drops)

    async def close(self) -> None:
        """Drop everything, also what was not given back; idempotent."""
        self._closed = True
        for topology in [*self._taken.values()]:
            self._drop_later(topology)
        self._taken.clear()
        coming = [*self._coming, *self._awaited]
        self._coming.clear()
        for task in coming:
            try:
                self._drop_later(await asyncio.shield(task))
            except (
                Exception
            ) as error:  # whatever `prepare` raised: the others are dropped all the same
                _log.debug("one that was made ahead had failed", error=str(error))
        while self._drops:
            await asyncio.wait(self._drops)

    # -- behind the back ---------------------------------------------------------------------------

    def _start(self, work: Any) -> asyncio.Task[Topology]:
        task: asyncio.Task[Topology] = asyncio.create_task(work, name=f"pool {self._prefix}")
        task.add_done_callback(_seen)
        return task

    def _refill(self) -> None:
        while not self._closed and len(self._coming) < self._ahead:
            self._coming.append(self._start(self._make()))

    async def _make(self) -> Topology:
        topology = Topology(
            name=f"{self._prefix}_{next(self._numbers)}", server=self._server, **self._options
        )
        await topology.__aenter__()
        try:
            if self._prepare is not None:
                await self._prepare(topology)
            if self._rewinds:
                await self._keep(topology)
        except BaseException:
            await topology.close()
            raise
        return topology

    async def _keep(self, topology: Topology) -> None:
        try:
            self._checkpoints[topology.name] = await checkpoint(topology)
        except RewindError as error:
            _log.debug("it cannot be rewound", topology=topology.name, error=str(error))

    async def _renewed(self, topology: Topology) -> Topology:
        """The same one, rewound; another if that cannot be."""
        kept = self._checkpoints.get(topology.name)
        try:
            if kept is not None:
                await topology.stop_agents()
                await rewind(topology, kept)
                return topology
        except Exception as error:
            _log.debug("made anew instead of rewound", topology=topology.name, error=str(error))
            if isinstance(error, OpenTransactionError):
                self.left_open.append((topology.name, str(error)))
        self._ahead = self._size
        self._drop_later(topology)
        return await self._make()

    def _drop_later(self, topology: Topology) -> None:
        self._checkpoints.pop(topology.name, None)
        task = asyncio.create_task(self._drop(topology), name=f"drop {topology.name}")
        self._drops.add(task)
        task.add_done_callback(self._drops.discard)

    async def _drop(self, topology: Topology) -> None:
        try:
            await topology.close()
        except Exception as error:
            # the server may be gone; what is left on one that runs is found by its name later
            _log.warning("not dropped", topology=topology.name, error=str(error))


def _seen(task: asyncio.Task[Topology]) -> None:
    """Mark its error as retrieved: a later user of the task gets it, and an unused task must not log it."""
    if not task.cancelled():
        task.exception()
