"""What goes on in the background of a coordinator: recovery, and forgetting what is over.

It must not know how a transaction goes; it gets those whose drivers gave up, and the ids of those that are over.
`twopc.drivers.server_keeper` runs it on servers, the model in virtual time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import psycopg

from twopc.drivers.engine import CoordinatorEngine
from twopc.drivers.marker_retention import MarkerRetention
from twopc.drivers.ports import Key
from twopc.drivers.recovery import SettledBranch
from twopc.log import get_logger

_log = get_logger(__name__)


class KeptLogPort(Protocol):
    """The decision log of one process. Its methods may raise `psycopg.Error`."""

    own: set[int]
    """Epochs of this process."""

    async def ensure(self) -> None:
        """Be connected, and sure that no earlier session of ours can still write."""
        ...

    async def forget_now(self) -> int:
        """Delete what may be forgotten; how many. What cannot be deleted is tried again."""
        ...


class RecoveryPort(Protocol):
    """See `twopc.drivers.recovery.Recovery`."""

    async def run(
        self, *, own: set[int], unsettled: set[Key], active: Callable[[], set[Key]]
    ) -> list[SettledBranch]:
        """One pass, after those that are under way."""
        ...


class AlarmPort(Protocol):
    """Time between passes."""

    def ring(self) -> None:
        """There is something to recover: whoever waits need not wait any longer."""
        ...

    async def wait(self, seconds: float) -> None:
        """For so long at most."""
        ...


class Keeper:
    """Background work of one coordinator process.

    Args:
        engine: knows the transactions that are open or being committed.
        interval_s: how long after a pass the next one comes if nobody rings.
    """

    def __init__(
        self, coordinator: str, *, log: KeptLogPort, recovery: RecoveryPort, markers: MarkerRetention,
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
        """One pass of recovery; returns what it has settled.

        Raises:
            psycopg.Error: the distribution database cannot be reached.
        """
        await self._log.ensure()  # no insert of an earlier session can still land
        return await self._recovery.run(
            own=self._log.own, unsettled=self.unsettled, active=self._active
        )

    def _active(self) -> set[Key]:
        return {(one.ids.epoch, one.sequence) for one in self._engine.active.values()}

    async def attempt(self) -> None:
        """One pass, and forget what is over; what cannot be reached now is tried again by the next one."""
        try:
            await self.recover()
            await self._log.forget_now()
            await self._markers.forget()
        except psycopg.Error as error:
            reason = " ".join(str(error).split())
            _log.warning("recovery failed", coordinator=self._coordinator, reason=reason)

    async def watch(self, goes_on: Callable[[], bool]) -> None:
        """A pass at intervals, and whenever there is something to recover, for as long as `goes_on`."""
        while goes_on():
            await self._alarm.wait(self._interval_s)
            await self.attempt()
