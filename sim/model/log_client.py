"""The decision log in virtual time: written by one coordinator process, and read by its recovery.

Decisions that arrive during a write go out together with the next message, as in `twopc.drivers.decision_log`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import ClassVar, TypeVar

import psycopg
import simpy

from twopc.drivers.log_client import LogClient, LogEntry
from twopc.drivers.ports import Key, KnownEpoch
from twopc.drivers.virtual import AwaitableSteps, awaited
from twopc.names import EpochIds
from twopc.protocol.effects import Outcome, Record
from twopc.sim.model.errors import raised
from twopc.sim.model.ledger import DecisionLedger, LedgerDamage, LedgerSession
from twopc.sim.model.network import Network
from twopc.sim.model.pool import ConnectionPool, FairLock
from twopc.sim.model.values import RequestLostError, SqlError, Steps
from twopc.sim.model.wire import Wire

T = TypeVar("T")

_TOUCHES = frozenset(("log",))


class _LogQueries:
    """Requests to the decision log, over as many connections as there are concurrent requests."""

    def __init__(
        self, ledger: DecisionLedger, network: Network, here: str, there: str, actor: str
    ) -> None:
        self._pool = ConnectionPool(network, here, there, f"{actor}:log", ledger.connect)

    def ask(self, what: str, work: Callable[[LedgerSession], Steps[T]]) -> Steps[T]:
        """Send one request. Raise RequestLostError or SqlError."""
        return self._pool.ask(what, work, _TOUCHES)

    async def asked(self, what: str, work: Callable[[LedgerSession], Steps[T]]) -> T:
        """Send one request from a coroutine; see `ask`. Raise psycopg's exceptions."""
        with raised():
            return await AwaitableSteps(self.ask(what, work))

    def close(self) -> None:
        """Close the connections; idempotent."""
        self._pool.close()


class ModelEntry(LogEntry):
    """See `LogEntry`."""

    __slots__ = ("_settled",)

    def __init__(self, epoch: int, sequence: int, record: Record, settled: simpy.Event) -> None:
        super().__init__(epoch, sequence, record)
        self._settled = settled

    def settle(self, state: str, reason: str = "") -> None:
        """See `LogEntry`."""
        super().settle(state, reason)
        self._settled.succeed()

    async def wait(self) -> None:
        """See `LogEntry`."""
        if not self.state:
            await awaited(self._settled)


