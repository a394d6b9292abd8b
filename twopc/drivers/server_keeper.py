"""Background work of a coordinator on servers: recovery and forgetting, closing silent connections, breaking
deadlocks.

`twopc.drivers.keeper` decides what is recovered and forgotten, and when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from twopc.drivers.database import Database
from twopc.drivers.deadlock import DeadlockDetector, ServerWaits
from twopc.drivers.decision_log import DecisionLog
from twopc.drivers.engine import CoordinatorEngine
from twopc.drivers.keeper import Keeper
from twopc.drivers.lean import Lean
from twopc.drivers.marker_retention import MarkerRetention
from twopc.drivers.participant import ParticipantAddress, ServerParticipant
from twopc.drivers.points import Points
from twopc.drivers.recorded_decisions import DecisionReader
from twopc.drivers.recovery import Recovery
from twopc.drivers.runtime import Asyncio
from twopc.log import get_logger

_log = get_logger(__name__)

_CANCEL_AGAIN_S = 0.2


class Alarm:
    """See `twopc.drivers.keeper.AlarmPort`."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """See `AlarmPort`."""
        self._rung.set()

    async def wait(self, seconds: float) -> None:
        """See `AlarmPort`."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._rung.wait(), seconds)
        self._rung.clear()


class ServerKeeper(Keeper):
    """Background work of one coordinator process, in tasks."""

    def __init__(
        self,
        coordinator: str,
        *,
        distribution: str,
        publisher: str,
        addresses: Sequence[ParticipantAddress],
        log: DecisionLog,
        points: Points,
        busy: set[Lean],
        engine: CoordinatorEngine,
        recovery: type[Recovery],
        recovery_interval_s: float,
        deadlock_interval_s: float,
        answer_timeout_s: float,
        markers_kept_s: float,
    ) -> None:
        """Create the parts; `busy` contains the connections from which an answer is awaited."""
        self._busy = busy
        self._deadlock_interval_s = deadlock_interval_s
        self._answer_timeout_s = answer_timeout_s
        # Separate connections, so that a branch for which recovery waits blocks no other work.
        participants = {
            one.name: ServerParticipant(one, coordinator, answer_timeout_s=answer_timeout_s)
            for one in addresses
        }
        self._wait_databases = [
            Database(
                one.name,
                one.dsn,
                f"twopc deadlocks {coordinator}",
                answer_timeout_s=answer_timeout_s,
            )
            for one in addresses
        ]
        self.recovery = recovery(
            coordinator,
            publisher=publisher,
            participants=participants,
            decisions=DecisionReader(
                Database(
                    "distribution",
                    distribution,
                    f"twopc recovery {coordinator}",
                    answer_timeout_s=answer_timeout_s,
                )
            ),
            points=points,
        )
        self.detector = DeadlockDetector(
            {one.node: ServerWaits(one) for one in self._wait_databases},
            Asyncio(),
            engine.transactions,
            engine.choose,
        )
        super().__init__(
            coordinator,
            log=log,
            recovery=self.recovery,
            markers=MarkerRetention(participants, publisher, markers_kept_s, Asyncio()),
            engine=engine,
            alarm=Alarm(),
            interval_s=recovery_interval_s,
        )
        self._is_closing = False
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Run one pass of recovery, then start the tasks.

        Raises:
            psycopg.Error: the distribution database cannot be reached.
        """
        await self.recover()
        self._tasks = [
            asyncio.create_task(self.watch(self._goes_on), name="twopc recovery"),
            asyncio.create_task(
                self.detector.watch(self._deadlock_interval_s, self._goes_on),
                name="twopc deadlocks",
            ),
            asyncio.create_task(self._watch_answers(), name="twopc answers"),
        ]

    async def close(self) -> None:
        """Stop the tasks; idempotent."""
        self._is_closing = True
        tasks, self._tasks = self._tasks, []
        pending = set(tasks)
        while pending:
            # Cancelled repeatedly: psycopg swallows a cancellation if the query that it interrupts succeeds
            # nevertheless, as after an interrupted wait for a synchronous standby.
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=_CANCEL_AGAIN_S)
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.recovery.close()
        for database in self._wait_databases:
            await database.close()

    async def attempt(self) -> None:
        """See `Keeper`; a programming error must not end the watch."""
        try:
            await super().attempt()
        except Exception:
            _log.exception("recovery failed", coordinator=self._coordinator)

    def _goes_on(self) -> bool:
        return not self._is_closing

    async def _watch_answers(self) -> None:
        """Close connections whose answer is overdue; their users then determine the outcome."""
        while not self._is_closing:
            await asyncio.sleep(self._answer_timeout_s / 4)
            since = asyncio.get_running_loop().time() - self._answer_timeout_s
            for lean in [*self._busy]:
                if lean.sent_at < since:
                    lean.abort(f"no answer within {self._answer_timeout_s:g} s")
