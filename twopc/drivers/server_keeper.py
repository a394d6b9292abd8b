"""What a coordinator on servers does in the background: keep, give up silent connections, break deadlocks.

What is recovered and forgotten, and when, is decided in `twopc.drivers.keeper`.
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
        """`busy` holds the connections that an answer is awaited from."""
        self._busy = busy
        self._deadlock_interval_s = deadlock_interval_s
        self._answer_timeout_s = answer_timeout_s
        # Connections of its own, so that a branch that keeps recovery waiting keeps nobody else.
        participants = {
            one.name: ServerParticipant(one, coordinator, answer_timeout_s=answer_timeout_s)
            for one in addresses
        }
        self._looking = [
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
            {one.node: ServerWaits(one) for one in self._looking},
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
        """Recover once, then keep watch.

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
            asyncio.create_task(self._keep_listening(), name="twopc answers"),
        ]

    async def close(self) -> None:
        """Stop; idempotent."""
        self._is_closing = True
        tasks, self._tasks = self._tasks, []
        pending = set(tasks)
        while pending:
            # Said again until it is heard: psycopg swallows a cancellation if the query that it meets ends
            # well all the same, as one does whose wait for a synchronous standby is cut short.
            for task in pending:
                task.cancel()
            _, pending = await asyncio.wait(pending, timeout=_CANCEL_AGAIN_S)
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.recovery.close()
        for database in self._looking:
            await database.close()

    async def attempt(self) -> None:
        """See `Keeper`; a fault of ours must not end the watch over everybody's branches."""
        try:
            await super().attempt()
        except Exception:
            _log.exception("recovery failed", coordinator=self._coordinator)

    def _goes_on(self) -> bool:
        return not self._is_closing

    async def _keep_listening(self) -> None:
        """Close connections that owe an answer for too long; their users find out how it stands."""
        while not self._is_closing:
            await asyncio.sleep(self._answer_timeout_s / 4)
            self._give_up_silent()

    def _give_up_silent(self) -> None:
        since = asyncio.get_running_loop().time() - self._answer_timeout_s
        for lean in [*self._busy]:
            if lean.sent_at < since:
                lean.abort(f"no answer within {self._answer_timeout_s:g} s")
