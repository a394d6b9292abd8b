"""The sessions of a model node as `twopc.drivers.deadlock` sees them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twopc.sim.model.node.node import ModelNode
from twopc.waits import OpenTransaction


class ModelWaits:
    """See `twopc.drivers.deadlock.WaitsPort`.

    Args:
        is_reached: messages of the process that looks reach the node.
    """

    def __init__(self, node: ModelNode, is_reached: Callable[[str], bool]) -> None:
        self._node = node
        self._is_reached = is_reached

    async def sessions(self) -> Sequence[OpenTransaction]:
        """Those with an open transaction."""
        return self._node.wait_rows() if self._answers() else ()

    async def name_victim(self, victim: OpenTransaction) -> bool:
        """The session's link asks for it."""
        self._choose(victim, victim.xact_start)
        return True

    async def forget_victim(self, victim: OpenTransaction) -> None:
        """See `WaitsPort`."""
        self._choose(victim, None)

    async def cancel(self, waiter: OpenTransaction) -> bool:
        """Cancel a statement, if it still waits."""
        session = self._node.sessions.get(waiter.pid) if self._answers() else None
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

    def _answers(self) -> bool:
        return self._node.up and self._is_reached(self._node.name)
