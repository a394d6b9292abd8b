"""Bugs of the decision log, and of the gids that it issues."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from twopc.drivers.ports import Key, KnownEpoch
from twopc.names import EpochIds
from twopc.protocol.effects import Record
from twopc.sim.model.explore.results import Budget, PlantedBug
from twopc.sim.model.ledger import DecisionLedger, LedgerSession
from twopc.sim.model.log_client import ModelLog
from twopc.sim.model.node.wal import LAZY_S
from twopc.sim.model.values import Cause, Label, RequestLostError, Steps
from twopc.sim.model.wiring import replacing


def kept_by(session: type[LedgerSession], ledger: type[DecisionLedger] = DecisionLedger) -> Any:
    """Return a plant that replaces the decision log by one with other sessions."""

    def connect(self: DecisionLedger) -> LedgerSession:
        if self._host() is None:
            raise RequestLostError("the decision log is down")
        return session(self)

    made = type("Ledger", (ledger,), {"connect": connect})
    return lambda wiring: replace(wiring, ledger=made)


class LazyLedger(DecisionLedger):
    """A log whose decisions stay in memory until a later write to disk."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.young: dict[Key, None] = {}

    def crash(self) -> None:
        """Lose the decisions that have not been written to disk."""
        super().crash()
        for key in self.young:
            self.decisions.pop(key, None)
        self.young.clear()


class LazySession(LedgerSession):
    """A session that acknowledges a decision before it is written to disk."""

    def log(self, entries: Sequence[tuple[Key, Record]]) -> Steps[None]:
        """Store the decisions in memory, and write them to disk later."""
        ledger = self._ledger
        assert isinstance(ledger, LazyLedger)
        for key, record in entries:
            ledger.notify_access(f"decisions of {key[0]}", changed=True)
            ledger.decisions[key] = record
            ledger.young[key] = None
        ledger.kernel.spawn(self._flush([key for key, _ in entries]), "a lazy disk")
        return
        yield  # makes this function a generator

    def _flush(self, keys: Sequence[Key]) -> Steps[None]:
        ledger = self._ledger
        assert isinstance(ledger, LazyLedger)
        label = Label(
            actor="a lazy disk", cause=Cause.FLUSH, what="it writes", touches=frozenset(("log",))
        )
        yield ledger.kernel.delay(LAZY_S, label)
        for key in keys:
            ledger.notify_access(f"decisions of {key[0]}", changed=True)
            ledger.young.pop(key, None)


class ExpiringSession(LedgerSession):
    """A session that deletes the decisions of dead processes as obsolete."""

    def fence(self, coordinator: str, own: Sequence[int]) -> Steps[list[KnownEpoch]]:
        """Fence the epochs, and delete their decisions."""
        result = yield from super().fence(coordinator, own)
        dead = {known.epoch for known in result}
        for epoch in sorted(dead):
            self._ledger.notify_access(f"decisions of {epoch}", changed=True)
        for key in [key for key in self._ledger.decisions if key[0] in dead]:
            del self._ledger.decisions[key]
        return result


class UnfencedSession(LedgerSession):
    """A session that takes all other epochs for dead without fencing them."""

    def fence(self, coordinator: str, own: Sequence[int]) -> Steps[list[KnownEpoch]]:
        """Return the other epochs as fenced, without fencing them."""
        epochs = self._ledger.epochs
        self._ledger.notify_access("epochs", changed=False)
        return [
            KnownEpoch(epoch=epoch, variant=epochs[epoch].variant, fenced_s=0.0)
            for epoch in self._of(coordinator)
            if epoch not in own
        ]
        yield  # makes this function a generator


class ProcessIds(EpochIds):
    """Gids with the number of the process instead of the epoch; in containers all processes have the same number."""

    def __init__(self, coordinator: str, epoch: int, branches: Any) -> None:
        super().__init__(coordinator, epoch, branches)
        self._prefix = self._prefix.replace(f":{epoch}:", ":7:")


class CallsByProcess(ModelLog):
    """A log that issues such gids."""

    ids = ProcessIds


_KILLED = Budget(of=("coordinator",), deviations=0)

PLANTS = (
    PlantedBug(
        name="unforced_decision",
        why="a decision that a power failure takes away was none",
        source="pgdog #1175",
        plant=kept_by(LazySession, LazyLedger),
        program="transfer",
        budget=Budget(of=("machine",), deviations=0),
        breaks=("I1", "I3", "I8"),
    ),
    PlantedBug(
        name="decision_expires",
        why="a decision does not expire: a participant may still need it",
        source="coordinators that keep decisions in a cache",
        plant=kept_by(ExpiringSession),
        program="transfer",
        budget=_KILLED,
        breaks=("I1", "I3", "I8"),
    ),
    PlantedBug(
        name="epoch",
        why="a process that was taken for dead must not decide any more",
        source="M. Kleppmann, fencing tokens",
        plant=kept_by(UnfencedSession),
        program="transfer",
        budget=Budget(of=("pause",), deviations=0),
        breaks=("I1", "I3", "I7"),
    ),
    PlantedBug(
        name="gid_from_process_id",
        why="a gid that is used again names another transaction's branch",
        source="pgdog #1271",
        plant=replacing(log=CallsByProcess),
        program="transfer",
        budget=_KILLED,
        breaks=("I1", "I3", "I5", "I8"),
    ),
)
