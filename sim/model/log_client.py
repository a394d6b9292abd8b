"""The decision log in virtual time: written by one coordinator process, and read by its recovery.

Decisions that arrive during a write go out together with the next message, as in `twopc.drivers.decision_log`. This
module does not know the meaning of a decision.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar, TypeVar

import psycopg
import simpy

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


class ModelEntry:
    """A record that is being sent to the decision log."""

    __slots__ = ("_settled", "key", "reason", "record", "state")

    def __init__(self, key: Key, record: Record, settled: simpy.Event) -> None:
        self.key = key
        self.record = record
        self.state = ""
        self.reason = ""
        self._settled = settled

    def settle(self, state: str, reason: str = "") -> None:
        """Set the outcome of the record."""
        self.state, self.reason = state, reason
        self._settled.succeed()

    async def wait(self) -> None:
        """Wait until `state` is set."""
        if not self.state:
            await awaited(self._settled)


class ModelLog:
    """The decision log of one coordinator process."""

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
        self._coordinator = coordinator
        self._branches = tuple(branches)
        self._network = network
        self._reading = _LogQueries(ledger, network, here, there, actor)
        self._open = partial(network.connect, here, there, f"{actor}:log", ledger.connect)
        self._wire: Wire | None = None
        """Connection of the only session that writes."""
        self._turn = FairLock(network.kernel, partial(self._notify, "turn", True))
        """Lock that serialises the session's requests."""
        self._queue: list[ModelEntry] = []
        self._is_sending = False
        self._writer: LedgerSession | None = None
        self._forgotten: list[Key] = []
        self.epochs: dict[str, EpochIds] = {}
        """The epoch of each variant that was used."""
        self.own: set[int] = set()
        self.fenced: set[int] = set()

    def current(self, variant: str) -> EpochIds | None:
        """Return the ids for transactions of a variant; None without an epoch that can be written to."""
        self._notify("epochs", False)
        result, wire = self.epochs.get(variant), self._wire
        if result is None or result.epoch in self.fenced or wire is None or wire.lost:
            return None
        return result

    async def epoch(self, variant: str) -> EpochIds:
        """Return the ids for transactions of a variant, opening an epoch at the first use; see `current`."""
        with raised():
            return await AwaitableSteps(self._epoch(variant))

    def _epoch(self, variant: str) -> Steps[EpochIds]:
        self._notify("epochs", True)
        yield from self._turn.take()
        try:
            yield from self._connect()
            result = self.current(variant)
            if result is None:
                number = yield from self._write(
                    "open an epoch", lambda one: one.open_epoch(self._coordinator, variant)
                )
                self._notify("epochs", True)
                self.own.add(number)
                result = self.epochs[variant] = self.ids(self._coordinator, number, self._branches)
            return result
        finally:
            self._turn.give()

    # -- LogPort -----------------------------------------------------------------------------------

    def append(self, epoch: int, sequence: int, record: Record) -> ModelEntry:
        """Send a record, together with others that are waiting."""
        kernel = self._network.kernel
        entry = ModelEntry((epoch, sequence), record, kernel.event())
        self._notify("queue", True)
        self._notify("epochs", False)
        wire = self._wire
        if wire is None or wire.lost:
            entry.settle("failed", wire.lost if wire is not None else "the decision log is closed")
            return entry
        self._queue.append(entry)
        if not self._is_sending:
            self._is_sending = True
            kernel.spawn(self._send(wire), f"{self._coordinator}: decisions")
        return entry

    def _send(self, wire: Wire) -> Steps[None]:
        try:
            while self._queue and not wire.lost:
                yield from self._turn.take()
                self._notify("queue", True)
                flight, self._queue = self._queue, []
                entries = [(entry.key, entry.record) for entry in flight]
                state, why = "logged", ""
                try:
                    yield from wire.ask(
                        lambda these=entries: self._session(wire).log(these),  # type: ignore[misc]
                        f"{len(flight)} decisions", _TOUCHES,
                    )  # fmt: skip
                except SqlError as error:
                    state, why = "failed", error.message
                    if error.sqlstate == "55000":
                        for entry in flight:
                            self._fence(entry.key[0])
                except RequestLostError as error:
                    state, why = "unknown", str(error)
                finally:
                    self._turn.give()
                self._notify("queue", True)  # records that arrived meanwhile go next
                for entry in flight:
                    entry.settle(state, why)
        finally:
            self._is_sending = False
            queue, self._queue = self._queue, []
            for entry in queue:
                entry.settle("failed", wire.lost)

    def _notify(self, what: str, changed: bool) -> None:
        record_access = self._network.kernel.record_access
        if record_access is not None:
            record_access(f"{what} of {self._coordinator}", changed)

    def forget(self, epoch: int, sequence: int) -> None:
        """Schedule the deletion of a record."""
        self._notify("forgotten", False)  # their order is irrelevant
        self._forgotten.append((epoch, sequence))

    async def read_back(self, epoch: int, sequence: int) -> Record | None:
        """Return the durable record of a transaction; None if there is none and can be none any more."""
        await self.ensure()
        result = await self._reading.asked("read back", lambda one: one.read((epoch, sequence)))
        if result is None and epoch in self.fenced:
            raise LookupError(f"epoch {epoch} was fenced by another process")
        return result

    # -- the rest ----------------------------------------------------------------------------------

    async def forget_now(self) -> int:
        """See `twopc.drivers.keeper.KeptLogPort`."""
        self._notify("forgotten", True)
        batch, self._forgotten = self._forgotten, []
        if not batch:
            return 0
        try:
            await self._reading.asked("forget", lambda one: one.forget(batch))
        except psycopg.Error:
            self._notify("forgotten", False)
            self._forgotten += batch
            raise
        return len(batch)

    async def ensure(self) -> None:
        """See `twopc.drivers.keeper.KeptLogPort`."""
        with raised():
            await AwaitableSteps(self._ensure())

    def _ensure(self) -> Steps[None]:
        yield from self._turn.take()
        try:
            yield from self._connect()
        finally:
            self._turn.give()

    def close(self) -> None:
        """Close the connections, and with them release the epochs."""
        if self._wire is not None:
            self._wire.close()
        self._reading.close()

    def _connect(self) -> Steps[None]:
        if self._wire is not None and not self._wire.lost:
            return
        self._notify("epochs", True)
        wire = self._wire = yield from self._open()
        self._notify("epochs", True)
        old, self._writer = self._writer, self._session(wire)
        for ids in self.epochs.values():
            if ids.epoch not in self.fenced:
                held = yield from self._write(
                    "resume", lambda one, epoch=ids.epoch: one.resume_epoch(epoch, old)  # type: ignore[misc]
                )  # fmt: skip
                if not held:
                    self._fence(ids.epoch)

    def _write(self, what: str, work: Callable[[LedgerSession], Steps[T]]) -> Steps[T]:
        wire = self._wire
        assert wire is not None
        return wire.ask(lambda: work(self._session(wire)), what, _TOUCHES)

    @staticmethod
    def _session(wire: Wire) -> LedgerSession:
        assert isinstance(wire.served, LedgerSession)
        return wire.served

    def _fence(self, epoch: int) -> None:
        self._notify("epochs", True)
        self.fenced.add(epoch)
        self.own.discard(epoch)


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
        """Record that a branch ended against the decision; a lost request is ignored, as damage is found again."""
        result = LedgerDamage(gid=gid, node=node, outcome=outcome, decided=decided)
        with raised(), suppress(RequestLostError):
            await AwaitableSteps(self._client.ask("record damage", lambda one: one.note(result)))

    async def close(self) -> None:
        """Close the connections; idempotent."""
        self._client.close()