class ModelLog(LogClient[Wire]):
    """See `twopc.drivers.log_client.LogClient`. It notifies the search of what it reads and changes."""

    ids: ClassVar[type[EpochIds]] = EpochIds
    """Class of its transactions' gids."""

    def __init__(
        self, ledger: DecisionLedger, network: Network, here: str, there: str, *, coordinator: str,
        actor: str, branches: Sequence[str],
    ) -> None:  # fmt: skip
        """Create a log without epochs that is not connected.

        Args:
            here, there: names of the places of the process and of the log.
            branches: names of all nodes.
        """
        super().__init__(coordinator, branches, self._taken)
        self._network = network
        self._reading = _LogQueries(ledger, network, here, there, actor)
        self._open = partial(network.connect, here, there, f"{actor}:log", ledger.connect)
        self._lock = FairLock(network.kernel, partial(self._notify, "turn", True))
        """Lock that serialises the session's requests."""
        self._is_sending = False
        self._writer: LedgerSession | None = None

    def current(self, variant: str) -> EpochIds | None:
        """See `LogClient`."""
        self._notify("epochs", False)
        return super().current(variant)

    async def epoch(self, variant: str) -> EpochIds:
        """See `LogClient`."""
        self._notify("epochs", True)
        return await super().epoch(variant)

    @asynccontextmanager
    async def _taken(self) -> AsyncIterator[None]:
        with raised():
            await AwaitableSteps(self._lock.take())
            try:
                yield
            finally:
                self._lock.give()

    def append(self, epoch: int, sequence: int, record: Record) -> ModelEntry:
        """See `LogClient`."""
        kernel = self._network.kernel
        entry = ModelEntry(epoch, sequence, record, kernel.event())
        self._notify("queue", True)
        self._notify("epochs", False)
        if self._enqueue(entry) and self._wire and not self._is_sending:
            self._is_sending = True
            kernel.spawn(self._send(self._wire), f"{self._coordinator}: decisions")
        return entry

    def _send(self, wire: Wire) -> Steps[None]:
        try:
            while self._queue and not wire.lost:
                yield from self._lock.take()
                self._notify("queue", True)
                flight, self._queue = self._queue, []
                entries = [((entry.epoch, entry.sequence), entry.record) for entry in flight]
                settle: Callable[[], None] = partial(self._answered, flight, None)
                try:
                    yield from wire.ask(
                        lambda these=entries: self._session(wire).log(these),  # type: ignore[misc]
                        f"{len(flight)} decisions", _TOUCHES,
                    )  # fmt: skip
                except SqlError as error:
                    settle = partial(self._answered, flight, error.sqlstate, error.message)
                except RequestLostError as error:
                    settle = partial(self._break, flight, str(error))
                finally:
                    self._lock.give()
                self._notify("queue", True)  # records that arrived meanwhile go next
                settle()
        finally:
            self._is_sending = False
            self._break((), wire.lost)

    def _notify(self, what: str, changed: bool) -> None:
        record_access = self._network.kernel.record_access
        if record_access is not None:
            record_access(f"{what} of {self._coordinator}", changed)

    def forget(self, epoch: int, sequence: int) -> None:
        """See `LogClient`."""
        self._notify("forgotten", False)  # their order is irrelevant
        super().forget(epoch, sequence)

    async def forget_now(self) -> int:
        """See `LogClient`."""
        self._notify("forgotten", True)
        try:
            return await super().forget_now()
        except psycopg.Error:
            self._notify("forgotten", False)
            raise

    async def _delete(self, keys: Sequence[Key]) -> None:
        await self._reading.asked("forget", lambda one: one.forget(keys))

    async def _read(self, key: Key) -> Record | None:
        return await self._reading.asked("read back", lambda one: one.read(key))

    def close(self) -> None:
        """Close the connections, and with them release the epochs."""
        if self._wire is not None:
            self._wire.close()
        self._reading.close()

    async def _connect(self) -> None:
        if self._wire is not None and not self._wire.lost:
            return
        self._notify("epochs", True)
        wire = self._wire = await AwaitableSteps(self._open())
        self._notify("epochs", True)
        old, self._writer = self._writer, self._session(wire)
        await self._resume(
            lambda epoch: self._write("resume", lambda one: one.resume_epoch(epoch, old))
        )

    async def _open_epoch(self, variant: str) -> EpochIds:
        number = await self._write(
            "open an epoch", lambda one: one.open_epoch(self._coordinator, variant)
        )
        self._notify("epochs", True)
        return self.ids(self._coordinator, number, self._branches)

    async def _write(self, what: str, work: Callable[[LedgerSession], Steps[T]]) -> T:
        wire = self._wire
        assert wire is not None
        return await AwaitableSteps(wire.ask(lambda: work(self._session(wire)), what, _TOUCHES))

    @staticmethod
    def _session(wire: Wire) -> LedgerSession:
        assert isinstance(wire.served, LedgerSession)
        return wire.served

    def _fence(self, epoch: int) -> None:
        self._notify("epochs", True)
        super()._fence(epoch)


class ModelDecisionReader:
    """The decision log as recovery reads it: the `DecisionsPort` of virtual time."""

    def __init__(
        self, ledger: DecisionLedger, network: Network, here: str, there: str, actor: str
    ) -> None:
        self._client = _LogQueries(ledger, network, here, there, f"{actor}:recovery")

    async def fence(self, coordinator: str, own: Sequence[int]) -> list[KnownEpoch]:
        """Fence the epochs of dead processes; return all fenced epochs."""
        return await self._client.asked("fence epochs", lambda one: one.fence(coordinator, own))

    async def epochs(self, coordinator: str) -> list[KnownEpoch]:
        """Return every epoch of a coordinator."""
        return await self._client.asked("read epochs", lambda one: one.known(coordinator))

    async def decisions(self, dead: Sequence[int], keys: Sequence[Key]) -> dict[Key, Record]:
        """Return the decisions of dead epochs and of these transactions."""
        return await self._client.asked("read decisions", lambda one: one.decided(dead, keys))

    async def closed(self, epoch: int) -> set[Key]:
        """Return the transactions of an epoch whose decisions are kept as evidence."""
        return await self._client.asked(
            "read closed decisions", lambda one: one.closed_decisions(epoch)
        )

    async def forget(self, key: Key) -> None:
        """Remove a decision whose branches are all settled."""
        await self._client.asked("forget", lambda one: one.forget([key]))

    async def close_decision(self, key: Key) -> None:
        """Remove the participants of a decision, which is kept as evidence."""
        await self._client.asked("close", lambda one: one.close_decision(key))

    async def forget_epoch(self, epoch: int) -> None:
        """Remove a dead epoch of which no branch is left."""
        await self._client.asked("forget an epoch", lambda one: one.forget_epoch(epoch))

    async def damage(
        self, *, gid: str, node: str, outcome: Outcome, decided: Outcome | None
    ) -> None:
        """Record that a branch ended against the decision."""
        result = LedgerDamage(gid=gid, node=node, outcome=outcome, decided=decided)
        with raised():
            await AwaitableSteps(self._client.ask("record damage", lambda one: one.note(result)))

    async def close(self) -> None:
        """Close the connections; idempotent."""
        self._client.close()
