"""Where processes of distribution sit: they may be killed, halted, and followed by others.

It must not know what they do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twopc.sim.model.distribution.processes import until_killed
from twopc.sim.model.distribution.source import AgentRecord
from twopc.sim.model.values import Steps


class Seat:
    """Where a process of distribution sits: the one that lives now, and those that come after it.

    Args:
        make: a new process.
        run: what one that runs by itself does; None: it is only driven.
    """

    def __init__(self, make: Callable[[], Any], run: Callable[[Any], Steps[None]] | None) -> None:
        self._make = make
        self._run = run
        self.process: Any = None
        self._paused = False

    def living(self) -> Any:
        """The process that lives; one is made if there is none."""
        if self.process is None or not self.process.alive:
            self.process = self._make()
            if self._paused:
                self.process.pause()
        return self.process

    def start(self) -> None:
        """Have it run by itself, if it is to; harmless if it does."""
        if self.process is not None and self.process.alive and self.process.failed is None:
            return
        process = self.living()
        process.failed = None
        if self._run is not None:
            process.spawn(until_killed(self._run(process)), "run")

    def crash(self) -> None:
        """kill -9. Idempotent; another process takes its place when one is needed."""
        if self.process is not None:
            self.process.crash()

    def pause(self) -> None:
        """It stops where it is, and its connections stay."""
        self._paused = True
        if self.process is not None:
            self.process.pause()

    def resume(self) -> None:
        """It goes on."""
        self._paused = False
        if self.process is not None:
            self.process.resume()


class AgentSeat(Seat):
    """A Subscriber's agent."""

    def __init__(
        self, make: Callable[[], Any], run: Callable[[Any], Steps[None]] | None, record: AgentRecord
    ) -> None:
        super().__init__(make, run)
        self.record = record
        """What the distribution database knows of it."""

    @property
    def sessions(self) -> list[tuple[str, int]]:
        """Node and process of its sessions at the Subscriber."""
        if self.process is None:
            return []
        return [(self.process.node.name, one.pid) for one in self.process.sessions]
