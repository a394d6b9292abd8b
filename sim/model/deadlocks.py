"""Finds deadlocks that no single node can see, as a coordinator's process does beside its work.

The graph, its cycles and the choice of the victim are `twopc.waits`; here is what `twopc.drivers.deadlock` does to
real servers. It must not know what transactions do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sim.model.coordinator import CoordinatorProcess
from sim.model.node import ModelNode
from sim.model.ports import Kernel
from sim.model.words import Cause, Label, Steps
from twopc.names import GlobalId
from twopc.waits import Cycle, Session, Transactions, build, youngest

#: How often it looks, as a coordinator does by itself.
INTERVAL_S = 0.5


class DeadlockWatch:
    """Looks at all nodes from time to time; a cycle counts if the same waits were in it the time before."""

    def __init__(
        self, kernel: Kernel, nodes: Mapping[str, ModelNode], process: CoordinatorProcess,
        reached: Callable[[str], bool], interval_s: float = INTERVAL_S,
    ) -> None:  # fmt: skip
        """Args: `reached`: whether messages of the process reach a node."""
        self._kernel = kernel
        self._nodes = nodes
        self._process = process
        self._reached = reached
        self._interval_s = interval_s
        self._suspected: set[frozenset[tuple[str, int, float]]] = set()
        self.broken: list[tuple[str, ...]] = []
        """Cycles in words."""

    def steps(self) -> Steps[None]:
        """For as long as the process lives."""
        label = Label(
            actor=self._process.actor, cause=Cause.POLL, what="deadlocks",
            touches=frozenset(self._nodes),
        )  # fmt: skip
        before: set[int] = set()
        while True:
            yield self._kernel.delay(self._interval_s, label)
            # whoever is in a deadlock was there the last time, too
            open_ = set(self._process.active)
            if open_ & before:
                self.look()
            before = open_

    def look(self) -> None:
        """Once; breaks what was seen the time before."""
        sessions = [
            one
            for node in self._nodes.values()
            if node.up and self._reached(node.name)
            for one in node.wait_rows()
        ]
        cycles: dict[frozenset[tuple[str, int, float]], Cycle] = {
            frozenset(
                (edge.waiter.server, edge.waiter.pid, edge.waiter.wait_start) for edge in cycle
            ): cycle
            for cycle in build(sessions, self.transactions()).cycles()
        }
        confirmed = [cycle for waits, cycle in cycles.items() if waits in self._suspected]
        self._suspected = set(cycles)
        for cycle in confirmed:
            self._break(cycle, sessions)

    def transactions(self) -> Transactions:
        """Where the sessions of its open transactions are."""
        process = self._process
        return {
            GlobalId(coordinator=process.name, epoch=one.epoch, sequence=one.sequence): tuple(
                (subscriber, connection.pid) for subscriber, connection in one.connections.items()
            )
            for one in process.active.values()
            if one.connections
        }

    def _break(self, cycle: Cycle, sessions: list[Session]) -> None:
        chosen = youngest(cycle, sessions)
        if chosen is None:
            return
        victim, _ = chosen
        found = self._nodes[victim.node].sessions.get(victim.pid)
        if found is None:
            return
        words = tuple(map(str, cycle))
        self.broken.append(words)
        for one in self._process.active.values():
            connection = one.connections.get(victim.node)
            if connection is not None and connection.pid == victim.pid:
                one.cycle = words
        found.cancel()
