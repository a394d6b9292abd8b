"""The decision log on its server: epochs, the sessions that hold them, and decisions; epochs and decisions survive
a crash.

Implements `twopc/sql/{log_decisions,open_epoch,resume_epoch,fence_epochs}.sql`, without knowledge of the callers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count

import simpy

from twopc.drivers.ports import Key, KnownEpoch
from twopc.protocol.effects import Outcome, Record, RecordKind
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.values import Cause, Delay, Label, RequestLostError, SqlError, Steps


@dataclass(slots=True, kw_only=True)
class Epoch:
    """The transactions of one variant in one process of a coordinator."""

    coordinator: str
    variant: str
    fenced_at: float | None = None
    """Virtual time at which another process fenced the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerDamage:
    """A branch that was finished against the decision."""

    gid: str
    node: str
    outcome: Outcome
    decided: Outcome | None


class DecisionLedger:
    """The decision log on its server.

    Args:
        host: returns how often the server was started; None while it is down.
        flush: duration of a write.
    """

    def __init__(self, kernel: SimpyKernel, host: Callable[[], object], flush: Delay) -> None:
        self.kernel = kernel
        self._host = host
        self._flush = flush.given
        self._numbers = count(1)
        self.epochs: dict[int, Epoch] = {}
        self.decisions: dict[Key, Record] = {}
        """Decisions by epoch and number; one without participants is kept only as evidence."""
        self.damage: list[LedgerDamage] = []
        self.holders: dict[int, LedgerSession] = {}
        """The session that holds each epoch."""
        self.flushes = 0

    def connect(self) -> LedgerSession:
        """Open a session. Raise RequestLostError if the server is down."""
        if self._host() is None:
            raise RequestLostError("the decision log is down")
        return LedgerSession(self)

    def let(self, coordinator: str) -> int:
        """Open an epoch for the clients of a Subscriber without coordinator; no process holds it."""
        epoch = next(self._numbers)
        self.epochs[epoch] = Epoch(coordinator=coordinator, variant="last_agent")
        return epoch

    def write(self) -> Steps[None]:
        """Wait until a write is durable. Raise RequestLostError if the server goes down meanwhile: then it is not."""
        started = self._host()
        kernel, actor = self.kernel, "ledger"
        if kernel.record_access is not None:  # the search orders concurrent writes either way
            actor = f"ledger #{kernel.stretch % 1000}"
        label = Label(
            actor=actor, cause=Cause.FLUSH, what="flush of the decision log",
            touches=frozenset(("log",)),
        )  # fmt: skip
        yield self.kernel.delay(self._flush, label)
        if started is None or self._host() != started:
            raise RequestLostError("the decision log went down")
        self.flushes += 1

    def notify_access(self, what: str, *, changed: bool) -> None:
        """Notify the search that state is read or changed: ``epochs`` (which exist), ``holders`` (of locks, and
        which epochs are fenced), ``epoch 3`` (whether it is fenced), ``decisions of 3``.
        """
        if self.kernel.record_access is not None:
            self.kernel.record_access(f"{what} at log", changed)

    def crash(self) -> None:
        """Stop the server: locks are released, and durable content stays."""
        self.notify_access("holders", changed=True)
        self.holders.clear()


