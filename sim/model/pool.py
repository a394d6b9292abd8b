"""Connections that several share: as many as are needed at once, or one in turns.

A connection answers one question at a time. It must not know what is asked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import simpy

from twopc.sim.model.network import Network
from twopc.sim.model.ports import Kernel
from twopc.sim.model.values import Steps
from twopc.sim.model.wire import ServedSession, Wire

T = TypeVar("T")


class ConnectionPool:
    """Connections of one user to one place; who asks while all are busy gets a new one.

    Where somebody explores whoever asks has connections of his own: else it would depend on everybody else who asks
    which of them anybody gets.

    Args:
        actor: whose they are.
        open_: what is at the other end of a new one.
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
        """By whose they are; None: everybody's."""

    def ask(self, what: str, work: Callable[[Any], Steps[T]], touches: frozenset[str]) -> Steps[T]:
        """One question; `work` is given the other end. LostError, and what it raises."""
        kernel = self._network.kernel
        whose = None if kernel.watch is None else kernel.env.active_process
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
        """Close those that are not in use; idempotent."""
        for wires in self._idle.values():
            for wire in wires:
                wire.close()
        self._idle.clear()


class FairLock:
    """One at a time, first come first."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._taken = False
        self._queue: deque[simpy.Event] = deque()

    def take(self) -> Steps[None]:
        """Until it is ours; then `give` it."""
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
        """To the next."""
        if self._queue:
            self._queue.popleft().succeed()
        else:
            self._taken = False
