"""A pool of topologies: created in advance, rewound after use, dropped in the background.

Independent of what the topologies are used for, and of the callers. Everything in this module runs on one event
loop.
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

    A topology that is given back is rewound to its initial state if only rows have changed; otherwise it is
    dropped, and from then on topologies are created in advance.

    Args:
        server: where their databases are created and dropped.
        prefix: of their names, not used elsewhere: databases, roles, slots and gids carry it.
        size: how many are created in advance once one was dropped, and how many drops may be in progress.
        prepare: creates tables and the like in each topology before it is first given out.
        rewinds: False: none is ever rewound, so no checkpoint is taken, and topologies are created in advance from
            the start.
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
        """Tasks for which a caller of `take` waits."""
        self._drops: set[asyncio.Task[None]] = set()
        self._checkpoints: dict[str, Checkpoint] = {}
        self._taken: dict[str, Topology] = {}
        self._closed = False
        self.left_open: list[tuple[str, str]] = []
        """Topologies that were replaced because their user had left a transaction open, each with the error's
        message.
        """

    async def take(self) -> Topology:
        """Return a topology in its initial state, reserved for the caller until `give_back`.

        Raises:
            TwopcError: none can be created.
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
                # the caller was cancelled; the topology is created nevertheless
                self._coming.append(ready)
            raise
        finally:
            self._awaited.discard(ready)
            self._refill()

    async def give_back(self, topology: Topology, *, how: How) -> None:
        """Take a topology back. Rewinding and dropping continue in the background; ``keep`` only disconnects.

        Its sessions must be closed, and none of its transactions prepared; a topology with a transaction in
        progress is dropped.
        """
        self._taken.pop(topology.name, None)
        if how == "rewind" and not self._closed:
            self._coming.append(self._start(self._rewound(topology)))
            return
        if how == "keep":
            topology.wiring.keep()
        self._ahead = self._size
        self._drop_later(topology)
        while len(self._drops) > self._size:
            await asyncio.wait(self._drops, return_when=asyncio.FIRST_COMPLETED)
        self._refill()

    async def until_ready(self) -> None:
        """Wait until all creating, rewinding and dropping in progress is done.

        Raises:
            TwopcError: a topology could not be created in advance.
        """
        while unfinished := [task for task in self._coming if not task.done()]:
            await asyncio.shield(unfinished[0])  # cancelling the caller does not cancel the task
        while self._drops:
            await asyncio.wait(self._drops)

    async def close(self) -> None:
        """Drop all topologies, including those not given back; idempotent."""
        self._closed = True
        for topology in [*self._taken.values()]:
            self._drop_later(topology)
        self._taken.clear()
        coming = [*self._coming, *self._awaited]
        self._coming.clear()
        for task in coming:
            try:
                self._drop_later(await asyncio.shield(task))
            except Exception as error:  # whatever `prepare` raised, the others must be dropped
                _log.debug("one that was made ahead had failed", error=str(error))
        while self._drops:
            await asyncio.wait(self._drops)

    # -- in the background -------------------------------------------------------------------------

    def _start(self, work: Any) -> asyncio.Task[Topology]:
        task: asyncio.Task[Topology] = asyncio.create_task(work, name=f"pool {self._prefix}")
        task.add_done_callback(_mark_retrieved)
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

    async def _rewound(self, topology: Topology) -> Topology:
        """Return the same topology, rewound, or a new one if it cannot be rewound."""
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
            # the server may have stopped; on a running server, `sweep` finds the database by its name
            # later
            _log.warning("not dropped", topology=topology.name, error=str(error))


def _mark_retrieved(task: asyncio.Task[Topology]) -> None:
    """Mark the task's error as retrieved: a later user of the task gets it, and an unused task must not log it."""
    if not task.cancelled():
        task.exception()
