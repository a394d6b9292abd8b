"""A load on a scenario's stage, played by tasks of the running event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import psycopg

from twopc.drivers.runtime import Asyncio
from twopc.errors import DeliveryError
from twopc.sim.scenario.faults import Fault
from twopc.sim.scenario.stage import Stage
from twopc.sim.sessions.interface import SyncError
from twopc.sim.workload.ports import LoadClient


class AsyncioBench(Asyncio):
    """See `twopc.sim.workload.ports.LoadBench`."""

    def __init__(self, stage: Stage, faults: Sequence[Fault]) -> None:
        self._stage = stage
        self._faults = {fault.id: fault for fault in faults}
        self._agents = stage.agents()
        self._tasks: set[asyncio.Task[None]] = set()
        self._quiet = asyncio.Event()
        self._failure: BaseException | None = None

    def gate(self) -> asyncio.Event:
        """Return a new closed gate."""
        return asyncio.Event()

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a coroutine as a task of the event loop."""
        self._quiet.clear()
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            self._failure = self._failure or task.exception()
        if not self._tasks or self._failure is not None:
            self._quiet.set()

    async def all_over(self, patience_s: Callable[[], float]) -> list[str]:
        """Wait for every task; if one fails, which is a defect of this program, cancel the others and raise its
        error.
        """
        while not self._quiet.is_set() and (left_s := patience_s()) > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._quiet.wait(), left_s)
        left = [*self._tasks]
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        if self._failure is not None:
            raise self._failure
        return sorted(task.get_name() for task in left)

    async def client(self, name: str, node: str) -> LoadClient:
        """Open a session of the stage."""
        return await self._stage.open(name, node)

    async def sync(self, subscribers: Sequence[str]) -> None:
        """Synchronise Subscribers through the stage's agents; report an unreachable node as `DeliveryError`."""
        try:
            await self._agents.sync(subscribers)
        except (SyncError, psycopg.Error) as error:
            raise DeliveryError(str(error)) from error

    async def outage(self, node: str, *, on: bool) -> None:
        """Begin or end the stage's outage of a node."""
        await self._stage.outage(node, on=on)

    async def pause_agent(self, subscriber: str, *, on: bool) -> None:
        """Pause or resume an agent of the stage."""
        await self._stage.pause_agent(subscriber, on=on)

    async def arm(self, fault: str) -> None:
        """Arm a fault of the scenario on the stage."""
        await self._stage.arm(self._faults[fault])
