"""What lives, dies and comes back: the decision log's server, and the processes of a coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sim.model.coordinator import CoordinatorProcess
from sim.model.deadlocks import DeadlockWatch
from sim.model.words import Steps
from twopc.drivers.recovery import Settled

if TYPE_CHECKING:
    from sim.model.system import System


class LogHost:
    """The server of the decision log."""

    def __init__(self) -> None:
        self.up = True
        self.starts = 1

    def running(self) -> int | None:
        """How often it was started; None while it is down."""
        return self.starts if self.up else None


class Coordinator:
    """A coordinator by name: the process that lives now, and those that come after it."""

    def __init__(self, system: System, name: str) -> None:
        self._system = system
        self.name = name
        self._number = 0
        self.process: CoordinatorProcess = self._start()
        self.watch: DeadlockWatch

    @property
    def alive(self) -> bool:
        """A process of it lives."""
        return self.process.alive

    def crash(self) -> None:
        """kill -9. Harmless twice."""
        self.process.crash()

    def restart(self) -> None:
        """Another process of the name; the old one, if it lives, is not ended."""
        self.process = self._start()

    def pause(self) -> None:
        """SIGSTOP"""
        self.process.pause()

    def go_on(self) -> None:
        """SIGCONT"""
        self.process.go_on()

    def recover(self) -> Steps[list[Settled]]:
        """One pass of recovery. psycopg.Error: the decision log cannot be reached."""
        return (yield from self.process.recover())

    def _start(self) -> CoordinatorProcess:
        system, spec = self._system, self._system.spec
        self._number += 1
        process = CoordinatorProcess(
            system.place, self.name, self._number, points=system.points,
            in_doubt_after_s=spec.in_doubt_after_s, recovery_interval_s=spec.recovery_interval_s,
            observe=system.observe, markers_kept_s=spec.markers_kept_s,
        )  # fmt: skip
        self.watch = DeadlockWatch(
            system.kernel,
            system.nodes,
            process,
            lambda node: system.network.reaches(process.actor, node),
        )
        process.spawn(process.keep_recovering(), "recovery")
        process.spawn(self.watch.steps(), "deadlocks")
        return process
