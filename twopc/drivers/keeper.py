"""What a coordinator does in the background: recover, forget, give up silent connections, break deadlocks.

It must not know how a transaction goes; it gets those whose drivers gave up, and the ids of those that
are over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import psycopg

from twopc.drivers.database import Database
from twopc.drivers.deadlock import DeadlockDetector, ServerWaits
from twopc.drivers.decided import DecisionReader
from twopc.drivers.decision_log import DecisionLog
from twopc.drivers.engine import CoordinatorEngine
from twopc.drivers.lean import Lean
from twopc.drivers.marker_retention import MarkerRetention
from twopc.drivers.participant import ParticipantAddress, ServerParticipant
from twopc.drivers.points import Points
from twopc.drivers.ports import Key
from twopc.drivers.recovery import Recovery, SettledBranch
from twopc.drivers.runtime import Asyncio
from twopc.log import get_logger

_log = get_logger(__name__)

_CANCEL_AGAIN_S = 0.2


class Keeper:
    """Background work of one coordinator process."""

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
        """`engine` knows the transactions that are open or being committed; `busy` holds the connections that an answer
        is awaited from."""
        self._coordinator = coordinator
        self._log = log
        self._busy = busy
        self._engine = engine
        self._recovery_interval_s = recovery_interval_s
        self._deadlock_interval_s = deadlock_interval_s
        self._answer_timeout_s = answer_timeout_s
        # Connections of its own, so that a branch that keeps recovery waiting keeps nobody else.
        self._participants = {
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
            participants=self._participants,
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
        self._unsettled: set[Key] = set()
        self._markers = MarkerRetention(self._participants, publisher, markers_kept_s, Asyncio())
        self._wake = asyncio.Event()
        self._is_closing = False
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Recover once, then keep watch.

        Raises:
            psycopg.Error: the distribution database cannot be reached.
        """
        await self.recover()
        self._tasks = [
            asyncio.create_task(self._keep_recovering(), name="twopc recovery"),
            asyncio.create_task(
                self.detector.watch(self._deadlock_interval_s, lambda: not self._is_closing),
                name="twopc deadlocks",
            ),
            asyncio.create_task(self._keep_listening(), name="twopc answers"),
        ]

    async def close(self) -> None:
        """Stop. Idempotent."""
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

    def take_over(self, key: Key) -> None:
        """A driver could not settle this transaction: recovery goes on, at once."""
        self._unsettled.add(key)
        self._wake.set()

    def over(self, gid: str, branches: tuple[str, ...]) -> None:
        """This transaction is committed everywhere: its markers may go, in time."""
        self._markers.over(gid, branches)

    async def recover(self) -> list[SettledBranch]:
        """One pass of recovery; returns what it has settled.

        Raises:
            psycopg.Error: the distribution database cannot be reached.
        """
        await self._log.ensure()  # no insert of an earlier session can still land
        return await self.recovery.run(
            own=self._log.own, unsettled=self._unsettled, active=self._keys
        )

    def _keys(self) -> set[Key]:
        return {(one.ids.epoch, one.sequence) for one in self._engine.active.values()}

    # -- recovery and forgetting -------------------------------------------------------------------

    async def _keep_recovering(self) -> None:
        while not self._is_closing:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), self._recovery_interval_s)
            self._wake.clear()
            try:
                await self.recover()
                await self._log.forget_now()
                await self._markers.forget()
            except psycopg.Error as error:
                reason = " ".join(str(error).split())
                _log.warning("recovery failed", coordinator=self._coordinator, reason=reason)
            except Exception:
                # A fault of ours must not end the watch over everybody's branches.
                _log.exception("recovery failed", coordinator=self._coordinator)

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
