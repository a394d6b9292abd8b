"""Shared connections: a pool that grows with concurrent requests, and a lock for one connection.

A connection answers one request at a time. This module does not know the content of requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import simpy

from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.network import Network
from twopc.sim.model.values import Steps
from twopc.sim.model.wire import ServedSession, Wire

T = TypeVar("T")


class ConnectionPool:
    """Connections of one client to one place; a request while all are busy opens a new one.

    During a search each caller has connections of its own: with shared ones, the connection that a caller gets
    would depend on all other callers.

    Args:
        actor: the client of the connections.
        open_: opens the session at the other end of a new connection.
    """

    def __init__(
        self,
        network: Network,
        here: str,
        there: str,
        actor: str,
        open_: Callable[[], ServedSession],
    ) -> None:
        self._network = network
        self._here = here
        self._there = there
        self._actor = actor
        self._open = open_
        self._idle: dict[object, list[Wire]] = {}
        """Idle connections by caller; None if they are shared."""

    def ask(self, what: str, work: Callable[[Any], Steps[T]], touches: frozenset[str]) -> Steps[T]:
        """Send one request; `work` is called with the other end. Raise RequestLostError, and the errors of `work`."""
        kernel = self._network.kernel
        whose = None if kernel.record_access is None else kernel.env.active_process
        idle = self._idle.setdefault(whose, [])
        while idle and idle[-1].lost:
            idle.pop()
        if idle:
            wire = idle.pop()
        else:
            actor = self._actor if whose is None else f"{self._actor} #{kernel.stretch % 1000}"
            wire = yield from self._network.connect(self._here, self._there, actor, self._open)
        try:
            return (yield from wire.ask(lambda: work(wire.served), what, touches))
        finally:
            if not wire.lost:
                idle.append(wire)

    def close(self) -> None:
        """Close the idle connections; idempotent."""
        for wires in self._idle.values():
            for wire in wires:
                wire.close()
        self._idle.clear()


class FairLock:
    """A mutex, first come first.

    Args:
        notify: called when the lock is requested or released, to notify the search.
    """

    def __init__(self, kernel: SimpyKernel, notify: Callable[[], None]) -> None:
        self._kernel = kernel
        self._notify = notify
        self._taken = False
        self._queue: deque[simpy.Event] = deque()

    def take(self) -> Steps[None]:
        """Wait for the lock; `give` releases it."""
        self._notify()
        if not self._taken:
            self._taken = True
            return
        event = self._kernel.event()
        self._queue.append(event)
        try:
            yield event
        except BaseException:
            if event.triggered:
                self.give()
            else:
                self._queue.remove(event)
            raise

    def give(self) -> None:
        """Release the lock, to the next waiter if there is one."""
        self._notify()
        if self._queue:
            self._queue.popleft().succeed()
        else:
            self._taken = False
