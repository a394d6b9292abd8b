"""Background work of a coordinator: recovery, and forgetting settled transactions.

Independent of the course of a transaction; the keeper receives transactions whose drivers gave up, and the ids of
settled ones. `twopc.drivers.server_keeper` runs it on servers, the model in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import psycopg

from twopc.drivers.engine import CoordinatorEngine
from twopc.drivers.log_client import LogClient
from twopc.drivers.marker_retention import MarkerRetention
from twopc.drivers.ports import Key
from twopc.drivers.recovery import SettledBranch
from twopc.log import get_logger

_log = get_logger(__name__)


class RecoveryPort(Protocol):
    """See `twopc.drivers.recovery.Recovery`."""

    async def run(
        self, *, own: set[int], unsettled: set[Key], active: Callable[[], set[Key]]
    ) -> list[SettledBranch]:
        """Run one pass, after a pass that is in progress."""
        ...


class AlarmPort(Protocol):
    """Interface to the wait between passes."""

    def ring(self) -> None:
        """End the current wait, because there is something to recover."""
        ...

    async def wait(self, seconds: float) -> None:
        """Wait for at most this time."""
        ...


class Keeper:
    """Background work of one coordinator process.

    Args:
        engine: the engine, which knows the transactions that are open or being committed.
        interval_s: time between two passes if the alarm does not ring.
    """

    def __init__(
        self, coordinator: str, *, log: LogClient[Any], recovery: RecoveryPort, markers: MarkerRetention,
        engine: CoordinatorEngine, alarm: AlarmPort, interval_s: float,
    ) -> None:  # fmt: skip
        self._coordinator = coordinator
        self._log = log
        self._recovery = recovery
        self._markers = markers
        self._engine = engine
        self._alarm = alarm
        self._interval_s = interval_s
        self.unsettled: set[Key] = set()
        """Transactions that their drivers could not settle."""

    def take_over(self, key: Key) -> None:
        """See `twopc.drivers.ports.KeeperPort`."""
        self.unsettled.add(key)
        self._alarm.ring()

    def over(self, gid: str, branches: tuple[str, ...]) -> None:
        """See `twopc.drivers.ports.KeeperPort`."""
        self._markers.over(gid, branches)

    async def recover(self) -> list[SettledBranch]:
        """Run one pass of recovery, and return the branches that it has settled.

        Raises:
            psycopg.Error: the distribution database cannot be reached.
        """
        await self._log.ensure()  # no insert of an earlier session can take effect after this
        return await self._recovery.run(
            own=self._log.own, unsettled=self.unsettled, active=self._active
        )

    def _active(self) -> set[Key]:
        return {(one.ids.epoch, one.sequence) for one in self._engine.active.values()}

    async def attempt(self) -> None:
        """Run one pass, and forget settled transactions; the next pass retries nodes that cannot be reached."""
        try:
            await self.recover()
            await self._log.forget_now()
            await self._markers.forget()
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            _log.warning("recovery failed", coordinator=self._coordinator, reason=reason)

    async def watch(self, goes_on: Callable[[], bool]) -> None:
        """Run a pass at intervals, and whenever the alarm rings, for as long as `goes_on` returns true."""
        while goes_on():
            await self._alarm.wait(self._interval_s)
            await self.attempt()
