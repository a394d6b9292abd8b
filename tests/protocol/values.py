"""The values of which a world in memory consists; see `tests.protocol.world`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from tests.protocol.frozen import Frozen
from twopc.protocol.effects import Message, Outcome, Record, Timer
from twopc.protocol.variants import PRESUMED_ABORT, Settings

#: No bound: not counted down.
ANY = -1
_DEFAULT = Settings(variant=PRESUMED_ABORT)


class Packet(NamedTuple):
    """A message in transit."""

    source: str
    to: str
    message: Message
    participants: tuple[str, ...] = ()
    reason: str = ""


class Disk(NamedTuple):
    """A node's log of the transaction."""

    records: tuple[Record, ...] = ()
    durable: int = 0
    """Number of records that definitely survive a crash; each further one may survive."""
    pending: bool = False
    """Whether the last record is being forced."""

    @property
    def safe(self) -> tuple[Record, ...]:
        """The records that definitely survive a crash."""
        return self.records[: self.durable]


class Faults(NamedTuple):
    """Number of faults of each kind that may still occur."""

    crashes: int = 0
    losses: int = 0
    duplicates: int = 0
    unknown: int = 0
    """Lost connections: reported, while messages that were sent over them may still arrive."""
    log_faults: int = 0
    stale: int = 0
    """Timers that fire although they were cancelled, or never set."""
    work_failures: int = 0
    give_ups: int = 0
    by_hand: int = 0
    hasty: int = 0
    """Timers that fire although something else is due; `ANY` sets no bound."""


_NONE = Faults()


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The configuration of a world."""

    settings: Settings = _DEFAULT
    participants: tuple[str, ...] = ("a", "b")
    writers: frozenset[str] = frozenset({"a", "b", "c"})
    faults: Faults = _NONE


class State(NamedTuple):
    """The complete state of a world."""

    up: bool
    """Whether the coordinator's node is up."""
    machines: tuple[tuple[str, Frozen], ...]
    """The coordinator's machines: the transaction's under ``""``, resolvers under their branch."""
    branches: tuple[Frozen | None, ...]
    """None: the participant's node is down."""
    disks: tuple[Disk, ...]
    """The coordinator's disk first."""
    net: frozenset[Packet]
    timers: frozenset[tuple[str, str, Timer]]
    """Node, machine and name."""
    reading: bool
    """Whether the coordinator's log is being read back."""
    answer: Outcome | None
    """The answer that the application got."""
    seen: tuple[Outcome | None, ...]
    """The outcome that each branch that wrote has had at any time."""
    damage: bool
    """Whether an outcome by hand was reported."""
    faults: Faults
