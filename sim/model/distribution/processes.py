"""A process of distribution: its connections, its protocol points, and the effects of its death.

Independent of what is distributed.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any, TypeVar

import psycopg
import simpy

from twopc.drivers.lean import ServerReport
from twopc.drivers.points import Points
from twopc.drivers.virtual import AwaitableSteps, steps
from twopc.sim.model.errors import raised
from twopc.sim.model.network import Network
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.values import Cause, Label, RequestLostError, SqlError, Steps
from twopc.sim.model.wire import KILLED, Wire
from twopc.subscriber.distribution_agent import ports

T = TypeVar("T")


class KilledError(RequestLostError):
    """The process was killed while another process waited for its result."""


class Connection:
    """A connection of a process to one node."""

    def __init__(self, process: Process, wire: Wire) -> None:
        session = wire.served
        assert isinstance(session, NodeSession)
        self._process = process
        self.session = session
        self.wire = wire
        self._touches = frozenset((wire.there,))

    def ask(self, work: Callable[[NodeSession], Steps[T]], what: str) -> Steps[T]:
        """Run work in the session, and return its result. SqlError, LostError"""
        session, process = self.session, self._process
        yield from process.network.awake(process.actor)

        def done() -> Steps[T]:
            session.node.notify_rows_written()  # work reads more than rows, without SQL
            for what in ("branches", "log"):
                session.node.notify_access(what, changed=True)
            return (yield from work(session))

        return (yield from self.wire.ask(done, what, self._touches))

    async def asked(self, work: Callable[[NodeSession], Steps[T]], what: str) -> T:
        """See `ask`; for a coroutine. psycopg.Error"""
        with raised():
            return await AwaitableSteps(self.ask(work, what))

    def run(self, text: str) -> Steps[Any]:
        """Execute one statement."""
        return (yield from self.ask(lambda one: one.execute(text), text))

    @property
    def lost(self) -> bool:
        """Whether the connection is lost or its session has ended."""
        return bool(self.wire.lost) or self.session.dead is not None

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self.wire.close()


class Process:
    """A process that can be killed, paused, and replaced by a new one.

    Args:
        actor: its name, and the name of its host in the network.
        points: protocol points at which armed faults strike, as in the product's own process.
    """

    def __init__(self, network: Network, actor: str, points: Points) -> None:
        self.network = network
        self.kernel = network.kernel
        self.actor = actor
        self.points = points
        self.alive = True
        self._running: dict[simpy.Process, None] = {}

    def connect(self, node: ModelNode, role: str, name: str) -> Steps[Connection]:
        """Connect to a node. LostError, SqlError

        Args:
            name: its `application_name`.
        """
        yield from self.network.awake(self.actor)
        wire = yield from self.network.connect(
            self.actor, node.name, self.actor, lambda: node.connect(role, name)
        )
        return Connection(self, wire)

    async def connected(self, node: ModelNode, role: str, name: str) -> Connection:
        """See `connect`; for a coroutine. psycopg.Error"""
        with raised():
            return await AwaitableSteps(self.connect(node, role, name))

    def spawn(self, work: Steps[Any], what: str) -> simpy.Process:
        """Run work as part of this process, which ends with it."""
        process = self.kernel.spawn(work, f"{self.actor}: {what}")
        self._running[process] = None
        assert process.callbacks is not None
        process.callbacks.append(lambda _: self._running.pop(process, None))
        return process

    def have(self, work: Steps[T], what: str) -> Steps[T]:
        """Wait, from another process, for work of this process. KilledError if it died meanwhile."""
        process = self.spawn(outcome(work), what)
        error, value = yield process
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return] # what `work` returns

    async def perform(self, work: Steps[T]) -> T:
        """Run work as this process for an agent, with the agent's exceptions.

        Raises:
            LostError, RefusedError: see `twopc.subscriber.distribution_agent.ports`.
        """
        self.check_alive()
        try:
            return await AwaitableSteps(work)
        except RequestLostError as error:
            raise ports.LostError(str(error)) from error
        except SqlError as error:
            raise ports.RefusedError(report_of(error)) from error

    def check_alive(self) -> None:
        """Stop the remaining code of a killed process. simpy.Interrupt"""
        if not self.alive:
            raise simpy.Interrupt(KILLED)

    def reach(self, point: str) -> Steps[None]:
        """Reach a protocol point; errors raised there are reported like a server's. SqlError, LostError"""
        if not self.points.armed:
            return
        try:
            yield from steps(self.points.reach(point))
        except psycopg.Error as error:
            if error.sqlstate is None:
                raise RequestLostError(str(error)) from error
            raise SqlError(error.sqlstate, str(error)) from error

    def sleep(self, seconds: float, what: str) -> simpy.Event:
        """Return an event that occurs after some time, while other processes run."""
        return self.kernel.delay(seconds, Label(actor=self.actor, cause=Cause.POLL, what=what))

    def crash(self) -> None:
        """Kill the process as kill -9 does: its work stops, and its connections break. Idempotent."""
        self.alive = False
        for process in [*self._running]:
            if process.is_alive:
                process.interrupt(KILLED)
        self._running.clear()
        self.network.client_lost(self.actor)

    def pause(self) -> None:
        """Stop the process where it is; its connections stay."""
        self.network.pause(self.actor)

    def resume(self) -> None:
        """Continue a paused process."""
        self.network.go_on(self.actor)


def outcome(work: Steps[T]) -> Generator[simpy.Event, Any, tuple[Exception | None, T | None]]:
    """Return the result or the error as a value: a failing process would stop the simulation."""
    try:
        return None, (yield from work)
    except simpy.Interrupt as interrupt:
        return KilledError(str(interrupt.cause)), None
    except Exception as error:
        return error, None


def until_killed(work: Steps[None]) -> Steps[None]:
    """Run work until it ends or is killed."""
    with suppress(simpy.Interrupt):
        yield from work


def at_once(value: T) -> Steps[T]:
    """Return a value as work that takes no time."""
    return value
    yield  # makes this function a generator


def report_of(error: SqlError) -> ServerReport:
    """Return an error of the model's servers as the product reads it."""
    return ServerReport(
        message=error.message, sqlstate=error.sqlstate, detail=error.detail, hint=error.hint
    )
