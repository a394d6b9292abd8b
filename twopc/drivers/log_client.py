"""A coordinator process's access to the decision log: its epochs, and the records that it writes and forgets.

The same on servers (`twopc.drivers.decision_log`) and in virtual time (`twopc.sim.model.log_client`), which connect
and send. This module must not depend on the meaning of a decision.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, Protocol, TypeVar

from twopc.drivers.ports import Key
from twopc.names import EpochIds
from twopc.protocol.effects import Record

#: SQLSTATE with which the log refuses a record whose epoch is fenced.
_FENCED = "55000"


class LogEntry(ABC):
    """A record that is being written to the log."""

    __slots__ = ("epoch", "reason", "record", "sequence", "state")

    def __init__(self, epoch: int, sequence: int, record: Record) -> None:
        self.epoch = epoch
        self.sequence = sequence
        self.record = record
        self.state = ""
        """``logged``, ``failed`` (certainly not written) or ``unknown``; empty until the result is known."""
        self.reason = ""

    def settle(self, state: str, reason: str = "") -> None:
        """Set the result of the write."""
        self.state = state
        self.reason = reason

    @abstractmethod
    async def wait(self) -> None:
        """Wait until `state` is known."""


class LogWire(Protocol):
    """Connection of the session that writes."""

    lost: str
    """Reason why the connection is lost; empty while it is open."""

    def alive(self) -> bool:
        """Return whether the connection still works, as far as this side can see."""
        ...


W = TypeVar("W", bound=LogWire)


class LogClient(ABC, Generic[W]):
    """The log of one coordinator process.

    Args:
        branches: names of all nodes.
        turn: returns a context in which no other caller connects or opens an epoch.
    """

    def __init__(
        self,
        coordinator: str,
        branches: Iterable[str],
        turn: Callable[[], AbstractAsyncContextManager[Any]],
    ) -> None:
        self._coordinator = coordinator
        self._branches = tuple(branches)
        self._turn = turn
        self._wire: W | None = None
        self._queue: list[LogEntry] = []
        """Records that wait for the next message."""
        self._forgotten: list[Key] = []
        self.epochs: dict[str, EpochIds] = {}
        """The current epoch of each variant in use, by the variant's name."""
        self.own: set[int] = set()
        """All epochs that belong to this process alone."""
        self.fenced: set[int] = set()
        """Epochs that another process has fenced; `epoch` opens new ones instead."""

    @abstractmethod
    async def _connect(self) -> None:
        """Connect unless the connection is alive, and resume the epochs (`_resume`)."""

    @abstractmethod
    async def _open_epoch(self, variant: str) -> EpochIds:
        """Open an epoch in the session that writes: it lives as long as that session."""

    @abstractmethod
    async def _read(self, key: Key) -> Record | None:
        """Return the durable record of a transaction."""

    @abstractmethod
    async def _delete(self, keys: Sequence[Key]) -> None:
        """Delete these records, or none if this raises."""

    # -- epochs ------------------------------------------------------------------------------------

    def current(self, variant: str) -> EpochIds | None:
        """Return the ids for transactions of a variant, if an epoch exists and can be written for."""
        result, wire = self.epochs.get(variant), self._wire
        if result is None or result.epoch in self.fenced or wire is None or not wire.alive():
            return None
        return result

    async def epoch(self, variant: str) -> EpochIds:
        """Return the ids for transactions of a variant, and open an epoch at the first use.

        Raises:
            psycopg.Error: the log does not answer.
        """
        async with self._turn():
            await self._connect()
            result = self.current(variant)
            if result is None:
                result = self.epochs[variant] = await self._open_epoch(variant)
                self.own.add(result.epoch)
            return result

    async def ensure(self) -> None:
        """Ensure that the log is connected, and that no earlier session of this process can still write.

        Raises:
            psycopg.Error: the log does not answer, or an old session does not end.
        """
        async with self._turn():
            await self._connect()

    async def _resume(self, resume: Callable[[int], Awaitable[bool]]) -> None:
        """Resume the epochs; `resume` does so for one, and returns False if another process has fenced it."""
        for ids in self.epochs.values():
            if ids.epoch not in self.fenced and not await resume(ids.epoch):
                self._fence(ids.epoch)

    def _fence(self, epoch: int) -> None:
        self.fenced.add(epoch)
        self.own.discard(epoch)

    # -- records -----------------------------------------------------------------------------------

    @abstractmethod
    def append(self, epoch: int, sequence: int, record: Record) -> LogEntry:
        """Write a record, together with all others that are waiting."""

    def _enqueue(self, entry: LogEntry) -> bool:
        """Let a record wait for the next message; return False if it has failed, because the connection is lost."""
        lost = "the decision log is closed" if self._wire is None else self._wire.lost
        if lost:
            entry.settle("failed", lost)
        else:
            self._queue.append(entry)
        return not lost

    def _answered(self, sent: Sequence[LogEntry], state: str | None, reason: str = "") -> None:
        """Set the results of the records of one message; `state`: the SQLSTATE if the log has refused them."""
        for entry in sent:
            if state == _FENCED:
                self._fence(entry.epoch)
            entry.settle("logged" if state is None else "failed", reason)

    def _break(self, sent: Sequence[LogEntry], reason: str) -> None:
        """Set the results of all records, after the connection was lost."""
        queue, self._queue = self._queue, []
        for entry in sent:
            entry.settle("unknown", reason)
        for entry in queue:
            entry.settle("failed", reason)

    async def read_back(self, epoch: int, sequence: int) -> Record | None:
        """Return the durable record of a transaction, or None if none exists and none can be written any more.

        Raises:
            psycopg.Error: as `ensure`.
            LookupError: no record exists, but another process has fenced the epoch and may have settled the
                transaction and deleted its record.
        """
        await self.ensure()
        result = await self._read((epoch, sequence))
        if result is None and epoch in self.fenced:
            raise LookupError(f"epoch {epoch} was fenced by another process")
        return result

    def forget(self, epoch: int, sequence: int) -> None:
        """Have a record deleted with the next batch; recovery finds a record that survives a crash."""
        self._forgotten.append((epoch, sequence))

    async def forget_now(self) -> int:
        """Delete the records that may be forgotten, and return their number.

        Raises:
            psycopg.Error: no record was deleted, and the deletion will be retried.
        """
        batch, self._forgotten = self._forgotten, []
        try:
            if batch:
                await self._delete(batch)
        except BaseException:  # also if cancelled
            self._forgotten.extend(batch)
            raise
        return len(batch)
