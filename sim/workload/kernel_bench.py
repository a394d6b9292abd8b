"""A load in virtual time, in processes of a model's kernel: no event loop, and one process for each client.

The coroutines of `twopc.sim.workload.load` await simpy's events here (`twopc.drivers.virtual`), so that the same
code plays a load on servers and in the model.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

import simpy

from twopc.drivers.virtual import AwaitableSteps, steps, wait
from twopc.errors import from_sqlstate
from twopc.sim.model.clients import PublisherClient, SubscriberClient
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.system import System
from twopc.sim.model.values import Cause, Label, RequestLostError, SqlError, Steps
from twopc.sim.workload.ports import LoadClient

_REST = Label(actor="load", cause=Cause.TIMER, what="a pause of the load's")


class KernelGate:
    """See `twopc.sim.workload.ports.LoadGate`."""

    def __init__(self, kernel: SimpyKernel) -> None:
        self._event = kernel.event()

    def set(self) -> None:
        """Let all waiting processes continue."""
        self._event.succeed()

    async def wait(self) -> None:
        """Wait until the gate is open."""
        if not self._event.processed:
            await AwaitableSteps(wait(self._event))


class KernelClient:
    """See `twopc.sim.workload.ports.LoadClient`; raises errors of the model as `TransactionError`."""

    def __init__(self, session: SubscriberClient | PublisherClient, node: str) -> None:
        self._session = session
        self._node = node

    @property
    def gid(self) -> str:
        """Global transaction that is open or was the last one."""
        return self._session.gid

    async def begin(self, level: str) -> None:
        """Begin a transaction."""
        await self._do(self._session.begin(level))

    async def execute(self, sql: str, params: Mapping[str, Any]) -> Any:
        """Execute one statement."""
        return await self._do(self._session.execute(sql, params))

    async def commit(self) -> None:
        """Commit at all nodes or at none."""
        await self._do(self._session.commit())

    async def rollback(self) -> None:
        """Roll back at all nodes."""
        await self._do(self._session.rollback())

    async def close(self) -> None:
        """Close the session."""
        await self._do(self._session.close())

    async def _do(self, work: Steps[Any]) -> Any:
        try:
            return await AwaitableSteps(work)
        except SqlError as error:
            raise from_sqlstate(
                error.sqlstate,
                error.message,
                detail=error.detail,
                hint=error.hint,
                node=self._node,
                gid=self.gid,
            ) from error
        except RequestLostError as error:
            raise from_sqlstate("08006", str(error), node=self._node, gid=self.gid) from error


class KernelBench:
    """See `twopc.sim.workload.ports.LoadBench`.

    Args:
        kernel: the source of virtual time.
        world: the model.
        outage: makes a node unreachable, or reachable again.
        arm: arms a fault by its id.
    """

    def __init__(
        self,
        kernel: SimpyKernel,
        world: System,
        *,
        outage: Callable[[str, bool], None],
        arm: Callable[[str], Coroutine[Any, Any, None]],
    ) -> None:
        self._kernel = kernel
        self._world = world
        self._outage = outage
        self._arm = arm
        self._running: dict[simpy.Process, str] = {}
        self._quiet = kernel.event()
        self._failure: BaseException | None = None

    def time(self) -> float:
        """Return the kernel's virtual time."""
        return self._kernel.now

    async def sleep(self, seconds: float) -> None:
        """Wait in virtual time while other processes run."""
        await AwaitableSteps(wait(self._kernel.delay(seconds, _REST)))

    def gate(self) -> KernelGate:
        """Return a new closed gate."""
        return KernelGate(self._kernel)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """Run a coroutine as a process of the kernel."""
        if self._quiet.triggered and self._failure is None:
            self._quiet = self._kernel.event()
        process = self._kernel.spawn(self._keeping_failure(work), name)
        self._running[process] = name
        assert process.callbacks is not None
        process.callbacks.append(self._done)

    def _keeping_failure(self, work: Coroutine[Any, Any, None]) -> Steps[None]:
        """Run a coroutine, and keep its failure: a failure is a defect of this program and ends the whole load."""
        try:
            yield from steps(work)
        except simpy.Interrupt:
            return  # interrupted by all_over: the patience is exhausted
        except Exception as failure:
            self._failure = self._failure or failure

    def _done(self, process: simpy.Event) -> None:
        del self._running[process]  # type: ignore[arg-type] # it is the process that was spawned
        if (not self._running or self._failure is not None) and not self._quiet.triggered:
            self._quiet.succeed()

    async def all_over(self, patience_s: Callable[[], float]) -> list[str]:
        """Wait until every process has ended, including those that are spawned meanwhile."""
        while self._running and self._failure is None and (left_s := patience_s()) > 0:
            limit = self._kernel.delay(left_s, _REST)
            await AwaitableSteps(wait(simpy.AnyOf(self._kernel.env, [self._quiet, limit])))
            self._kernel.cancel(limit)
        left = [*self._running.items()]
        for process, _ in left:
            process.interrupt()
        if self._failure is not None:
            raise self._failure
        return sorted(name for _, name in left)

    async def client(self, name: str, node: str) -> LoadClient:
        """Open a session of the model."""
        return KernelClient(self._world.session(name, node), node)

    async def sync(self, subscribers: Sequence[str]) -> None:
        """Synchronise Subscribers through the model's log reader and agents."""
        await AwaitableSteps(self._world.sync(subscribers))

    async def outage(self, node: str, *, on: bool) -> None:
        """Begin or end the model's outage of a node."""
        self._outage(node, on)

    async def pause_agent(self, subscriber: str, *, on: bool) -> None:
        """Do nothing: agents run only during `sync`, and the load leaves out paused Subscribers."""

    async def arm(self, fault: str) -> None:
        """Arm a fault of the model."""
        await self._arm(fault)
