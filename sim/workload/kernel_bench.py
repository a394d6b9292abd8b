"""A load in virtual time, in plain processes of a model's kernel: no event loop, and a process for each client.

What `twopc.sim.workload.load` awaits here are simpy's events (`twopc.drivers.virtual`), so that it is the same text that
works on servers.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Protocol

import simpy

from twopc.drivers.virtual import AwaitableSteps, steps, wait
from twopc.errors import TransactionError, from_sqlstate
from twopc.sim.model.ports import Kernel
from twopc.sim.model.values import Cause, Label, RequestLostError, SqlError, Steps
from twopc.sim.workload.ports import LoadClient

_REST = Label(actor="load", cause=Cause.TIMER, what="a pause of the load's")


class ModelClientLike(Protocol):
    """A client of a model: see `twopc.sim.model.clients`."""

    @property
    def gid(self) -> str: ...
    def begin(self, level: Any) -> Steps[None]: ...
    def execute(self, text: str, params: Mapping[str, Any]) -> Steps[Any]: ...
    def commit(self) -> Steps[None]: ...
    def rollback(self) -> Steps[None]: ...
    def close(self) -> Steps[None]: ...


class LoadModel(Protocol):
    """A model: clients, and who brings its nodes what is missing."""

    def session(self, name: str, node: str) -> ModelClientLike: ...
    def sync(self, subscribers: Sequence[str]) -> Steps[Any]: ...


class KernelGate:
    """See `twopc.sim.workload.ports.LoadGate`."""

    def __init__(self, kernel: Kernel) -> None:
        self._event = kernel.event()

    def open(self) -> None:
        """Let everybody through."""
        self._event.succeed()

    async def wait(self) -> None:
        """Until it is open."""
        if not self._event.processed:
            await AwaitableSteps(wait(self._event))


class KernelClient:
    """See `twopc.sim.workload.ports.LoadClient`; errors of the model come as our own."""

    def __init__(self, session: ModelClientLike, node: str) -> None:
        self._session = session
        self._node = node

    @property
    def gid(self) -> str:
        """Of the transaction that is open or was last."""
        return self._session.gid

    async def begin(self, level: str) -> None:
        """Begin a transaction."""
        await self._do(self._session.begin(level))

    async def execute(self, sql: str, params: Mapping[str, Any]) -> Any:
        """One statement."""
        return await self._do(self._session.execute(sql, params))

    async def commit(self) -> None:
        """Commit everywhere or nowhere."""
        await self._do(self._session.commit())

    async def rollback(self) -> None:
        """Roll back everywhere."""
        await self._do(self._session.rollback())

    async def close(self) -> None:
        """Leave."""
        await self._do(self._session.close())

    async def _do(self, work: Steps[Any]) -> Any:
        try:
            return await AwaitableSteps(work)
        except SqlError as error:
            raise self._error(error) from error
        except RequestLostError as error:
            raise from_sqlstate("08006", str(error), node=self._node, gid=self.gid) from error

    def _error(self, error: SqlError) -> TransactionError:
        return from_sqlstate(
            error.sqlstate, error.message, detail=error.detail, hint=error.hint, node=self._node,
            gid=self.gid,
        )  # fmt: skip


class KernelBench:
    """See `twopc.sim.workload.ports.LoadBench`.

    Args:
        kernel: whose time it is.
        world: the model.
        outage: lets nobody reach a node, or everybody again.
        arm: has a fault happen at its point.
    """

    def __init__(
        self,
        kernel: Kernel,
        world: LoadModel,
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
        """The kernel's."""
        return self._kernel.now

    async def sleep(self, seconds: float) -> None:
        """Let others go on."""
        await AwaitableSteps(wait(self._kernel.delay(seconds, _REST)))

    def gate(self) -> KernelGate:
        """A new one, shut."""
        return KernelGate(self._kernel)

    def spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        """As a process."""
        if self._quiet.triggered and self._failure is None:
            self._quiet = self._kernel.event()
        process = self._kernel.spawn(self._noted(work), name)
        self._running[process] = name
        assert process.callbacks is not None
        process.callbacks.append(self._done)

    def _noted(self, work: Coroutine[Any, Any, None]) -> Steps[None]:
        """A failure is a fault of ours: it ends everything, and not only the process that it happened in."""
        try:
            yield from steps(work)
        except simpy.Interrupt:
            return  # it took too long
        except Exception as failure:
            self._failure = self._failure or failure

    def _done(self, process: simpy.Event) -> None:
        del self._running[process]  # type: ignore[arg-type] # it is the process that was spawned
        if (not self._running or self._failure is not None) and not self._quiet.triggered:
            self._quiet.succeed()

    async def all_over(self, patience_s: Callable[[], float]) -> list[str]:
        """Wait until every process is over, and for new ones that they have begun."""
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
        """A session of the model."""
        return KernelClient(self._world.session(name, node), node)

    async def sync(self, subscribers: Sequence[str]) -> None:
        """By the model's log reader and agents."""
        await AwaitableSteps(self._world.sync(subscribers))

    async def outage(self, node: str, *, on: bool) -> None:
        """As the model does it."""
        self._outage(node, on)

    async def pause_agent(self, subscriber: str, *, on: bool) -> None:
        """Agents work when somebody syncs, and whoever plays leaves this one out."""

    async def arm(self, fault: str) -> None:
        """As the model does it."""
        await self._arm(fault)
