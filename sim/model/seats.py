"""Seats, which outlive their processes: that of the decision log's server, and those of coordinators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from twopc.drivers.deadlock import DeadlockDetector
from twopc.drivers.recovery import SettledBranch
from twopc.drivers.virtual import VirtualTime, steps
from twopc.sim.model.coordinator import CoordinatorProcess
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.values import Cause, Label, Steps
from twopc.waits import OpenTransaction

if TYPE_CHECKING:
    from twopc.sim.model.system import System

#: Seconds between a coordinator's checks for deadlocks.
_DEADLOCK_INTERVAL_S = 0.5


class LogHost:
    """The server of the decision log."""

    def __init__(self) -> None:
        self.up = True
        self.starts = 1

    def running(self) -> int | None:
        """Return how often the server was started; None while it is down."""
        return self.starts if self.up else None


class CoordinatorSeat:
    """A coordinator by name: its present process, and the processes that replace it."""

    def __init__(self, system: System, name: str) -> None:
        self._system = system
        self.name = name
        self._number = 0
        self.process: CoordinatorProcess = self._start()

    @property
    def alive(self) -> bool:
        """Whether the present process is alive."""
        return self.process.alive

    def crash(self) -> None:
        """Kill the process (kill -9). Idempotent."""
        self.process.crash()

    def restart(self) -> None:
        """Start another process with the name; an old one that is alive is not ended."""
        self.process = self._start()

    def pause(self) -> None:
        """Stop the process (SIGSTOP)."""
        self.process.pause()

    def go_on(self) -> None:
        """Continue the process (SIGCONT)."""
        self.process.go_on()

    def recover(self) -> Steps[list[SettledBranch]]:
        """Run one pass of recovery. Raise psycopg.Error if the decision log cannot be reached."""
        return (yield from self.process.recover())

    def _start(self) -> CoordinatorProcess:
        system, spec = self._system, self._system.spec
        self._number += 1
        process = CoordinatorProcess(
            system.place, self.name, self._number, points=system.points,
            in_doubt_after_s=spec.in_doubt_after_s, recovery_interval_s=spec.recovery_interval_s,
            observe=system.observe, markers_kept_s=spec.markers_kept_s,
        )  # fmt: skip
        process.recovery.observe = system.settled.append
        process.spawn(process.keep_recovering(), "recovery")
        process.spawn(self._break_deadlocks(process), "deadlocks")
        return process

    def _break_deadlocks(self, process: CoordinatorProcess) -> Steps[None]:
        # created when the process first runs: a model may be built and never run
        yield from steps(self._detector(process).watch(_DEADLOCK_INTERVAL_S, lambda: True))

    def _detector(self, process: CoordinatorProcess) -> DeadlockDetector:
        kernel, nodes, network = self._system.kernel, self._system.nodes, self._system.network
        label = Label(
            actor=process.actor, cause=Cause.POLL, what="deadlocks", touches=frozenset(nodes)
        )

        def is_reached(node: str) -> bool:
            return network.reaches(process.actor, node)

        return DeadlockDetector(
            {name: ModelWaits(node, is_reached) for name, node in nodes.items()},
            VirtualTime(lambda: kernel.now, lambda seconds: kernel.delay(seconds, label)),
            process.engine.transactions,
            process.engine.choose,
        )


class ModelWaits:
    """See `twopc.drivers.deadlock.WaitsPort`.

    Args:
        is_reached: whether messages of the coordinator's process reach the node.
    """

    def __init__(self, node: ModelNode, is_reached: Callable[[str], bool]) -> None:
        self._node = node
        self._is_reached = is_reached

    async def sessions(self) -> Sequence[OpenTransaction]:
        """Return the sessions with an open transaction."""
        return self._node.wait_rows() if self._is_reachable() else ()

    async def name_victim(self, victim: OpenTransaction) -> bool:
        """Name a session as victim, which its link reads."""
        self._choose(victim, victim.xact_start)
        return True

    async def forget_victim(self, victim: OpenTransaction) -> None:
        self._choose(victim, None)

    async def cancel(self, waiter: OpenTransaction) -> bool:
        """Cancel a statement if it still waits; whether it was cancelled."""
        session = self._node.sessions.get(waiter.pid) if self._is_reachable() else None
        if session is None or session.tx is None or session.wait is None:
            return False
        if (session.born, session.tx.top.began) != (waiter.backend_start, waiter.xact_start):
            return False
        session.cancel()
        return True

    def _choose(self, victim: OpenTransaction, xact_start: float | None) -> None:
        session = self._node.sessions.get(victim.pid)
        if session is not None:
            session.victim = xact_start

    def _is_reachable(self) -> bool:
        return self._node.up and self._is_reached(self._node.name)
