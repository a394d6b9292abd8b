"""Seats of distribution processes, which may be killed, paused, and replaced.

Independent of what the processes do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twopc.sim.model.distribution.processes import until_killed
from twopc.sim.model.distribution.source import AgentRecord
from twopc.sim.model.values import Steps


class Seat:
    """The seat of a distribution process: the living process and its successors.

    Args:
        make: makes a new process.
        run: the work of a process that runs by itself; None if it is only driven by calls.
    """

    def __init__(self, make: Callable[[], Any], run: Callable[[Any], Steps[None]] | None) -> None:
        self._make = make
        self._run = run
        self.process: Any = None
        self._paused = False

    def living(self) -> Any:
        """Return the living process; make one if there is none."""
        if self.process is None or not self.process.alive:
            self.process = self._make()
            if self._paused:
                self.process.pause()
        return self.process

    def start(self) -> None:
        """Have the process run by itself, if it should; no effect if it is running."""
        if self.process is not None and self.process.alive and self.process.failed is None:
            return
        process = self.living()
        process.failed = None
        if self._run is not None:
            process.spawn(until_killed(self._run(process)), "run")

    def crash(self) -> None:
        """Kill the process as kill -9 does; a successor is made when needed. Idempotent."""
        if self.process is not None:
            self.process.crash()

    def pause(self) -> None:
        """Stop the process where it is; its connections stay."""
        self._paused = True
        if self.process is not None:
            self.process.pause()

    def resume(self) -> None:
        """Continue the paused process."""
        self._paused = False
        if self.process is not None:
            self.process.resume()


class AgentSeat(Seat):
    """The seat of a Subscriber's agent."""

    def __init__(
        self, make: Callable[[], Any], run: Callable[[Any], Steps[None]] | None, record: AgentRecord
    ) -> None:
        super().__init__(make, run)
        self.record = record
        """Record of the agent in the distribution database."""

    @property
    def sessions(self) -> list[tuple[str, int]]:
        """Node and pid of each of the agent's sessions at the Subscriber."""
        if self.process is None:
            return []
        return [(self.process.node.name, one.pid) for one in self.process.sessions]