class LedgerSession:
    """A connection to the decision log; at most one per process writes, and holds the epochs of the process."""

    def __init__(self, ledger: DecisionLedger) -> None:
        self._ledger = ledger
        self._object_name = f"session {ledger.kernel.stretch}"
        self.closed = False
        self._writing: simpy.Event | None = None
        """Comes when the present write has succeeded or failed."""

    def close(self) -> None:
        """Release the locks, once the write in progress has succeeded or failed; idempotent."""
        self._ledger.notify_access("holders", changed=True)
        self._ledger.notify_access(self._object_name, changed=True)
        self.closed = True
        if self._writing is None:
            self._release()

    def _release(self) -> None:
        holders = self._ledger.holders
        for epoch in [epoch for epoch, session in holders.items() if session is self]:
            del holders[epoch]

    def log(self, entries: Sequence[tuple[Key, Record]]) -> Steps[None]:
        """Write all of these decisions, or none. Raise 55000 if an epoch is fenced, 23505 if a decision exists."""
        ledger = self._ledger
        ledger.notify_access(self._object_name, changed=True)
        for (epoch, _), _ in entries:
            ledger.notify_access(f"epoch {epoch}", changed=False)
            ledger.notify_access(f"decisions of {epoch}", changed=False)
            if ledger.epochs[epoch].fenced_at is not None:
                raise SqlError(
                    "55000",
                    f"an epoch of coordinator {ledger.epochs[epoch].coordinator} is fenced: another process "
                    "has taken its branches over",
                )
        for key, _ in entries:
            result = ledger.decisions.get(key)
            if result is not None and result.kind is not RecordKind.COLLECTING:
                raise SqlError(
                    "23505", "a decision was logged before, and a decision never changes"
                )
        writing = self._writing = ledger.kernel.event()
        try:
            yield from ledger.write()
            for key, record in entries:
                ledger.notify_access(f"decisions of {key[0]}", changed=True)
                ledger.decisions[key] = record
        finally:
            self._writing = None
            ledger.notify_access(self._object_name, changed=True)
            if self.closed:
                ledger.notify_access("holders", changed=True)
                self._release()
            writing.succeed()

    def open_epoch(self, coordinator: str, variant: str) -> Steps[int]:
        """Open a new epoch, which this session holds, and return its number."""
        ledger = self._ledger
        yield from ledger.write()
        ledger.notify_access("epochs", changed=True)
        ledger.notify_access(self._object_name, changed=False)
        if self.closed:  # not held, and so it may be fenced
            ledger.notify_access("holders", changed=True)
        epoch = next(ledger._numbers)
        ledger.epochs[epoch] = Epoch(coordinator=coordinator, variant=variant)
        if not self.closed:
            ledger.holders[epoch] = self
        return epoch

    def resume_epoch(self, epoch: int, old: LedgerSession | None) -> Steps[bool]:
        """Hold an epoch in place of an older session of the same process; False if the epoch was fenced."""
        ledger = self._ledger
        if old is not None and old is not self:
            old.close()
        ledger.notify_access("holders", changed=True)
        ledger.notify_access(f"epoch {epoch}", changed=False)
        while (holder := ledger.holders.get(epoch)) is not None:
            ledger.notify_access(holder._object_name, changed=False)
            if holder._writing is None:
                break
            yield holder._writing  # its write may still succeed
            ledger.notify_access("holders", changed=True)
        if holder is not None and holder is not self:
            raise SqlError("55P03", "canceling statement due to lock timeout")
        if not self.closed:
            ledger.holders[epoch] = self
        return ledger.epochs[epoch].fenced_at is None

    def read(self, key: Key) -> Steps[Record | None]:
        """Return a transaction's record; None if there is none."""
        self._ledger.notify_access(f"decisions of {key[0]}", changed=False)
        return self._ledger.decisions.get(key)
        yield  # makes this a generator

    def fence(self, coordinator: str, own: Sequence[int]) -> Steps[list[KnownEpoch]]:
        """Fence the epochs of dead processes; return all fenced epochs."""
        ledger, now = self._ledger, self._ledger.kernel.now
        ledger.notify_access("holders", changed=False)
        gone = [
            epoch
            for epoch in self._of(coordinator)
            if ledger.epochs[epoch].fenced_at is None
            and epoch not in own
            and epoch not in ledger.holders
        ]
        if gone:
            yield from ledger.write()
            ledger.notify_access("holders", changed=True)
        for epoch in gone:
            ledger.notify_access(f"epoch {epoch}", changed=True)
            ledger.epochs[epoch].fenced_at = now
        return [
            KnownEpoch(epoch=epoch, variant=result.variant, fenced_s=now - result.fenced_at)
            for epoch in self._of(coordinator)
            if (result := ledger.epochs[epoch]).fenced_at is not None and epoch not in own
        ]

    def known(self, coordinator: str) -> Steps[list[KnownEpoch]]:
        """Return every epoch of a coordinator."""
        self._ledger.notify_access("epochs", changed=False)
        epochs = self._ledger.epochs
        return [KnownEpoch(epoch=one, variant=epochs[one].variant) for one in self._of(coordinator)]
        yield  # makes this a generator

    def decided(self, dead: Sequence[int], keys: Sequence[Key]) -> Steps[dict[Key, Record]]:
        """Return the records, of these epochs and transactions, that participants still need."""
        for epoch in sorted({*dead, *[key[0] for key in keys]}):
            self._ledger.notify_access(f"decisions of {epoch}", changed=False)
        return {
            key: record
            for key, record in sorted(self._ledger.decisions.items())
            if record.participants and (key[0] in dead or key in keys)
        }
        yield  # makes this a generator

    def closed_decisions(self, epoch: int) -> Steps[set[Key]]:
        """Return the transactions of an epoch whose records participants need no more."""
        self._ledger.notify_access(f"decisions of {epoch}", changed=False)
        decisions = self._ledger.decisions
        return {key for key in decisions if key[0] == epoch and not decisions[key].participants}
        yield  # makes this a generator

    def forget(self, keys: Sequence[Key]) -> Steps[None]:
        """Remove records, without waiting for the flush."""
        for key in keys:
            self._ledger.notify_access(f"decisions of {key[0]}", changed=True)
            self._ledger.decisions.pop(key, None)
        return
        yield  # makes this a generator

    def close_decision(self, key: Key) -> Steps[None]:
        """Remove the participants of a decision, which is kept as evidence."""
        self._ledger.notify_access(f"decisions of {key[0]}", changed=True)
        result = self._ledger.decisions.get(key)
        if result is not None:
            self._ledger.decisions[key] = Record(kind=result.kind, participants=())
        return
        yield  # makes this a generator

    def forget_epoch(self, epoch: int) -> Steps[None]:
        """Remove an epoch, unless participants still need a decision of it."""
        ledger = self._ledger
        for what in ("epochs", "holders", f"epoch {epoch}", f"decisions of {epoch}"):
            ledger.notify_access(what, changed=True)
        of_it = {key: record for key, record in ledger.decisions.items() if key[0] == epoch}
        if not any(record.participants for record in of_it.values()):
            ledger.epochs.pop(epoch, None)
            for key in of_it:
                del ledger.decisions[key]
        return
        yield  # makes this a generator

    def note(self, damage: LedgerDamage) -> Steps[None]:
        """Record damage, once."""
        self._ledger.notify_access("damage", changed=True)
        if damage not in self._ledger.damage:
            yield from self._ledger.write()
            self._ledger.notify_access("damage", changed=True)
            self._ledger.damage.append(damage)

    def _of(self, coordinator: str) -> list[int]:
        return [
            epoch for epoch, one in self._ledger.epochs.items() if one.coordinator == coordinator
        ]
