"""Subscribers that get what is missing while a load goes on: for many clients that ask at once, only once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twopc.errors import TwopcError
from twopc.sim.workload.figures import Figures
from twopc.sim.workload.ports import LoadBench, LoadGate


class SyncQueue:
    """Syncs, one after the other; who asks during one is served by the next, with everybody else.

    Args:
        write: adds a record to the history.
    """

    def __init__(self, bench: LoadBench, figures: Figures, write: Callable[..., Any]) -> None:
        self._bench = bench
        self._figures = figures
        self._write = write
        self._requested: dict[str, None] = {}
        self._next: LoadGate = bench.gate()
        self._works = False
        self.paused: set[str] = set()
        """The Subscribers whose agents rest: they get nothing."""

    async def sync(self, *subscribers: str) -> None:
        """Return when they have got what was committed when this was called, or could not."""
        requested = [name for name in subscribers if name not in self.paused]
        if not requested:
            return
        self._requested |= dict.fromkeys(requested)
        gate = self._next
        if not self._works:
            self._works = True
            self._bench.spawn(self._work(), "sync")
        await gate.wait()

    async def _work(self) -> None:
        try:
            while self._requested:
                requested, gate = [*self._requested], self._next
                self._requested, self._next = {}, self._bench.gate()
                await self._once(requested)
                gate.open()
        finally:
            self._works = False

    async def _once(self, subscribers: list[str]) -> None:
        began_s = self._bench.time()
        report: dict[str, Any] = {"node": " ".join(subscribers), "step": "sync"}
        try:
            await self._bench.sync(subscribers)
        except TwopcError as error:
            self._figures.synced(0.0, failed=True)
            self._write("error", message=str(error), **report)
        else:
            took_s = self._bench.time() - began_s
            self._figures.synced(took_s)
            self._write("ok", data={"latency_us": round(took_s * 1e6)}, **report)
